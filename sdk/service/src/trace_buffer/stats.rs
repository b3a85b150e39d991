//! What the buffer counts: the statistics that go into a trace, the exact account of packets, and
//! the balance of what was stored.

use std::ops::{Add, AddAssign};

/// Counters of one buffer: the fields of `TraceStats.BufferStats`, under their names.
///
/// Sizes are those of slots: a chunk occupies its payload and 16 bytes, rounded up to 16.
/// `chunks_*` and `bytes_*` alone do not balance: chunks without fragments are written and never
/// read, and a chunk that grows after it was read is read twice. [`StorageBalance`] has what is
/// missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// Size of the buffer.
    pub buffer_size: u64,
    /// Bytes of all chunks stored.
    pub bytes_written: u64,
    /// Chunks stored; a chunk that moves is stored again.
    pub chunks_written: u64,
    /// Bytes of the chunks that were evicted with unread fragments.
    pub bytes_overwritten: u64,
    /// Chunks that were evicted with unread fragments.
    pub chunks_overwritten: u64,
    /// Bytes of the chunks whose last unread fragment was delivered.
    pub bytes_read: u64,
    /// Chunks whose last unread fragment was delivered.
    pub chunks_read: u64,
    /// Bytes that became padding because a new chunk covered a part of an old slot.
    pub padding_bytes_written: u64,
    /// Bytes of the padding that new chunks met, including slots emptied by reading.
    pub padding_bytes_cleared: u64,
    /// Chunks that grew in place when they were committed again.
    pub chunks_rewritten: u64,
    /// Chunks that moved to the write cursor when they were committed again.
    pub chunks_relocated: u64,
    /// Chunks refused by a full [`FillPolicy::Discard`](super::FillPolicy::Discard) buffer, and
    /// chunks that came after their place in the sequence was already read or evicted. The latter
    /// are mostly duplicates: no measure of loss.
    pub chunks_discarded: u64,
    /// Chunks that arrived after a newer one of their sequence.
    pub chunks_committed_out_of_order: u64,
    /// How often the write cursor went back to the start.
    pub write_wrap_count: u64,
    /// Patches applied.
    pub patches_succeeded: u64,
    /// Calls with a patch that could not be applied.
    pub patches_failed: u64,
    /// Packets put together from several chunks, whether for a reader or at eviction.
    pub readaheads_succeeded: u64,
    /// Attempts to put a packet together that did not succeed (yet).
    pub readaheads_failed: u64,
    /// Chunks that broke the protocol: too large, not made of fragments, or in contradiction to
    /// what was committed under their id before.
    pub abi_violations: u64,
    /// Marks of packets that writers gave up.
    pub trace_writer_packet_loss: u64,
}

/// A number of chunks, and the bytes that their slots take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkAmount {
    /// How many.
    pub chunks: u64,
    /// How large, all together.
    pub bytes: u64,
}

impl ChunkAmount {
    #[inline]
    pub(super) fn add(&mut self, slot_size_bytes: u32) {
        self.chunks += 1;
        self.bytes += u64::from(slot_size_bytes);
    }
}

impl Add for ChunkAmount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            chunks: self.chunks + other.chunks,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// What is counted for [`StorageBalance`] beside [`BufferStats`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StorageCounts {
    pub(super) reopened: ChunkAmount,
    pub(super) empty: ChunkAmount,
    pub(super) unreadable: ChunkAmount,
    pub(super) read_before_clone: ChunkAmount,
    pub(super) reused_bytes: u64,
}

/// Where every chunk is that was ever stored, and every byte of the memory.
///
/// What was written was read, was overwritten, held nothing, could not be read, or is still there:
///
/// ```text
/// written + reopened = read + overwritten + empty + unreadable + unread
/// ```
///
/// and each byte in use belongs to a chunk or is padding:
///
/// ```text
/// written.bytes + padding_bytes_written = reused_bytes + used_bytes
/// ```
///
/// [`BufferStats::padding_bytes_cleared`] has no place in this: slots that reading emptied count
/// there without having been written as padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageBalance {
    /// Chunks stored.
    pub written: ChunkAmount,
    /// Chunks that were read or overwritten to their end and then grew: they come to their end
    /// once more.
    pub reopened: ChunkAmount,
    /// Chunks read to their end. For a clone, those read before it was made are among them.
    pub read: ChunkAmount,
    /// Chunks evicted with unread fragments.
    pub overwritten: ChunkAmount,
    /// Chunks that left without ever having held a fragment.
    pub empty: ChunkAmount,
    /// Chunks that left with a rest that a patch made unreadable.
    pub unreadable: ChunkAmount,
    /// Chunks in the buffer that did not come to their end.
    pub unread: ChunkAmount,
    /// Bytes that became padding because a new chunk covered a part of an old slot.
    pub padding_bytes_written: u64,
    /// Bytes of old slots, chunks and padding, that gave way to new chunks. Of a slot that was
    /// covered in part, all.
    pub reused_bytes: u64,
    /// Bytes of all slots that there are now.
    pub used_bytes: u64,
}

impl StorageBalance {
    /// Whether both sums come out even. They always do; what checks statistics can check this.
    #[must_use]
    pub fn is_even(&self) -> bool {
        let begun = self.written + self.reopened;
        let ended = self.read + self.overwritten + self.empty + self.unreadable;
        begun == ended + self.unread
            && self.written.bytes + self.padding_bytes_written
                == self.reused_bytes + self.used_bytes
    }
}

/// What became of the packets of one sequence.
///
/// A packet is counted by its first fragment: one that begins in a chunk which the buffer was
/// given. For a writer whose chunks are complete and committed once each,
/// `packets committed = read + lost() + unread`, exactly and at any time.
///
/// Outside of this account are packets of which the buffer saw no first fragment: those that a
/// writer gave up before it wrote any byte of them, and those in chunks that were never committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketCounts {
    /// Delivered to the reader.
    pub read: u64,
    /// Still in the buffer, readable or waiting for the rest of them.
    pub unread: u64,
    /// Evicted by newer data before they were read.
    pub overwritten: u64,
    /// In chunks refused: by a full buffer, by a clone, or for their size.
    pub discarded: u64,
    /// In chunks that came after their place in the sequence was read or evicted.
    pub late: u64,
    /// Begun, but chunks are missing where they should go on.
    pub gap: u64,
    /// Begun, but not continued by the chunk that follows.
    pub broken_chain: u64,
    /// Begun, then given up by the writer.
    pub aborted: u64,
    /// Unreadable because a patch destroyed the size of a fragment.
    pub corrupted: u64,
}

impl PacketCounts {
    /// Packets that the reader will never see.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.overwritten
            + self.discarded
            + self.late
            + self.gap
            + self.broken_chain
            + self.aborted
            + self.corrupted
    }

    /// All packets that were ever committed.
    #[must_use]
    pub const fn committed(&self) -> u64 {
        self.read + self.unread + self.lost()
    }
}

impl AddAssign for PacketCounts {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.unread += other.unread;
        self.overwritten += other.overwritten;
        self.discarded += other.discarded;
        self.late += other.late;
        self.gap += other.gap;
        self.broken_chain += other.broken_chain;
        self.aborted += other.aborted;
        self.corrupted += other.corrupted;
    }
}

/// How large the chunks of one writer were: `TraceStats.WriterStats`.
///
/// Every commit counts, also of chunks that come again or too late; chunks refused for their size
/// or by a full [`FillPolicy::Discard`](super::FillPolicy::Discard) buffer do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkPayloadHistogram {
    buckets: [Bucket; Self::BUCKETS],
}

/// Count and sum side by side: a commit touches one cache line of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(16))]
struct Bucket {
    chunks: u64,
    bytes: u64,
}

impl ChunkPayloadHistogram {
    /// Number of buckets: one per bound, and one for everything larger.
    pub const BUCKETS: usize = Self::BOUNDS_BYTES.len() + 1;

    /// The largest size that belongs to each bucket but the last.
    pub const BOUNDS_BYTES: [u16; 10] = [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384];

    #[inline]
    pub(super) fn add(&mut self, size_bytes: u16) {
        // Counting is branch-free: the sizes of a busy writer's chunks follow no pattern.
        let bucket: usize = Self::BOUNDS_BYTES
            .iter()
            .map(|&bound| usize::from(size_bytes > bound))
            .sum();
        let bucket = &mut self.buckets[bucket];
        bucket.chunks += 1;
        bucket.bytes += u64::from(size_bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.chunks == 0)
    }

    /// Chunks per bucket.
    #[must_use]
    pub fn counts(&self) -> [u64; Self::BUCKETS] {
        self.buckets.map(|bucket| bucket.chunks)
    }

    /// Total payload of the chunks per bucket, in bytes.
    #[must_use]
    pub fn sums_bytes(&self) -> [u64; Self::BUCKETS] {
        self.buckets.map(|bucket| bucket.bytes)
    }
}
