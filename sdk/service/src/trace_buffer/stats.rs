//! Counters of the buffer: the statistics for the trace, the exact packet counts of sequences, and
//! the balance of the chunks stored.

use std::ops::{Add, AddAssign};

/// The counters of one buffer. They have the names of the fields of `TraceStats.BufferStats`.
///
/// Sizes are those of slots: the payload of a chunk plus 16 bytes, rounded up to a multiple of 16.
/// The counters `chunks_*` and `bytes_*` alone do not balance: chunks without fragments are written
/// and never read, and a chunk that grows after it was read is read twice. [`StorageBalance`] adds
/// the missing counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// The size of the buffer.
    pub buffer_size: u64,
    /// Bytes of all chunks stored.
    pub bytes_written: u64,
    /// Chunks stored. A chunk that is relocated counts again.
    pub chunks_written: u64,
    /// Bytes of the chunks that were evicted with unread fragments.
    pub bytes_overwritten: u64,
    /// Chunks that were evicted with unread fragments, to make room or because the buffer had too
    /// many chunks: one for each 64 bytes of its size, and at least 4096.
    pub chunks_overwritten: u64,
    /// Bytes of the chunks whose last unread fragment was delivered.
    pub bytes_read: u64,
    /// Chunks whose last unread fragment was delivered.
    pub chunks_read: u64,
    /// Bytes that became padding because a new chunk covered part of an old slot.
    pub padding_bytes_written: u64,
    /// Bytes of padding that new chunks covered, including slots that became empty by reading.
    pub padding_bytes_cleared: u64,
    /// Chunks that grew in place when they were committed again.
    pub chunks_rewritten: u64,
    /// Chunks that were relocated to the write cursor when they were committed again.
    pub chunks_relocated: u64,
    /// Chunks refused by a full [`FillPolicy::Discard`](super::FillPolicy::Discard) buffer (also by
    /// one that has a chunk for each 64 bytes of its size), chunks of new writers after 65,536
    /// others, and chunks that came after their place in the sequence was read or evicted. The
    /// latter are mostly duplicates, so this does not measure loss.
    pub chunks_discarded: u64,
    /// Chunks that arrived after a newer one of their sequence.
    pub chunks_committed_out_of_order: u64,
    /// The number of times that the write cursor went back to the start.
    pub write_wrap_count: u64,
    /// Patches applied.
    pub patches_succeeded: u64,
    /// Calls with a patch that could not be applied.
    pub patches_failed: u64,
    /// Packets put together from several chunks, for a reader or at eviction.
    pub readaheads_succeeded: u64,
    /// Failed attempts to put a packet together. A later attempt with the same packet may succeed.
    pub readaheads_failed: u64,
    /// Chunks that violate the protocol: too large, not made of fragments, or in conflict with an
    /// earlier commit of the same id.
    pub abi_violations: u64,
    /// Marks of packets that writers gave up.
    pub trace_writer_packet_loss: u64,
}

impl BufferStats {
    /// Returns the counts since `earlier`, which are statistics of the same buffer.
    #[must_use]
    pub(crate) const fn since(&self, earlier: &Self) -> Self {
        Self {
            buffer_size: self.buffer_size,
            bytes_written: self.bytes_written - earlier.bytes_written,
            chunks_written: self.chunks_written - earlier.chunks_written,
            bytes_overwritten: self.bytes_overwritten - earlier.bytes_overwritten,
            chunks_overwritten: self.chunks_overwritten - earlier.chunks_overwritten,
            bytes_read: self.bytes_read - earlier.bytes_read,
            chunks_read: self.chunks_read - earlier.chunks_read,
            padding_bytes_written: self.padding_bytes_written - earlier.padding_bytes_written,
            padding_bytes_cleared: self.padding_bytes_cleared - earlier.padding_bytes_cleared,
            chunks_rewritten: self.chunks_rewritten - earlier.chunks_rewritten,
            chunks_relocated: self.chunks_relocated - earlier.chunks_relocated,
            chunks_discarded: self.chunks_discarded - earlier.chunks_discarded,
            chunks_committed_out_of_order: self.chunks_committed_out_of_order
                - earlier.chunks_committed_out_of_order,
            write_wrap_count: self.write_wrap_count - earlier.write_wrap_count,
            patches_succeeded: self.patches_succeeded - earlier.patches_succeeded,
            patches_failed: self.patches_failed - earlier.patches_failed,
            readaheads_succeeded: self.readaheads_succeeded - earlier.readaheads_succeeded,
            readaheads_failed: self.readaheads_failed - earlier.readaheads_failed,
            abi_violations: self.abi_violations - earlier.abi_violations,
            trace_writer_packet_loss: self.trace_writer_packet_loss
                - earlier.trace_writer_packet_loss,
        }
    }
}

/// A number of chunks and the total size of their slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkAmount {
    /// The number of chunks.
    pub chunks: u64,
    /// The total size of their slots.
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

/// Counters for [`StorageBalance`] that are not in [`BufferStats`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StorageCounts {
    pub(super) reopened: ChunkAmount,
    pub(super) empty: ChunkAmount,
    pub(super) unreadable: ChunkAmount,
    pub(super) read_before_clone: ChunkAmount,
    pub(super) reused_bytes: u64,
}

/// The balance of all chunks that were ever stored, and of all bytes of the memory.
///
/// Each chunk written was read, was overwritten, was empty, was unreadable, or is still unread:
///
/// ```text
/// written + reopened = read + overwritten + empty + unreadable + unread
/// ```
///
/// Each byte in use belongs to a chunk or is padding:
///
/// ```text
/// written.bytes + padding_bytes_written = reused_bytes + used_bytes
/// ```
///
/// [`BufferStats::padding_bytes_cleared`] is not in this equation, because it also counts slots
/// that became empty by reading, and those were never written as padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageBalance {
    /// Chunks stored.
    pub written: ChunkAmount,
    /// Chunks that grew after they were completely read or overwritten, and so are read or
    /// overwritten again.
    pub reopened: ChunkAmount,
    /// Chunks completely read. In a clone, this includes those read before the clone was made.
    pub read: ChunkAmount,
    /// Chunks evicted with unread fragments.
    pub overwritten: ChunkAmount,
    /// Chunks that were removed without ever having had a fragment.
    pub empty: ChunkAmount,
    /// Chunks that were removed with a rest that a patch had made unreadable.
    pub unreadable: ChunkAmount,
    /// Chunks in the buffer that are not completely read or overwritten.
    pub unread: ChunkAmount,
    /// Bytes that became padding because a new chunk covered part of an old slot.
    pub padding_bytes_written: u64,
    /// Bytes of old slots, chunks and padding, that new chunks have covered. A slot that was
    /// covered in part counts as a whole.
    pub reused_bytes: u64,
    /// Bytes of all slots that exist now.
    pub used_bytes: u64,
}

impl StorageBalance {
    /// Returns true if both equations hold. They always do; tests of the statistics can check this.
    #[must_use]
    pub fn is_even(&self) -> bool {
        let begun = self.written + self.reopened;
        let ended = self.read + self.overwritten + self.empty + self.unreadable;
        begun == ended + self.unread
            && self.written.bytes + self.padding_bytes_written
                == self.reused_bytes + self.used_bytes
    }
}

/// The packet counts of one sequence.
///
/// A packet is counted by its first fragment, so it counts if it begins in a chunk that the buffer
/// was given. If a writer's chunks are complete and are committed once each, `packets committed =
/// read + lost() + unread` holds exactly, at any time.
///
/// Packets whose first fragment the buffer never saw are not counted: those that a writer gave up
/// before it wrote any byte of them, and those in chunks that were never committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketCounts {
    /// Packets delivered to the reader.
    pub read: u64,
    /// Packets in the buffer that can be read or wait for the rest of them.
    pub unread: u64,
    /// Packets evicted before they were read, and lost.
    pub overwritten: u64,
    /// Packets evicted before they were read, which are part of a state since: see
    /// [`Overwritten::Folded`](super::Overwritten::Folded).
    pub folded: u64,
    /// Packets in refused chunks: refused by a full buffer, by a clone, or for their size.
    pub discarded: u64,
    /// Packets in chunks that came after their place in the sequence was read or evicted.
    pub late: u64,
    /// Packets begun whose next fragment should be in a missing chunk.
    pub gap: u64,
    /// Packets begun that the next chunk does not continue.
    pub broken_chain: u64,
    /// Packets begun that the writer gave up.
    pub aborted: u64,
    /// Packets that are unreadable because a patch destroyed the size of a fragment.
    pub corrupted: u64,
}

impl PacketCounts {
    /// Returns the number of packets that the reader will never get.
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

    /// Returns the number of packets that were ever committed.
    #[must_use]
    pub const fn committed(&self) -> u64 {
        self.read + self.unread + self.folded + self.lost()
    }
}

impl AddAssign for PacketCounts {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.unread += other.unread;
        self.overwritten += other.overwritten;
        self.folded += other.folded;
        self.discarded += other.discarded;
        self.late += other.late;
        self.gap += other.gap;
        self.broken_chain += other.broken_chain;
        self.aborted += other.aborted;
        self.corrupted += other.corrupted;
    }
}

/// A histogram of the sizes of one writer's chunks: `TraceStats.WriterStats`.
///
/// Every commit counts, even if its chunk comes again or too late. Chunks that are refused for
/// their size, or by a full [`FillPolicy::Discard`](super::FillPolicy::Discard) buffer, do not
/// count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkPayloadHistogram {
    buckets: [Bucket; Self::BUCKETS],
}

/// A bucket of a histogram. Count and sum are side by side, so a commit touches one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(16))]
struct Bucket {
    chunks: u64,
    bytes: u64,
}

impl ChunkPayloadHistogram {
    /// The number of buckets: one for each bound, and one for larger sizes.
    pub const BUCKETS: usize = Self::BOUNDS_BYTES.len() + 1;

    /// The largest size in each bucket but the last.
    pub const BOUNDS_BYTES: [u16; 10] = [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384];

    #[inline]
    pub(super) fn add(&mut self, size_bytes: u16) {
        // Do this without branches, because the sizes of a busy writer's chunks follow no pattern.
        let bucket: usize = Self::BOUNDS_BYTES
            .iter()
            .map(|&bound| usize::from(size_bytes > bound))
            .sum();
        let bucket = &mut self.buckets[bucket];
        bucket.chunks += 1;
        bucket.bytes += u64::from(size_bytes);
    }

    /// Returns the chunks since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut buckets = self.buckets;
        for (bucket, earlier) in buckets.iter_mut().zip(&earlier.buckets) {
            bucket.chunks -= earlier.chunks;
            bucket.bytes -= earlier.bytes;
        }
        Self { buckets }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.chunks == 0)
    }

    /// Returns the number of chunks in each bucket.
    #[must_use]
    pub fn counts(&self) -> [u64; Self::BUCKETS] {
        self.buckets.map(|bucket| bucket.chunks)
    }

    /// Returns the total payload of the chunks in each bucket, in bytes.
    #[must_use]
    pub fn sums_bytes(&self) -> [u64; Self::BUCKETS] {
        self.buckets.map(|bucket| bucket.bytes)
    }
}
