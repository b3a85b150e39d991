//! Reads the events of a trace, with names, tracks and times resolved.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::damage::Damage;
use crate::error::ReadError;
use crate::identity::TraceIdentity;
use crate::names::NameTable;
use crate::packet::{Packet, PacketHead};
use crate::packets::{PacketReader, PacketStep, RawPacket};
use crate::record::{Loss, OtherPacket, Record, Skipped};
use crate::recordings::RecordingEnd;
use crate::trace_state::{PacketContent, TraceState};
use crate::tracks::TrackTable;

/// Reads the events of a trace in the order of the file.
///
/// Memory is bounded, however long the trace is. Most of the memory is for tracks: each track takes
/// about 100 bytes, and at most 4 Mi (2^22) tracks are stored.
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
    /// The head of the last packet.
    head: PacketHead,
    /// True if the last packet reported a loss, and its own content has yet to be read.
    is_pending: bool,
}

/// A result of [`TraceReader::step`].
pub(super) enum Step {
    Packet(PacketContent),
    Loss(Loss),
    Damage(Damage),
}

impl TraceReader<File> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        PacketReader::open(path).map(Self::from_packets)
    }
}

impl<R> TraceReader<R> {
    /// Creates a reader of a source of bytes. The source needs no buffer of its own.
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

    /// Returns the names of the trace so far.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        &self.state.names
    }

    /// Returns the tracks of the trace so far.
    #[must_use]
    pub const fn tracks(&self) -> &TrackTable {
        &self.state.tracks
    }

    /// Returns the id of the trace clock, which all times are on. Clocks have the same ids as in
    /// `ClockSnapshot`.
    #[must_use]
    pub const fn trace_clock_id(&self) -> u32 {
        self.state.clocks.trace_clock_id()
    }

    /// Returns the encoded packet of the record that was read last. For a loss, this is the packet
    /// that reports it. The bytes are empty if damage was read last.
    #[must_use]
    pub fn packet(&self) -> RawPacket<'_> {
        self.packets.last()
    }

    /// Returns the number of bytes of the file that have been read.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.packets.offset()
    }

    /// Returns the number of packets read so far.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.packets.packets()
    }

    /// Returns the number of sequences whose definitions were forgotten, because the definitions of
    /// all sequences would take more than 64 MiB. Further packets of a forgotten sequence are
    /// skipped until its producer defines everything again.
    #[must_use]
    pub const fn forgotten_sequences(&self) -> u64 {
        self.state.sequences.forgotten()
    }

    /// Returns where the trace comes from, as far as it has been read: usually one identity, several if it
    /// was merged from several traces, and none if it has no attributes. A trace of this SDK has them near
    /// its begin.
    #[must_use]
    pub fn identities(&self) -> &[TraceIdentity] {
        self.state.identities.as_slice()
    }

    /// Returns how each recording in the trace ended. Call it after the trace has been read to its
    /// end. Only this SDK marks the ends of recordings; for recordings of other producers, the
    /// iterator yields nothing.
    pub fn recording_ends(&self) -> impl Iterator<Item = RecordingEnd> {
        self.state.recordings.ends()
    }

    /// Returns the head of the last packet.
    pub(super) const fn head(&self) -> &PacketHead {
        &self.head
    }

    /// Returns the state that the packets so far have built up.
    pub(super) const fn state(&self) -> &TraceState {
        &self.state
    }
}

impl<R: Read> TraceReader<R> {
    /// Reads the next record. Returns `None` at the end of the trace.
    ///
    /// # Errors
    ///
    /// If the source fails, is not a trace, or is compressed in a format that this build cannot
    /// unpack.
    // This type is not an `Iterator`, because items of an iterator cannot borrow from the iterator.
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
            Step::Packet(PacketContent::Event) => {
                Record::Event(self.state.last_event(self.head.payload.of(raw.bytes)))
            }
            Step::Packet(PacketContent::Track(track)) => Record::Track(track),
            Step::Packet(PacketContent::Other(timestamp_ns)) => Record::Packet(OtherPacket {
                place: raw.place,
                packet: Packet::new(self.head, raw.bytes),
                timestamp_ns,
            }),
            Step::Packet(PacketContent::Skipped(reason)) => Record::Skipped(Skipped {
                place: raw.place,
                sequence_id: self.head.sequence_id,
                reason,
            }),
            Step::Loss(loss) => Record::Loss(loss),
            Step::Damage(damage) => Record::Damage(damage),
        }
    }
}
