//! What is wrong with the bytes of a trace, and where.

use std::fmt;

use crate::place::PacketPlace;

/// Bytes that hold no packet, or not a whole one. Reading goes on behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file's first byte that is at fault; that of the bundle if it is in compressed packets.
    pub offset: u64,
    /// For damage inside of compressed packets: its first byte among the unpacked ones.
    pub unpacked_offset: Option<u64>,
    /// Bytes that were left out.
    pub length_bytes: u64,
    /// The last packet before it.
    pub after_packet: Option<u64>,
    /// What was found.
    pub kind: DamageKind,
}

/// What is wrong with bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends in the middle of a packet.
    Truncated {
        /// How many bytes of it are missing.
        missing_bytes: u64,
    },
    /// There is no packet where one should begin.
    NoPacket,
    /// A packet claims to be longer than any is.
    TooLong {
        /// What it claims.
        length_bytes: u64,
    },
    /// The fields of a packet cannot be told apart.
    MalformedPacket {
        /// What is wrong with them.
        error: protozero::DecodeError,
    },
    /// Compressed packets do not unpack.
    Compressed {
        /// What the decompressor says.
        reason: String,
    },
    /// Compressed packets inside of compressed packets.
    NestedBundle,
}

impl Damage {
    /// Whether it is among compressed packets, once they are unpacked.
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
            Self::Compressed { reason } => write!(f, "compressed packets do not unpack: {reason}"),
            Self::NestedBundle => write!(f, "compressed packets inside of compressed packets"),
        }
    }
}
