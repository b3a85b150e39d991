//! The events of a trace, one after the other, with what they refer to looked up.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::damage::Damage;
use super::error::ReadError;
use super::names::NameTable;
use super::packet::{Packet, PacketHead};
use super::packets::{PacketReader, PacketStep, RawPacket};
use super::record::{Loss, OtherPacket, Record, Skipped};
use super::trace_state::{Reading, TraceState};
use super::tracks::TrackTable;

/// Reads the events of a trace in the order of the file.
///
/// Memory is bounded however long the trace is, but for its tracks: each takes about 100 bytes.
///
/// ```
/// use tracezero::reader::{Record, TraceReader};
/// use tracezero::{InMemorySession, span};
///
/// let session = InMemorySession::start()?;
/// drop(span!("app", "work", rows = 3));
/// let (trace, _) = session.finish();
///
/// let mut reader = TraceReader::new(&trace[..]);
/// let mut names = Vec::new();
/// while let Some(record) = reader.next()? {
///     if let Record::Event(event) = record {
///         names.push(event.name().to_owned());
///     }
/// }
/// assert_eq!(names, ["work", ""]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TraceReader<R> {
    packets: PacketReader<R>,
    state: TraceState,
    /// The head of a packet that told of a loss, and is not done yet.
    pending: Option<PacketHead>,
}

/// A step that has been made.
pub(super) enum Step {
    Packet(PacketHead, Reading),
    Loss(Loss),
    Damage(Damage),
}

impl TraceReader<File> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        PacketReader::open(path).map(Self::from_packets)
    }
}

impl<R> TraceReader<R> {
    /// Reads from a source of bytes, which needs no buffer of its own.
    #[must_use]
    pub fn new(source: R) -> Self {
        Self::from_packets(PacketReader::new(source))
    }

    fn from_packets(packets: PacketReader<R>) -> Self {
        Self {
            packets,
            state: TraceState::default(),
            pending: None,
        }
    }

    /// The names of the trace so far.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        &self.state.names
    }

    /// The tracks of the trace so far.
    #[must_use]
    pub const fn tracks(&self) -> &TrackTable {
        &self.state.tracks
    }

    /// The clock that times are on, as `ClockSnapshot` numbers them.
    #[must_use]
    pub const fn trace_clock_id(&self) -> u32 {
        self.state.clocks.trace_clock_id()
    }

    /// The packet of the last record, as it stands in the trace.
    #[must_use]
    pub fn packet(&self) -> RawPacket<'_> {
        self.packets.last()
    }

    /// How far the file has been read, in bytes.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.packets.offset()
    }

    /// Packets read so far.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.packets.packets()
    }

    /// Sequences whose definitions were forgotten, because all of them together would take too much
    /// memory. If one of them goes on, its packets are skipped.
    #[must_use]
    pub const fn forgotten_sequences(&self) -> u64 {
        self.state.sequences.forgotten()
    }

    /// What packets so far have said.
    pub(super) const fn state(&self) -> &TraceState {
        &self.state
    }
}

impl<R: Read> TraceReader<R> {
    /// The next record; `None` at the end of the trace.
    ///
    /// # Errors
    ///
    /// If the source fails, is no trace, or is compressed in a way that this build cannot unpack.
    // An iterator cannot lend out what it owns.
    #[expect(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        let step = self.step()?;
        Ok(step.map(|step| self.record(step)))
    }

    #[inline]
    pub(super) fn step(&mut self) -> Result<Option<Step>, ReadError> {
        loop {
            self.state.anomalies.clear();
            if let Some(head) = self.pending.take() {
                let reading = self.state.read(&head, self.packets.last());
                return Ok(Some(Step::Packet(head, reading)));
            }
            match self.packets.step()? {
                None => return Ok(None),
                Some(PacketStep::Damage(damage)) => return Ok(Some(Step::Damage(damage))),
                Some(PacketStep::Packet) => {}
            }
            let packet = self.packets.last();
            let head = match PacketHead::decode(packet.bytes) {
                Ok(head) => head,
                Err(error) => {
                    self.packets.reject_last(error);
                    continue;
                }
            };
            if head.previous_packet_dropped != 0
                && let Some(loss) = self.state.loss(&head, packet.place)
            {
                self.pending = Some(head);
                return Ok(Some(Step::Loss(loss)));
            }
            let reading = self.state.read(&head, packet);
            return Ok(Some(Step::Packet(head, reading)));
        }
    }

    #[inline]
    pub(super) fn record(&self, step: Step) -> Record<'_> {
        let raw = self.packets.last();
        match step {
            Step::Packet(_, Reading::Event(head, message)) => {
                Record::Event(self.state.last_event(head, message.of(raw.bytes)))
            }
            Step::Packet(_, Reading::Track(track)) => Record::Track(track),
            Step::Packet(head, Reading::Other(timestamp_ns)) => Record::Packet(OtherPacket {
                place: raw.place,
                packet: Packet::new(head, raw.bytes),
                timestamp_ns,
            }),
            Step::Packet(head, Reading::Skipped(reason)) => Record::Skipped(Skipped {
                place: raw.place,
                sequence_id: head.sequence_id,
                reason,
            }),
            Step::Loss(loss) => Record::Loss(loss),
            Step::Damage(damage) => Record::Damage(damage),
        }
    }
}
