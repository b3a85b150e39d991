//! The records that a reader yields.

use std::fmt;

use crate::damage::Damage;
use crate::event::Event;
use crate::packet::Packet;
use crate::place::PacketPlace;
use crate::skip_reason::SkipReason;
use crate::tracks::TrackId;

/// A record: the next item of a trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A track event.
    Event(Event<'a>),
    /// A descriptor of a track that is new or has changed.
    Track(TrackRecord),
    /// Packets of a sequence are missing. The next record is the content of the packet that reports
    /// the loss.
    Loss(Loss),
    /// A packet with any other data.
    Packet(OtherPacket<'a>),
    /// A packet that cannot be decoded.
    Skipped(Skipped),
    /// Bytes that are not a packet.
    Damage(Damage),
}

/// A notice that a track has been described. The description is in the
/// [`TrackTable`](crate::TrackTable).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackRecord {
    /// The place of the descriptor's packet.
    pub place: PacketPlace,
    /// The sequence of the descriptor's packet.
    pub sequence_id: u32,
    /// The track.
    pub track: TrackId,
    /// True if an earlier descriptor of the track said something else.
    pub is_changed: bool,
}

/// A loss: packets of a sequence are missing.
///
/// ```
/// use tracezero::reader::Loss;
///
/// let mut loss = Loss::default();
/// loss.bits = 0b100_0001;
/// assert_eq!(loss.causes().collect::<Vec<_>>(), ["PRESENT", "OVERWRITE"]);
/// assert_eq!(loss.unknown_bits(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The place of the first packet after the loss.
    pub place: PacketPlace,
    /// The sequence that lost packets.
    pub sequence_id: u32,
    /// The reasons for the loss: the bits of `previous_packet_dropped`.
    pub bits: u32,
    /// True if the trace has no earlier packet of the sequence, so that the sequence's beginning is
    /// missing.
    pub is_at_start: bool,
}

/// A packet that holds neither an event nor a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherPacket<'a> {
    /// The place of the packet.
    pub place: PacketPlace,
    /// The packet.
    pub packet: Packet<'a>,
    /// The packet's time on the trace clock, if it has a time that can be converted.
    pub timestamp_ns: Option<u64>,
}

/// A packet that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The place of the packet.
    pub place: PacketPlace,
    /// The sequence of the packet.
    pub sequence_id: u32,
    /// The reason why it cannot be decoded.
    pub reason: SkipReason,
}

impl Loss {
    const CAUSES: [&str; 9] = [
        "PRESENT",
        "READ_GAP",
        "CHUNK_CORRUPTED",
        "ORPHAN_CONTINUATION",
        "REASSEMBLY_GAP",
        "REASSEMBLY_BROKEN_CHAIN",
        "OVERWRITE",
        "WRITER_ABORT",
        "SMB_FULL",
    ];

    /// Returns the names of the known causes. `PRESENT` says only that something was lost.
    pub fn causes(&self) -> impl Iterator<Item = &'static str> {
        let bits = self.bits;
        Self::CAUSES
            .into_iter()
            .enumerate()
            .filter(move |(index, _)| bits >> index & 1 != 0)
            .map(|(_, name)| name)
    }

    /// Returns the bits that stand for no known cause.
    #[must_use]
    pub const fn unknown_bits(&self) -> u32 {
        self.bits >> Self::CAUSES.len() << Self::CAUSES.len()
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsState => write!(f, "it needs definitions that are not in the trace"),
            Self::UnknownClock { clock_id } => {
                write!(
                    f,
                    "its time is on clock {clock_id}, which no clock snapshot defines"
                )
            }
            Self::TimeOutOfRange { clock_id } => {
                write!(f, "its time on clock {clock_id} is out of range")
            }
            Self::NoTime => write!(f, "the event has no time"),
            Self::NoType => write!(f, "the event has no type"),
            Self::NoValue => write!(f, "the counter event has no value"),
            Self::UnknownType { number } => write!(f, "the event has the unknown type {number}"),
            Self::LegacyPhase { phase } => match char::from_u32(*phase) {
                Some(letter @ '!'..='~') => {
                    write!(f, "legacy events of phase '{letter}' are not supported")
                }
                _ => write!(f, "legacy events of phase {phase} are not supported"),
            },
            Self::TooManyTracks => {
                write!(f, "the trace has too many tracks")
            }
            Self::Malformed { error } => write!(f, "it is malformed: {error}"),
        }
    }
}
