//! The format of the shared memory: page and chunk headers, layouts, sizes.
//!
//! All functions are pure functions of sizes that were fixed when the memory was mapped. None reads
//! shared memory.

use super::sync::{AtomicU16, AtomicU32};

/// The smallest page size. Every page size is a multiple of it.
pub const PAGE_SIZE_MIN_BYTES: usize = 4096;
/// The largest page size. The size of a chunk that fills the page still fits into 16 bits.
pub const PAGE_SIZE_MAX_BYTES: usize = 65536;
/// The largest size of a shared memory buffer: the limit of Perfetto's service.
pub const MEMORY_SIZE_MAX_BYTES: usize = 32 << 20;
/// The size of the page header: the page word ([`PageWord`](super::PageWord)) and a reserved word,
/// which is not used.
pub const PAGE_HEADER_SIZE_BYTES: usize = 8;
/// The size of the chunk header: chunk id, writer id, packets word.
pub const CHUNK_HEADER_SIZE_BYTES: usize = 8;
/// The number of chunks in the layout with most chunks.
pub const CHUNKS_PER_PAGE_MAX: u8 = 14;
/// The alignment of chunks. Their sizes are multiples of it, too.
const CHUNK_ALIGNMENT_BYTES: usize = 4;

// The format is little-endian, and headers are accessed as native integers.
const _: () = assert!(cfg!(target_endian = "little"));

/// The first bytes of each chunk.
#[repr(C)]
#[derive(Debug)]
pub(super) struct ChunkHeader {
    /// The position of the chunk in the trace writer's sequence.
    pub(super) chunk_id: AtomicU32,
    pub(super) writer_id: AtomicU16,
    /// The fragment count and flags, see [`PacketsWord`].
    pub(super) packets: AtomicU16,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<AtomicU32>() <= PAGE_HEADER_SIZE_BYTES);
    assert!(size_of::<ChunkHeader>() == CHUNK_HEADER_SIZE_BYTES);
    assert!(align_of::<ChunkHeader>() == CHUNK_ALIGNMENT_BYTES);
    assert!(std::mem::offset_of!(ChunkHeader, chunk_id) == 0);
    assert!(std::mem::offset_of!(ChunkHeader, writer_id) == 4);
    assert!(std::mem::offset_of!(ChunkHeader, packets) == 6);
};

/// In model tests, this creates the headers: loom's atomics cannot be made from raw memory.
#[cfg(loom)]
impl ChunkHeader {
    pub(super) fn zeroed() -> Self {
        Self {
            chunk_id: AtomicU32::new(0),
            writer_id: AtomicU16::new(0),
            packets: AtomicU16::new(0),
        }
    }
}

/// The division of a page into chunks of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageLayout {
    /// One chunk.
    One = 1,
    /// Two chunks.
    Two = 2,
    /// Four chunks.
    Four = 3,
    /// Seven chunks.
    Seven = 4,
    /// Fourteen chunks.
    Fourteen = 5,
}

impl PageLayout {
    /// All layouts, in the order of their codes.
    pub const ALL: [Self; 5] = [
        Self::One,
        Self::Two,
        Self::Four,
        Self::Seven,
        Self::Fourteen,
    ];

    /// Returns the layout with this code in the page word. Returns `None` for 0 (a page that is not
    /// divided) and for the reserved codes 6 and 7.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            3 => Some(Self::Four),
            4 => Some(Self::Seven),
            5 => Some(Self::Fourteen),
            _ => None,
        }
    }

    /// Returns the layout's code in the page word, 1 to 5.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the number of chunks, at most [`CHUNKS_PER_PAGE_MAX`].
    #[must_use]
    pub const fn chunk_count(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Seven => 7,
            Self::Fourteen => CHUNKS_PER_PAGE_MAX,
        }
    }

    /// Returns the size of each chunk, including its header, in pages of `page_size_bytes`.
    #[must_use]
    pub const fn chunk_size_bytes(self, page_size_bytes: usize) -> usize {
        let share = (page_size_bytes - PAGE_HEADER_SIZE_BYTES) / self.chunk_count() as usize;
        share - share % CHUNK_ALIGNMENT_BYTES
    }

    /// Returns the size of each chunk without its header, in pages of `page_size_bytes`.
    #[must_use]
    pub const fn payload_size_bytes(self, page_size_bytes: usize) -> usize {
        self.chunk_size_bytes(page_size_bytes) - CHUNK_HEADER_SIZE_BYTES
    }

    /// Returns the distance of chunk `chunk_index` from the start of its page.
    #[must_use]
    pub const fn chunk_offset_bytes(self, page_size_bytes: usize, chunk_index: u8) -> usize {
        PAGE_HEADER_SIZE_BYTES + chunk_index as usize * self.chunk_size_bytes(page_size_bytes)
    }
}

const _: () = {
    assert!(PageLayout::One.chunk_size_bytes(PAGE_SIZE_MAX_BYTES) <= u16::MAX as usize);
    assert!(PageLayout::Fourteen.chunk_size_bytes(PAGE_SIZE_MIN_BYTES) == 292);
};

/// The place of a chunk in the shared memory, by which commits identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkPlace {
    /// The index of the page in the shared memory buffer.
    pub page_index: u32,
    /// The index of the chunk in its page, below [`CHUNKS_PER_PAGE_MAX`].
    pub chunk_index: u8,
}

/// The fragment count of a chunk, and the chunk's flags. They are the last two bytes of the chunk's
/// header, and are always stored together. In a chunk that is being written, the count may include
/// one fragment that is open or has not begun.
///
/// ```text
///  15        10 9              0
/// +------------+----------------+
/// |   flags    |     count      |
/// +------------+----------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketsWord(u16);

impl PacketsWord {
    /// The largest count that fits into ten bits.
    pub const COUNT_MAX: u16 = 0x3ff;

    const COUNT_BITS: u32 = 10;

    /// Returns the word with `flags` and the low ten bits of `count`.
    #[must_use]
    pub const fn new(count: u16, flags: ChunkFlags) -> Self {
        Self((count & Self::COUNT_MAX) | (flags.bits() as u16) << Self::COUNT_BITS)
    }

    /// Returns the word's bits in memory.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the word with these bits in memory.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Returns the number of fragments, at most [`PacketsWord::COUNT_MAX`].
    #[must_use]
    pub const fn count(self) -> u16 {
        self.0 & Self::COUNT_MAX
    }

    /// Returns the flags.
    #[must_use]
    pub const fn flags(self) -> ChunkFlags {
        ChunkFlags::from_bits((self.0 >> Self::COUNT_BITS) as u8)
    }
}

/// The six flag bits of a chunk header. Bits that have no name here are kept unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkFlags(u8);

impl ChunkFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The first fragment continues a packet of the previous chunk.
    pub const FIRST_PACKET_CONTINUES: Self = Self(1);
    /// The last fragment continues in the next chunk.
    pub const LAST_PACKET_CONTINUES: Self = Self(2);
    /// The last packet has lengths that later patches fill.
    pub const NEEDS_PATCHING: Self = Self(4);

    /// Returns the flags in the low six bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x3f)
    }

    /// Returns the flags as six bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags that are set in `self` or in `other`.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these flags without the flags of `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_are_those_of_the_abi() {
        let table = [
            (4096, [4088, 2044, 1020, 584, 292]),
            (8192, [8184, 4092, 2044, 1168, 584]),
            (16384, [16376, 8188, 4092, 2336, 1168]),
            (32768, [32760, 16380, 8188, 4680, 2340]),
            (65536, [65528, 32764, 16380, 9360, 4680]),
        ];
        for (page_size_bytes, sizes) in table {
            for (layout, size) in PageLayout::ALL.into_iter().zip(sizes) {
                assert_eq!(layout.chunk_size_bytes(page_size_bytes), size);
                assert_eq!(layout.payload_size_bytes(page_size_bytes), size - 8);
            }
        }
    }

    #[test]
    fn chunks_ascend_without_overlap_and_end_inside_the_page() {
        for page_size_bytes in (1..=16).map(|pages| pages * PAGE_SIZE_MIN_BYTES) {
            for layout in PageLayout::ALL {
                let size = layout.chunk_size_bytes(page_size_bytes);
                let mut free_from = PAGE_HEADER_SIZE_BYTES;
                for chunk_index in 0..layout.chunk_count() {
                    let start = layout.chunk_offset_bytes(page_size_bytes, chunk_index);
                    assert_eq!(start, free_from);
                    assert_eq!(start % CHUNK_ALIGNMENT_BYTES, 0);
                    free_from = start + size;
                }
                assert!(free_from <= page_size_bytes);
                // The rest of the page is too small to make every chunk 4 bytes larger.
                let slack = page_size_bytes - free_from;
                assert!(slack < CHUNK_ALIGNMENT_BYTES * usize::from(layout.chunk_count()));
            }
        }
    }

    #[test]
    fn layout_codes_round_trip_and_other_codes_are_none() {
        for layout in PageLayout::ALL {
            assert_eq!(PageLayout::from_code(layout.code()), Some(layout));
        }
        for code in [0, 6, 7] {
            assert_eq!(PageLayout::from_code(code), None);
        }
    }

    #[test]
    fn packets_word_has_ten_bits_of_count_below_six_flags() {
        let both = ChunkFlags::LAST_PACKET_CONTINUES.union(ChunkFlags::NEEDS_PATCHING);
        assert_eq!(PacketsWord::new(2, both).bits(), 0x1802);
        assert_eq!(
            PacketsWord::new(0, ChunkFlags::FIRST_PACKET_CONTINUES).bits(),
            0x0400
        );
        for flags in 0..64 {
            let flags = ChunkFlags::from_bits(flags);
            for count in [0, 1, 1022, 1023] {
                let word = PacketsWord::new(count, flags);
                assert_eq!((word.count(), word.flags()), (count, flags));
                assert_eq!(PacketsWord::from_bits(word.bits()), word);
            }
        }
    }
}
