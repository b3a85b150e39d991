//! What a reader finds in a trace, one after the other.

use std::fmt;

use crate::damage::Damage;
use crate::event::Event;
use crate::packet::Packet;
use crate::place::PacketPlace;
use crate::skip_reason::SkipReason;
use crate::tracks::TrackId;

/// What comes next in a trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A track event.
    Event(Event<'a>),
    /// A track is described, for the first time or anew.
    Track(TrackRecord),
    /// Packets of a sequence are missing. What the packet that says so holds comes next.
    Loss(Loss),
    /// A packet with other data.
    Packet(OtherPacket<'a>),
    /// A packet that cannot be understood.
    Skipped(Skipped),
    /// Bytes that are no packet.
    Damage(Damage),
}

/// The description of a track. The table of tracks has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackRecord {
    /// The packet of the descriptor.
    pub place: PacketPlace,
    /// Its sequence.
    pub sequence_id: u32,
    /// The track.
    pub track: TrackId,
    /// Whether the trace said something else about it before.
    pub is_changed: bool,
}

/// Packets of a sequence are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The first packet behind the loss.
    pub place: PacketPlace,
    /// Its sequence.
    pub sequence_id: u32,
    /// Why: the bits of `previous_packet_dropped`.
    pub bits: u32,
    /// Whether the sequence has no packet before it in the trace: what is missing is its beginning.
    pub is_at_start: bool,
}

/// A packet that holds neither an event nor a track.
#[derive(Clone, Copy, Debug)]
pub struct OtherPacket<'a> {
    /// Where it is.
    pub place: PacketPlace,
    /// The packet.
    pub packet: Packet<'a>,
    /// Its time on the trace clock, if it has one that can be resolved.
    pub timestamp_ns: Option<u64>,
}

/// A packet that cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is.
    pub place: PacketPlace,
    /// Its sequence.
    pub sequence_id: u32,
    /// Why not.
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

    /// The causes by name, as far as they are known: `PRESENT` is that something was lost at all.
    pub fn causes(&self) -> impl Iterator<Item = &'static str> {
        let bits = self.bits;
        Self::CAUSES
            .into_iter()
            .enumerate()
            .filter(move |(index, _)| bits >> index & 1 != 0)
            .map(|(_, name)| name)
    }

    /// Bits that stand for no cause that is known.
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
                    "its time is on clock {clock_id}, which the trace does not explain"
                )
            }
            Self::TimeOutOfRange { clock_id } => {
                write!(f, "its time on clock {clock_id} is out of range")
            }
            Self::NoTime => write!(f, "an event without a time"),
            Self::NoType => write!(f, "an event without a type"),
            Self::NoValue => write!(f, "a counter event without a value"),
            Self::UnknownType { number } => write!(f, "an event of the unknown type {number}"),
            Self::LegacyPhase { phase } => match char::from_u32(*phase) {
                Some(letter @ '!'..='~') => write!(f, "a legacy event of phase '{letter}'"),
                _ => write!(f, "a legacy event of phase {phase}"),
            },
            Self::TooManyTracks => {
                write!(f, "its track is one of more than can be kept apart")
            }
            Self::Malformed { error } => write!(f, "it is malformed: {error}"),
        }
    }
}
