//! A session of a daemon, and the connection that it belongs to.

use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use protozero::append_varint;
use tracezero_core::coordination::FlushFlags;
use tracezero_ipc::consumer_port::events::{ObservedEvents, decode_observed};
use tracezero_ipc::consumer_port::read_buffers::decode_slices;
use tracezero_ipc::consumer_port::replies::{
    decode_packet_totals, decode_trace_stats, decode_tracing_disabled,
};
use tracezero_ipc::consumer_port::requests::Request;

use crate::consumer::{Consumer, daemon_state};
use crate::daemon_state::DaemonState;
use crate::error::ConsumerError;
use crate::port::{ANSWER_LIMIT, Asked, Port};
use crate::session_event::SessionEvent;

/// The tag of a packet in a trace file.
const PACKET_TAG: u8 = 0x0a;

/// How long [`DaemonSession::stop`] waits: the daemon gives data sources several seconds to flush and
/// to stop, and then the file is written.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The event that each session observes.
const ALL_STARTED: ObservedEvents = ObservedEvents {
    instances: false,
    all_started: true,
    clone_triggers: false,
};

/// A session of a tracing daemon.
///
/// Dropping it closes the connection: the daemon then ends the session and frees its buffers. To let it
/// go on, [detach](Self::detach) it.
///
/// ```no_run
/// use std::fs::File;
/// use std::time::Duration;
///
/// use tracezero_consumer::Consumer;
///
/// # let config: Vec<u8> = Vec::new();
/// let mut session = Consumer::connect()?.start(&config)?;
/// session.wait_until_started(Duration::from_secs(5))?;
/// std::thread::sleep(Duration::from_secs(1));
/// session.stop()?;
/// session.read(File::create("machine.pftrace")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping the session ends it"]
pub struct DaemonSession {
    port: Port,
    /// The request whose reply says that the session has ended; `None` for clones, and after that reply.
    end: Option<Asked>,
    observation: Option<Asked>,
    /// True if events of all kinds are observed; false if only the start of all data sources is.
    observes_all: bool,
    events: VecDeque<SessionEvent>,
    has_started: bool,
}

/// Packet counts of a session so far. An event is a packet; data sources and the daemon write others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketTotals {
    /// The packets that threads have begun.
    pub begun: u64,
    /// The packets that are lost.
    pub lost: u64,
    /// The track events that are in the file already, or that this consumer has read.
    pub events: u64,
    /// The packets of other data sources, likewise.
    pub data_packets: u64,
}

impl DaemonSession {
    /// Asks for a session, and waits until the daemon has taken or refused it.
    pub(crate) fn enable(
        mut port: Port,
        config: &[u8],
        file: Option<OwnedFd>,
    ) -> Result<Self, ConsumerError> {
        let request = Request::EnableTracing {
            config,
            attaches_notification_only: false,
        };
        // Asks for events before the session, because `traced` reports only once that all data
        // sources have started.
        let observation = port.ask(&Request::ObserveEvents(ALL_STARTED), None)?;
        let end = port.ask(&request, file)?;
        let mut session = Self::new(port, Some(end));
        session.observation = Some(observation);
        // The reply to `EnableTracing` comes only when the session has ended or was refused. So this
        // asks for the statistics, which fails if the daemon has refused the session.
        match session.stats() {
            Ok(_) => Ok(session),
            Err(ConsumerError::Failed { .. }) => Err(session.refusal(end)?),
            Err(error) => Err(error),
        }
    }

    /// Waits for the reason why the daemon has refused the session.
    fn refusal(&mut self, asked: Asked) -> Result<ConsumerError, ConsumerError> {
        let reply = self.port.reply_within(asked, ANSWER_LIMIT)?;
        let reason = decode_tracing_disabled(&reply)
            .map_err(|error| ConsumerError::malformed(asked.method, error))?;
        let reason = reason.unwrap_or("it gives no reason").to_owned();
        Ok(ConsumerError::Refused { reason })
    }

    /// Takes over a session that was attached.
    pub(crate) fn attached(mut port: Port) -> Result<Self, ConsumerError> {
        let request = Request::EnableTracing {
            config: &[],
            attaches_notification_only: true,
        };
        let end = port.ask(&request, None)?;
        let mut session = Self::new(port, Some(end));
        session.has_started = true;
        Ok(session)
    }

    /// Takes over a clone, which has ended.
    pub(crate) fn cloned(port: Port) -> Self {
        let mut clone = Self::new(port, None);
        clone.has_started = true;
        clone
    }

    fn new(port: Port, end: Option<Asked>) -> Self {
        Self {
            port,
            end,
            observation: None,
            observes_all: false,
            events: VecDeque::new(),
            has_started: false,
        }
    }

    /// Starts the data sources of a session whose configuration has `deferred_start`.
    ///
    /// # Errors
    ///
    /// If the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn start_tracing(&mut self) -> Result<(), ConsumerError> {
        self.port.call(&Request::StartTracing).map(drop)
    }

    /// Waits until all data sources have started. Returns false if they have not within `timeout`. A
    /// session that was attached counts as started.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Refused`] if the session has ended before, and those of a failing connection.
    pub fn wait_until_started(&mut self, timeout: Duration) -> Result<bool, ConsumerError> {
        let end = Instant::now() + timeout;
        while !self.has_started {
            let rest = end.saturating_duration_since(Instant::now());
            if !self.receive_events(rest)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the next event of the session. At the first call, these are the instances of data sources
    /// that there are. Returns `None` if there is none within `timeout`.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Refused`] if the session has ended, and those of a failing connection.
    pub fn next_event(&mut self, timeout: Duration) -> Result<Option<SessionEvent>, ConsumerError> {
        self.observe_all()?;
        if self.events.is_empty() {
            self.receive_events(timeout)?;
        }
        Ok(self.events.pop_front())
    }

    /// Asks for events of all kinds, unless this was done before.
    fn observe_all(&mut self) -> Result<(), ConsumerError> {
        if !self.observes_all {
            let request = Request::ObserveEvents(ObservedEvents {
                instances: true,
                clone_triggers: true,
                ..ALL_STARTED
            });
            // This request ends the replies to the earlier one.
            self.observation = Some(self.port.ask(&request, None)?);
            self.observes_all = true;
        }
        Ok(())
    }

    /// Waits for events. Returns false if none have come in time.
    fn receive_events(&mut self, timeout: Duration) -> Result<bool, ConsumerError> {
        let Some(asked) = self.observation else {
            return Ok(false);
        };
        let Some(reply) = self.port.poll_reply(asked, timeout)? else {
            return Ok(false);
        };
        if !reply.has_more {
            // The session has ended.
            let reason = match self.end_reason(Duration::ZERO)? {
                Some(Some(reason)) => reason,
                _ => "the session has ended".to_owned(),
            };
            return Err(ConsumerError::Refused { reason });
        }
        let bytes = reply.success(asked)?;
        let events = decode_observed(&bytes)
            .map_err(|error| ConsumerError::malformed(asked.method, error))?;
        for event in events.iter().map(SessionEvent::new) {
            self.has_started |= event == SessionEvent::AllStarted;
            self.events.push_back(event);
        }
        Ok(true)
    }

    /// Asks data sources to hand over what they hold. Returns false if some have not within `timeout`.
    ///
    /// # Errors
    ///
    /// If the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn flush(&mut self, timeout: Duration) -> Result<bool, ConsumerError> {
        // With 0, the daemon would choose the timeout.
        let timeout_ms = u32::try_from(timeout.as_millis())
            .unwrap_or(u32::MAX)
            .max(1);
        let flags = FlushFlags::explicit();
        let asked = self.port.ask(&Request::Flush { timeout_ms, flags }, None)?;
        let reply = self
            .port
            .next_reply(asked, timeout.saturating_add(ANSWER_LIMIT))?;
        Ok(reply.bytes.is_some())
    }

    /// Changes the configuration of the session. Daemons change only the `producer_name_filter` of
    /// data sources.
    ///
    /// # Errors
    ///
    /// If the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn change_config(&mut self, config: &[u8]) -> Result<(), ConsumerError> {
        self.port
            .call(&Request::ChangeTraceConfig { config })
            .map(drop)
    }

    /// Returns the statistics of the session, an encoded `perfetto.protos.TraceStats`.
    ///
    /// # Errors
    ///
    /// If the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn stats(&mut self) -> Result<Vec<u8>, ConsumerError> {
        let reply = self.port.call(&Request::GetTraceStats)?;
        let stats = decode_trace_stats(&reply)
            .map_err(|error| ConsumerError::malformed("GetTraceStats", error))?;
        Ok(stats.to_vec())
    }

    /// Returns how many packets the session has so far, and how many of them are lost.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::NoSuchMethod`] if the daemon is Perfetto's `traced`, which does not count packets.
    /// Otherwise those of a [connection that fails](ConsumerError#a-connection-that-fails).
    pub fn packet_totals(&mut self) -> Result<PacketTotals, ConsumerError> {
        let reply = self.port.call(&Request::TracezeroPacketTotals)?;
        let totals = decode_packet_totals(&reply)
            .map_err(|error| ConsumerError::malformed("TracezeroPacketTotals", error))?;
        Ok(PacketTotals {
            begun: totals.begun,
            lost: totals.lost,
            events: totals.events,
            data_packets: totals.data_packets,
        })
    }

    /// Asks what the daemon has, as [`Consumer::daemon_state`] does.
    ///
    /// # Errors
    ///
    /// If the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn daemon_state(&mut self) -> Result<DaemonState, ConsumerError> {
        daemon_state(&mut self.port)
    }

    /// Waits until the session has ended, by its configuration or because it was stopped. Returns false
    /// if it has not within `timeout`.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Refused`] if the session has ended for a reason that was not planned, such as a
    /// file that cannot be written, and those of a failing connection.
    pub fn has_ended(&mut self, timeout: Duration) -> Result<bool, ConsumerError> {
        match self.end_reason(timeout)? {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(reason)) => Err(ConsumerError::Refused { reason }),
        }
    }

    /// Waits for the end of the session. Returns `None` if the session has not ended within
    /// `timeout`. The inner value is the reason, if the end was not planned.
    fn end_reason(&mut self, timeout: Duration) -> Result<Option<Option<String>>, ConsumerError> {
        let Some(asked) = self.end else {
            return Ok(Some(None));
        };
        let Some(reply) = self.port.poll_reply(asked, timeout)? else {
            return Ok(None);
        };
        self.end = None;
        let bytes = reply.success(asked)?;
        let reason = decode_tracing_disabled(&bytes)
            .map_err(|error| ConsumerError::malformed(asked.method, error))?;
        Ok(Some(reason.map(str::to_owned)))
    }

    /// Ends the session: data sources flush and stop. Waits until they have stopped, and until the
    /// file of the session, if any, is complete.
    ///
    /// # Errors
    ///
    /// The errors of [`has_ended`](Self::has_ended), and [`ConsumerError::NoAnswer`] after a
    /// minute.
    pub fn stop(&mut self) -> Result<(), ConsumerError> {
        if self.end.is_none() {
            return Ok(());
        }
        let asked = self.port.ask(&Request::DisableTracing, None)?;
        match self.has_ended(STOP_LIMIT)? {
            true => {
                self.port.forget(asked);
                Ok(())
            }
            false => Err(ConsumerError::NoAnswer {
                method: asked.method,
                waited: STOP_LIMIT,
            }),
        }
    }

    /// Reads the packets that the session has, and writes them to `out` as a trace file. Returns their
    /// number. While the session goes on, a later call reads what has come since: each packet of a
    /// producer is read once, and packets of the daemon itself, such as statistics, may come again.
    /// The trace is whole if the session was [stopped](Self::stop) before.
    ///
    /// Nothing can be read of a session that writes into a file.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Output`], and those of a failing connection.
    pub fn read(&mut self, mut out: impl Write) -> Result<u64, ConsumerError> {
        let asked = self.port.ask(&Request::ReadBuffers, None)?;
        let (mut packets, mut packet, mut head) = (0, Vec::new(), Vec::new());
        loop {
            let reply = self.port.next_reply(asked, ANSWER_LIMIT)?;
            let has_more = reply.has_more;
            for slice in decode_slices(&reply.success(asked)?) {
                let slice = slice.map_err(|error| ConsumerError::malformed(asked.method, error))?;
                packet.extend_from_slice(slice.data);
                if slice.ends_packet {
                    head.clear();
                    head.push(PACKET_TAG);
                    append_varint(packet.len() as u64, &mut head);
                    out.write_all(&head).map_err(ConsumerError::Output)?;
                    out.write_all(&packet).map_err(ConsumerError::Output)?;
                    packet.clear();
                    packets += 1;
                }
            }
            if !has_more {
                break;
            }
        }
        out.flush().map_err(ConsumerError::Output)?;
        Ok(packets)
    }

    /// Leaves the session without its consumer. A consumer of the same user can
    /// [attach](Consumer::attach) to it by this key, until it has ended.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Failed`] if another session has this key; the session then ends. Otherwise those
    /// of a failing connection.
    pub fn detach(mut self, key: &str) -> Result<Consumer, ConsumerError> {
        self.port.call(&Request::Detach { key })?;
        Ok(Consumer { port: self.port })
    }

    /// Ends the session, frees its buffers, and returns the connection.
    ///
    /// # Errors
    ///
    /// If the [connection fails](ConsumerError#a-connection-that-fails).
    pub fn free(mut self) -> Result<Consumer, ConsumerError> {
        self.port.call(&Request::FreeBuffers)?;
        for asked in [self.end, self.observation].into_iter().flatten() {
            self.port.forget(asked);
        }
        Ok(Consumer { port: self.port })
    }
}
