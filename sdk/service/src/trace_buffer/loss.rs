//! Causes of losses in a sequence, as the bits that a trace carries.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// The causes of the losses before a packet in its sequence.
///
/// The value is that of `TracePacket.previous_packet_dropped` (field 42). One loss may have several
/// causes: for example, a gap inside a packet also leaves an orphan behind it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LossMask(u16);

impl LossMask {
    /// The mask without a loss.
    pub const NONE: Self = Self(0);
    /// A loss of any cause. All masks except `NONE` contain it.
    pub const PRESENT: Self = Self(1);
    /// A gap: chunk ids are missing between two chunks of the sequence.
    pub const READ_GAP: Self = Self(1 << 1 | 1);
    /// A chunk with bytes that are not fragments. The rest of the chunk was dropped.
    pub const CHUNK_CORRUPTED: Self = Self(1 << 2 | 1);
    /// The middle or the end of a packet without its begin.
    pub const ORPHAN_CONTINUATION: Self = Self(1 << 3 | 1);
    /// A gap inside a packet: chunk ids are missing between its fragments.
    pub const REASSEMBLY_GAP: Self = Self(1 << 4 | 1);
    /// A packet that the next chunk of the sequence does not continue.
    pub const REASSEMBLY_BROKEN_CHAIN: Self = Self(1 << 5 | 1);
    /// Unread packets that newer data has overwritten.
    pub const OVERWRITE: Self = Self(1 << 6 | 1);
    /// A packet that its writer began and gave up.
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

    /// Returns the mask as the trace carries it; 0 means that nothing was lost.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Returns true if nothing was lost.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if this mask contains all causes of `other`.
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
