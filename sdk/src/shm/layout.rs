//! The shared-memory ABI as numbers: page and chunk headers, layouts, sizes.

/// The six flag bits of a chunk header. Bits without a name here are carried along unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkFlags(u8);

impl ChunkFlags {
    /// The first fragment continues a packet of the previous chunk.
    pub const FIRST_PACKET_CONTINUES: Self = Self(1);
    /// The last fragment continues in the next chunk.
    pub const LAST_PACKET_CONTINUES: Self = Self(2);
    /// The last packet has length slots that a later patch fills.
    pub const NEEDS_PATCHING: Self = Self(4);

    /// The flags from the low six bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x3f)
    }

    /// The flags as six bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags without those of `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}
