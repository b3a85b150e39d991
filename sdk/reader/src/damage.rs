//! Damaged bytes of a trace: where they are and what is wrong with them.

use std::fmt;

use crate::place::PacketPlace;

/// A range of bytes that is not a packet, or not a whole one. Reading goes on behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The offset in the file of the first damaged byte. For damage inside compressed packets, the
    /// offset of the packet that holds them.
    pub offset: u64,
    /// For damage inside compressed packets: the offset of the first damaged byte among the bytes
    /// that were unpacked from the packet at `offset`. `None` for other damage.
    pub unpacked_offset: Option<u64>,
    /// The number of bytes that were left out.
    pub length_bytes: u64,
    /// The index of the last packet before the damage. See
    /// [`PacketPlace::index`](crate::PacketPlace::index).
    pub after_packet: Option<u64>,
    /// The kind of damage.
    pub kind: DamageKind,
}

/// What is wrong with damaged bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends in the middle of a packet.
    Truncated {
        /// The number of bytes that the packet lacks.
        missing_bytes: u64,
    },
    /// The bytes where a packet should begin do not begin one.
    NoPacket,
    /// The length of a packet is above the limit.
    TooLong {
        /// The length that the packet claims to have.
        length_bytes: u64,
    },
    /// The bytes of a packet cannot be split into fields.
    MalformedPacket {
        /// The decoding error.
        error: protozero::DecodeError,
    },
    /// Compressed packets cannot be unpacked.
    Compressed {
        /// The decompressor's error.
        reason: String,
    },
    /// Compressed packets are inside other compressed packets.
    NestedBundle,
}

impl Damage {
    /// Returns true if the damage is inside compressed packets: they could be unpacked, but some of
    /// the unpacked bytes are damaged.
    #[must_use]
    pub const fn is_inside_bundle(&self) -> bool {
        self.unpacked_offset.is_some()
    }

    pub(super) fn of_packet(place: PacketPlace, length_bytes: u64, kind: DamageKind) -> Self {
        Self {
            offset: place.offset,
            unpacked_offset: place.unpacked_offset.map(u64::from),
            length_bytes,
            after_packet: place.index.checked_sub(1),
            kind,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}", self.offset)?;
        if let Some(unpacked_offset) = self.unpacked_offset {
            write!(f, ", unpacked {unpacked_offset}")?;
        }
        match self.after_packet {
            Some(packet) => write!(f, ", after packet {packet}")?,
            None => write!(f, ", before any packet")?,
        }
        write!(f, ": {}; {} bytes left out", self.kind, self.length_bytes)
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { missing_bytes } => {
                write!(
                    f,
                    "the trace ends inside a packet, {missing_bytes} bytes are missing"
                )
            }
            Self::NoPacket => write!(f, "no packet begins here"),
            Self::TooLong { length_bytes } => {
                write!(f, "a packet claims to have {length_bytes} bytes")
            }
            Self::MalformedPacket { error } => write!(f, "the packet is malformed: {error}"),
            Self::Compressed { reason } => {
                write!(f, "compressed packets cannot be unpacked: {reason}")
            }
            Self::NestedBundle => write!(f, "compressed packets contain compressed packets"),
        }
    }
}
