//! The events of a trace, one after the other, with what they refer to looked up.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::damage::Damage;
use crate::error::ReadError;
use crate::names::NameTable;
use crate::packet::{Packet, PacketHead};
use crate::packets::{PacketReader, PacketStep, RawPacket};
use crate::record::{Loss, OtherPacket, Record, Skipped};
use crate::recordings::RecordingEnd;
use crate::trace_state::{Reading, TraceState};
use crate::tracks::TrackTable;

/// Reads the events of a trace in the order of the file.
///
/// Memory is bounded however long the trace is. Most of it is for tracks: each takes about 100 bytes, and
/// 4 Mi of them are kept apart.
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
    /// Of the last packet.
    head: PacketHead,
    /// The last packet told of a loss, and is not done yet.
    is_pending: bool,
}

/// A step that has been made.
pub(super) enum Step {
    Packet(Reading),
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
            head: PacketHead::default(),
            is_pending: false,
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

    /// Sequences whose definitions were forgotten, because all of them together would take more than
    /// 64 MiB. If one of them goes on, its packets are skipped until it starts anew.
    #[must_use]
    pub const fn forgotten_sequences(&self) -> u64 {
        self.state.sequences.forgotten()
    }

    /// How the recordings in the trace ended, once it was read to its end. Nothing for producers that
    /// do not mark the end of a trace, which are all but this SDK.
    pub fn recording_ends(&self) -> impl Iterator<Item = RecordingEnd> {
        self.state.recordings.ends()
    }

    /// What the last packet says beside its payload.
    pub(super) const fn head(&self) -> &PacketHead {
        &self.head
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
            if std::mem::take(&mut self.is_pending) {
                let reading = self.state.read(&self.head, self.packets.last());
                return Ok(Some(Step::Packet(reading)));
            }
            match self.packets.step()? {
                None => return Ok(None),
                Some(PacketStep::Damage(damage)) => return Ok(Some(Step::Damage(damage))),
                Some(PacketStep::Packet) => {}
            }
            let packet = self.packets.last();
            if let Err(error) = self.head.decode(packet.bytes) {
                self.packets.reject_last(error);
                continue;
            }
            if self.head.previous_packet_dropped != 0
                && let Some(loss) = self.state.loss(&self.head, packet.place)
            {
                self.is_pending = true;
                return Ok(Some(Step::Loss(loss)));
            }
            let reading = self.state.read(&self.head, packet);
            return Ok(Some(Step::Packet(reading)));
        }
    }

    #[inline]
    pub(super) fn record(&self, step: Step) -> Record<'_> {
        let raw = self.packets.last();
        match step {
            Step::Packet(Reading::Event) => {
                Record::Event(self.state.last_event(self.head.payload.of(raw.bytes)))
            }
            Step::Packet(Reading::Track(track)) => Record::Track(track),
            Step::Packet(Reading::Other(timestamp_ns)) => Record::Packet(OtherPacket {
                place: raw.place,
                packet: Packet::new(self.head, raw.bytes),
                timestamp_ns,
            }),
            Step::Packet(Reading::Skipped(reason)) => Record::Skipped(Skipped {
                place: raw.place,
                sequence_id: self.head.sequence_id,
                reason,
            }),
            Step::Loss(loss) => Record::Loss(loss),
            Step::Damage(damage) => Record::Damage(damage),
        }
    }
}
