//! Handles the requests of a consumer, method by method.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracezero_core::coordination::FlushFlags;
use tracezero_core::ids::SessionId;
use tracezero_core::received_file::ReceivedFile;
use tracezero_ipc::consumer_port::events::ObservedEvents;
use tracezero_ipc::consumer_port::replies::{
    Capabilities, Cloned, PacketTotals, attached, capabilities, cloned, packet_totals,
    saved_for_bugreport, trace_stats, tracing_disabled,
};
use tracezero_ipc::consumer_port::requests::{self, CloneSession, Request};
use tracezero_ipc::consumer_port::{Method, REPLY_MAX_BYTES, SERVICE};
use tracezero_service::{
    CloneRequest, CloneSource, FlushOutcome, LockdownMode, ReceivedTrigger, Recording,
    SessionRequest, TraceFile, TraceOutput,
};

use crate::file_session::write_on_thread;
use crate::file_waker::FileWaker;
use crate::host::Host;
use crate::limits::{CONSUMER_QUEUE_MAX_BYTES, QUERIES_MAX};
use crate::log::Subject;
use crate::outgoing::Outgoing;
use crate::peer::Peer;
use crate::port::{Answer, EndConnection, Invocation, Port};
use crate::reading::Reading;
use crate::remote_consumer::RemoteConsumer;
use crate::state_reply::service_state_parts;

/// A consumer's connection. It has at most one session.
pub(crate) struct ConsumerPort {
    host: Arc<Host>,
    peer: Peer,
    outgoing: Arc<Outgoing>,
    consumer: Arc<RemoteConsumer>,
    has_called: bool,
    reading: Option<Reading>,
    /// Replies to queries, each in parts, of which a few are queued at a time.
    backlog: VecDeque<(u64, VecDeque<Vec<u8>>)>,
    /// The size of the last part of a trace that was sent, in bytes.
    last_part_bytes: usize,
}

impl ConsumerPort {
    pub(crate) fn new(host: Arc<Host>, peer: Peer, outgoing: Arc<Outgoing>) -> Self {
        let noted = Arc::clone(&host.noted);
        Self {
            consumer: Arc::new(RemoteConsumer::new(Arc::clone(&outgoing), noted)),
            host,
            peer,
            outgoing,
            has_called: false,
            reading: None,
            backlog: VecDeque::new(),
            last_part_bytes: 0,
        }
    }

    /// Sends the next part of a list or of a trace that the consumer has asked for.
    pub(crate) fn go_on(&mut self) {
        if let Some((request_id, parts)) = self.backlog.front_mut() {
            let part = parts.pop_front().unwrap_or_default();
            if !parts.is_empty() {
                self.outgoing.reply_and_go_on(*request_id, &part);
                return;
            }
            self.outgoing.reply(*request_id, Some(&part));
            self.backlog.pop_front();
        } else if let Some(reading) = &mut self.reading {
            let has_more = reading.send_part(&self.host.service, &self.outgoing);
            self.last_part_bytes = reading.part_bytes();
            if !has_more {
                self.reading = None;
            }
        }
    }

    /// Returns true if there is more to send once the consumer has taken the waiting replies.
    pub(crate) fn has_more(&self) -> bool {
        !self.backlog.is_empty() || self.reading.is_some()
    }

    /// Returns true if the consumer has not freed a session whose trace it reads itself.
    pub(crate) fn is_reader(&self) -> bool {
        self.session_to_read().is_some()
    }

    /// Returns the session whose trace the consumer reads itself.
    fn session_to_read(&self) -> Option<SessionId> {
        let session = self.consumer.session()?;
        let has_file = self.host.service.writes_into_file(session);
        (!has_file).then_some(session)
    }

    /// Returns how many bytes may wait for the consumer. A part of a trace consists of whole
    /// packets, so it may be longer than the usual limit.
    pub(crate) fn queue_max_bytes(&self) -> usize {
        CONSUMER_QUEUE_MAX_BYTES + self.last_part_bytes
    }

    /// Returns true if the consumer's user has the rights of the daemon anyway.
    fn has_rights_of_daemon(&self) -> bool {
        self.peer.uid == 0 || self.peer.uid == self.host.uid
    }

    /// Starts a session. The protocol has a reply only for the end of a session, so a session that
    /// cannot start is reported as ended.
    fn enable_tracing(
        &self,
        encoded: &[u8],
        request_id: u64,
        descriptor: Option<ReceivedFile>,
    ) -> Answer {
        match self.enable(encoded, request_id, descriptor) {
            Ok(()) => Answer::Later,
            Err(reason) => {
                let uid = self.peer.uid;
                let line = format_args!("a session of user {uid} was refused: {reason}");
                self.host.log.line(Subject::Session, line);
                Answer::Reply(tracing_disabled(Some(&reason)))
            }
        }
    }

    fn enable(
        &self,
        encoded: &[u8],
        request_id: u64,
        descriptor: Option<ReceivedFile>,
    ) -> Result<(), String> {
        self.check_new_session()?;
        let recording = self.recording(encoded)?;
        let file = self.trace_file(&recording, descriptor)?;
        let waker = file.as_ref().map(|_| Arc::<FileWaker>::default());
        self.consumer.expect_session(request_id, waker.clone());
        let enabled = self.host.service.enable(SessionRequest {
            recording: Arc::new(recording),
            uid: self.peer.uid,
            owner: Arc::clone(&self.consumer) as _,
            writes_into_file: file.is_some(),
            wake: waker
                .clone()
                .map(|waker| Arc::new(move || waker.wake()) as _),
            crash_files: None,
        });
        let session = enabled.map_err(|error| {
            self.consumer.expect_no_session();
            error.to_string()
        })?;
        // This succeeds, because the connection is open: only this thread closes it.
        let _ = self.consumer.set_session(session);
        let (Some(file), Some(waker)) = (file, waker) else {
            return Ok(());
        };
        let output = TraceOutput::new(file);
        self.host.service.attach_output(session, output);
        let (consumer, own_waker) = (Arc::clone(&self.consumer), Arc::clone(&waker));
        let started = write_on_thread(&self.host, session, waker, move |outcome| {
            consumer.file_is_closed(&own_waker, outcome);
        });
        started.map_err(|error| {
            self.free_session();
            self.consumer.expect_no_session();
            format!("no thread can write the file: {error}")
        })
    }

    /// Fails if the consumer may not have a session now.
    fn check_new_session(&self) -> Result<(), &'static str> {
        // Relaxed: as in `Daemon::end_sessions`.
        if self.host.is_ending.load(Ordering::Relaxed) {
            return Err("the daemon ends; start the session again when it has restarted");
        }
        match self.consumer.is_taken() {
            true => Err("this connection has a session already; free it first"),
            false => Ok(()),
        }
    }

    /// Decodes a configuration, and leaves out what this consumer may not do.
    fn recording(&self, encoded: &[u8]) -> Result<Recording, String> {
        let (mut recording, mut ignored) =
            Recording::foreign(encoded).map_err(|error| error.to_string())?;
        recording.config.records_all =
            self.host.records_all && !recording.config.buffers.is_empty();
        let uid = self.peer.uid;
        // The command `perfetto` always sends these fields. They are for programs of Android.
        ignored.retain(|field| !["statsd_metadata", "statsd_logging"].contains(&field.as_str()));
        // A lockdown would lock out the producers of all other users.
        let lockdown_mode = &mut recording.config.lockdown_mode;
        if !self.has_rights_of_daemon() && *lockdown_mode != LockdownMode::Unchanged {
            *lockdown_mode = LockdownMode::Unchanged;
            ignored.push("lockdown_mode".to_owned());
        }
        if !ignored.is_empty() {
            self.host.log.line(
                Subject::Session,
                format_args!(
                    "a configuration of user {uid} has fields that are ignored: {}",
                    ignored.join(", ")
                ),
            );
        }
        Ok(recording)
    }

    /// Returns the file that a session writes into, if it writes into one.
    fn trace_file(
        &self,
        recording: &Recording,
        descriptor: Option<ReceivedFile>,
    ) -> Result<Option<TraceFile>, String> {
        let config = &recording.config;
        if !config.write_into_file {
            return Ok(None);
        }
        match (&config.output_path, descriptor) {
            (None, Some(descriptor)) => Ok(Some(TraceFile::of_other_process(descriptor))),
            (None, None) => Err("write_into_file needs a file: none came with the request".into()),
            (Some(_), Some(_)) => Err("output_path was given and also a file; give one".into()),
            (Some(path), None) => {
                let created = match &self.host.output_folder {
                    _ if self.has_rights_of_daemon() => {
                        TraceFile::create_new(Path::new(path)).map_err(io::Error::from)
                    }
                    // The file must belong to the consumer's user, who is not known on a network.
                    Some(folder) if !self.peer.is_on_network => {
                        folder.create(Path::new(path), self.peer.uid)
                    }
                    Some(_) | None => {
                        return Err(
                            "output_path needs the user that the daemon runs as, or the \
                                    daemon's option --output-dir; open the file and pass it"
                                .into(),
                        );
                    }
                };
                let file = created
                    .map_err(|error| format!("output_path {path:?} cannot be created: {error}"))?;
                Ok(Some(file))
            }
        }
    }

    fn free_session(&self) {
        if let Some(session) = self.consumer.take_session() {
            self.host.service.free(session);
        }
    }

    fn read_buffers(&mut self, request_id: u64) -> Answer {
        match self.session_to_read() {
            Some(session) if self.reading.is_none() => {
                self.reading = Some(Reading::new(session, request_id));
                Answer::Later
            }
            Some(_) | None => Answer::EMPTY,
        }
    }

    fn detach(&mut self, key: &str) -> Answer {
        let Some(session) = self.consumer.session() else {
            return Answer::Failed;
        };
        if key.is_empty()
            || !self
                .host
                .detached
                .insert(self.peer.uid, key, &self.consumer)
        {
            return Answer::Failed;
        }
        self.reading = None;
        let noted = Arc::clone(&self.host.noted);
        let successor = RemoteConsumer::new(Arc::clone(&self.outgoing), noted);
        let former = std::mem::replace(&mut self.consumer, Arc::new(successor));
        former.detach();
        let id = session.value();
        self.host
            .log
            .line(Subject::Session, format_args!("session {id} is detached"));
        Answer::EMPTY
    }

    fn attach(&mut self, key: &str) -> Answer {
        if self.consumer.is_taken() {
            return Answer::Failed;
        }
        let Some(consumer) = self.host.detached.remove(self.peer.uid, key) else {
            return Answer::Failed;
        };
        consumer.attach(Arc::clone(&self.outgoing));
        self.consumer = consumer;
        let session = self.consumer.session();
        let recording = session.and_then(|session| self.host.service.recording(session));
        let Some(recording) = recording else {
            return Answer::Failed;
        };
        let reply = attached(recording.encoded());
        match reply.len() <= REPLY_MAX_BYTES {
            true => Answer::Reply(reply),
            false => Answer::Reply(attached(&[])),
        }
    }

    fn trace_stats(&self) -> Answer {
        let session = self.consumer.session();
        let Some(mut stats) = session.and_then(|it| self.host.service.stats(it)) else {
            return Answer::Failed;
        };
        let mut reply = trace_stats(&stats.encode());
        if reply.len() > REPLY_MAX_BYTES {
            // The statistics of so many writers do not fit into a reply.
            stats.writers.clear();
            reply = trace_stats(&stats.encode());
        }
        Answer::Reply(reply)
    }

    fn packet_totals(&self) -> Answer {
        let service = &self.host.service;
        let session = self.consumer.session();
        let found = session.and_then(|it| Some((service.stats(it)?, service.read_counts(it))));
        let Some((stats, counts)) = found else {
            return Answer::Failed;
        };
        let mut totals = PacketTotals {
            events: counts.events,
            data_packets: counts.data_packets,
            ..PacketTotals::default()
        };
        for account in &stats.sequences {
            totals.begun += account.begun;
            totals.lost += account.lost();
        }
        Answer::Reply(packet_totals(totals))
    }

    fn flush(&self, session: SessionId, timeout_ms: u32, flags: FlushFlags, request_id: u64) {
        let outgoing = Arc::clone(&self.outgoing);
        let done = move |outcome| {
            let reply: Option<&[u8]> = match outcome {
                FlushOutcome::Succeeded => Some(&[]),
                FlushOutcome::Failed => None,
            };
            outgoing.reply(request_id, reply);
        };
        self.host.service.flush(session, timeout_ms, flags, done);
    }

    fn clone_session(
        &self,
        request: &CloneSession<'_>,
        request_id: u64,
        descriptor: Option<ReceivedFile>,
    ) -> Answer {
        if let Err(reason) = self.check_new_session() {
            return Answer::Reply(cloned(Err(reason)));
        }
        let output = descriptor.map(|file| TraceOutput::new(TraceFile::of_other_process(file)));
        let done = {
            let (host, consumer) = (Arc::clone(&self.host), Arc::clone(&self.consumer));
            let outgoing = Arc::clone(&self.outgoing);
            move |outcome: Result<SessionId, tracezero_service::SessionError>| match outcome {
                Ok(session) => clone_is_made(&host, &consumer, &outgoing, request_id, session),
                Err(error) => {
                    consumer.expect_no_clone();
                    outgoing.reply(request_id, Some(&cloned(Err(&error.to_string()))));
                }
            }
        };
        self.consumer.expect_clone();
        self.host.service.clone_session(CloneRequest {
            source: match request.source {
                requests::CloneSource::Id(requests::BEST_FOR_BUGREPORT) => {
                    CloneSource::BestForBugreport
                }
                requests::CloneSource::Id(id) => CloneSource::Id(SessionId::new(id)),
                requests::CloneSource::Name(name) => CloneSource::Name(name.to_owned()),
            },
            uid: self.peer.uid,
            owner: Arc::clone(&self.consumer) as _,
            output,
            trigger: request.trigger.as_ref().map(|trigger| ReceivedTrigger {
                timestamp_ns: trigger.boot_time_ns,
                name: trigger.name.to_owned(),
                producer_name: trigger.producer_name.to_owned(),
                producer_uid: u32::try_from(trigger.uid).ok(),
                stop_delay_ms: u32::try_from(trigger.delay_ms).unwrap_or(u32::MAX),
            }),
            done: Box::new(done),
        });
        Answer::Later
    }
}

/// Gives a clone to its consumer. If the clone has a file, replies only after the file is complete.
fn clone_is_made(
    host: &Arc<Host>,
    consumer: &Arc<RemoteConsumer>,
    outgoing: &Arc<Outgoing>,
    request_id: u64,
    session: SessionId,
) {
    if !consumer.set_session(session) {
        host.service.free(session);
        return;
    }
    let uuid = host.service.uuid(session).unwrap_or_default();
    let has_file = host.service.has_output(session);
    let reply = cloned(Ok(Cloned {
        uuid,
        was_written_into_file: has_file,
    }));
    let outgoing = Arc::clone(outgoing);
    if !has_file {
        outgoing.reply(request_id, Some(&reply));
        return;
    }
    let waker = Arc::<FileWaker>::default();
    let to_consumer = Arc::clone(&outgoing);
    let started = write_on_thread(host, session, waker, move |outcome| {
        let reply = outcome.map_or_else(|reason| cloned(Err(&reason)), |()| reply);
        to_consumer.reply(request_id, Some(&reply));
    });
    if let Err(error) = started {
        let reason = format!("no thread can write the file: {error}");
        outgoing.reply(request_id, Some(&cloned(Err(&reason))));
    }
}

impl Port for ConsumerPort {
    const SERVICE: &'static str = SERVICE;

    fn methods() -> Vec<(&'static str, u32)> {
        Method::ALL.map(|it| (it.name(), it.id())).to_vec()
    }

    fn invoke(
        &mut self,
        invocation: &Invocation<'_>,
        descriptor: &mut Option<ReceivedFile>,
    ) -> Result<Answer, EndConnection> {
        self.has_called = true;
        let request_id = invocation.request_id;
        let method = Method::from_id(invocation.method_id);
        let Some(Ok(request)) = method.map(|it| Request::decode(it, invocation.args)) else {
            return Ok(Answer::Failed);
        };
        let service = &self.host.service;
        let session = self.consumer.session();
        Ok(match &request {
            Request::EnableTracing {
                attaches_notification_only: true,
                ..
            } => {
                self.consumer.await_end(request_id);
                Answer::Later
            }
            Request::EnableTracing { config, .. } => {
                self.enable_tracing(config, request_id, descriptor.take())
            }
            Request::DisableTracing => {
                session.inspect(|session| service.disable(*session));
                Answer::EMPTY
            }
            Request::ReadBuffers => self.read_buffers(request_id),
            Request::FreeBuffers => {
                self.reading = None;
                self.free_session();
                Answer::EMPTY
            }
            Request::Flush { timeout_ms, flags } => {
                // Like Perfetto's service, never answers if there is no session.
                if let Some(session) = session {
                    self.flush(session, *timeout_ms, *flags, request_id);
                }
                Answer::Later
            }
            Request::StartTracing => {
                session.inspect(|session| service.start(*session));
                Answer::EMPTY
            }
            Request::ChangeTraceConfig { config } => {
                if let (Some(session), Ok(recording)) = (session, self.recording(config)) {
                    service.change_config(session, Arc::new(recording));
                }
                Answer::EMPTY
            }
            Request::Detach { key } => self.detach(key),
            Request::Attach { key } => self.attach(key),
            Request::GetTraceStats => self.trace_stats(),
            Request::ObserveEvents(events) => {
                self.consumer.observe(request_id, *events, service);
                Answer::Later
            }
            Request::QueryServiceState { .. } if self.backlog.len() >= QUERIES_MAX => {
                Answer::Failed
            }
            Request::QueryServiceState { sessions_only } => {
                let uid = self.peer.uid;
                let parts = service_state_parts(&self.host, uid, *sessions_only);
                self.backlog.push_back((request_id, parts));
                self.go_on();
                Answer::Later
            }
            Request::QueryCapabilities => Answer::Reply(capabilities(&Capabilities {
                events: ObservedEvents {
                    instances: true,
                    all_started: true,
                    clone_triggers: true,
                },
                has_output_path: self.has_rights_of_daemon() || self.host.output_folder.is_some(),
                has_clone_session: true,
            })),
            Request::SaveTraceForBugreport => Answer::Reply(saved_for_bugreport(
                "not supported; clone the session for the bug report",
            )),
            Request::CloneSession(request) => {
                self.clone_session(request, request_id, descriptor.take())
            }
            Request::TracezeroPacketTotals => self.packet_totals(),
        })
    }

    fn is_introduced(&self) -> bool {
        self.has_called
    }
}

impl Drop for ConsumerPort {
    fn drop(&mut self) {
        if let Some(session) = self.consumer.close() {
            self.host.service.free(session);
        }
    }
}
