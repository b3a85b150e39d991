//! Why packets of a sequence are missing, as the bits that a trace carries.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Causes of the losses that precede a packet in its sequence.
///
/// The value is that of `TracePacket.previous_packet_dropped` (field 42). Several causes for one
/// physical loss are normal: a gap inside a packet, say, also leaves an orphan behind it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LossMask(u16);

impl LossMask {
    /// Nothing was lost.
    pub const NONE: Self = Self(0);
    /// Something was lost; part of every other mask.
    pub const PRESENT: Self = Self(1);
    /// Chunk ids are missing between two chunks of the sequence.
    pub const READ_GAP: Self = Self(1 << 1 | 1);
    /// A chunk held bytes that are no fragments; the rest of it was dropped.
    pub const CHUNK_CORRUPTED: Self = Self(1 << 2 | 1);
    /// The middle or the end of a packet came without its begin.
    pub const ORPHAN_CONTINUATION: Self = Self(1 << 3 | 1);
    /// Chunk ids are missing in the middle of a packet.
    pub const REASSEMBLY_GAP: Self = Self(1 << 4 | 1);
    /// A packet was begun and the chunk that follows does not continue it.
    pub const REASSEMBLY_BROKEN_CHAIN: Self = Self(1 << 5 | 1);
    /// Unread packets were overwritten by newer data.
    pub const OVERWRITE: Self = Self(1 << 6 | 1);
    /// The writer gave up a packet that it had begun.
    pub const WRITER_ABORT: Self = Self(1 << 7 | 1);

    const NAMES: [(Self, &'static str); 7] = [
        (Self::READ_GAP, "READ_GAP"),
        (Self::CHUNK_CORRUPTED, "CHUNK_CORRUPTED"),
        (Self::ORPHAN_CONTINUATION, "ORPHAN_CONTINUATION"),
        (Self::REASSEMBLY_GAP, "REASSEMBLY_GAP"),
        (Self::REASSEMBLY_BROKEN_CHAIN, "REASSEMBLY_BROKEN_CHAIN"),
        (Self::OVERWRITE, "OVERWRITE"),
        (Self::WRITER_ABORT, "WRITER_ABORT"),
    ];

    /// The mask as the trace carries it; 0 means that nothing was lost.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Whether nothing was lost.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all causes of `other` are among these.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for LossMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for LossMask {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for LossMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LossMask({}", self.0)?;
        for (mask, name) in Self::NAMES {
            if self.contains(mask) {
                write!(f, " {name}")?;
            }
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_trace_format() {
        let bits = LossMask::NAMES.map(|(mask, _)| mask.bits());
        assert_eq!(bits, [3, 5, 9, 17, 33, 65, 129]);
    }

    #[test]
    fn debug_names_every_cause() {
        let mask = LossMask::READ_GAP | LossMask::OVERWRITE;
        assert_eq!(format!("{mask:?}"), "LossMask(67 READ_GAP OVERWRITE)");
        assert_eq!(format!("{:?}", LossMask::NONE), "LossMask(0)");
    }
}
