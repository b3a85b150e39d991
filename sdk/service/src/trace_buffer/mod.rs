//! The central ring that receives chunks and hands back whole packets.
//!
//! Each buffer of a trace has one. Chunks come in from any number of writers; what one writer of
//! one producer wrote is a *sequence*. A chunk holds *fragments*: most are whole packets, but the
//! first may be the end of a packet that an earlier chunk began, and the last may be the begin of
//! one that a later chunk goes on with. The reader gets whole packets, in order inside each
//! sequence and roughly in order of commit across them, and with each packet what was lost before
//! it.
//!
//! ```text
//!                               newest  oldest
//!                                 |      |
//!   memory   | A9  | B4  | pad  | B5  | A8  | A7  | ... never used ... |
//!                                     ^
//!                                     write cursor: what follows is overwritten next, read first
//!
//!   slots, oldest first    A8  A7  A9  B4  pad  B5
//!   sequence A, by id      A7  A8  A9        read in this order, though A8 is visited first
//!   sequence B, by id      B4  B5
//! ```
//!
//! Three walks run over this picture:
//!
//! - **Writing** stores a chunk at the write cursor. What it covers is *evicted* first; if a chunk
//!   does not fit before the end of the memory, the cursor goes back to the start. A
//!   [`FillPolicy::Discard`] buffer stops for good there.
//! - **Reading** visits the slots from the oldest to the newest. At each chunk it first consumes
//!   what is older in the same sequence, wherever that lies. A packet that begins in the visited
//!   chunk pulls its other fragments out of later ones. A sequence *stalls*, until the next read
//!   cycle, at a packet whose lengths or continuations are still to come, and behind a chunk that
//!   its writer has not finished.
//! - **Evicting** is reading without stalls and without a reader: it must tell what was lost. A
//!   chunk without fragments of other chunks' packets, the common case, is evicted by its
//!   descriptor alone; its payload stays out of the cache. Only for an
//!   [observer](TraceBuffer::observe_overwrites) are its packets looked at once more.
//!
//! Chunks usually come in order. They do not when the service scrapes: it copies chunks out of the
//! shared memory in whatever order they lie there, some while their writers still work on them.
//! Such a chunk is *incomplete*; it comes again, either in place of the first copy or, if that was
//! read already, at the write cursor (`commit.rs`). A scrape is over before anything is read, so
//! an id that is missing between two chunks is a loss, and nobody waits for it.
//!
//! **Losses** show twice. The packet behind a loss carries a [`LossMask`] with the causes, once.
//! And each sequence has an exact account of its packets, [`PacketCounts`].
//!
//! Nothing here trusts a chunk or a patch. Bad ones move counters; the memory is only ever read as
//! fragments that were checked against the bounds of their chunk at the moment of reading.

// In the order of a chunk's journey.
mod chunk; // a chunk that nobody has checked yet
mod commit; // takes it in, unless it came before
mod chunk_window; // which chunks of a writer came before
mod ring; // the memory
mod slot; // the place of a chunk
mod slot_table; // all places, in the order of the buffer
mod evict; // makes room
mod key_map; // from producer and writer to the sequence
mod sequence_table; // all sequences
mod sequence; // one of them: its chunks, and its losses
mod chunk_queue; // its chunks in the order of their ids
mod fragment; // the packets of a chunk, or parts of them
mod packet_reader; // the walk over all of them
mod reassembly; // packets that lie in several chunks
mod loss; // why packets are missing
mod account; // what became of the packets of a sequence
mod stats; // what a trace tells of the buffer
#[cfg(test)]
mod tests;

use std::fmt;

use memmap2::MmapMut;

pub use tracezero_config::FillPolicy;
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;

pub use chunk::{ClientIdentity, UntrustedChunk};
pub use loss::LossMask;
pub(crate) use packet_reader::Mark;
pub use packet_reader::{Origin, Packet, Packets, Run, Slices, split_first_packet};
pub use stats::{BufferStats, ChunkAmount, ChunkPayloadHistogram, PacketCounts, StorageBalance};

use account::Account;
use evict::OverwriteObserver;
use key_map::SequenceKey;
use packet_reader::ReadCycle;
#[cfg(test)]
pub(crate) use ring::memory_refusal;
use ring::{Fragment, Ring};
use sequence::{ConsumedChunk, Sequence, SequenceIndex};
use sequence_table::SequenceTable;
use stats::StorageCounts;

/// The size of a buffer is a multiple of this.
const SIZE_GRANULE_BYTES: u64 = 4096;

/// The memory that a growing ring takes at once.
pub(crate) const SEGMENT_BYTES: u64 = 2 << 20;

/// Makes memory to grow with, every page of which is there.
///
/// # Errors
///
/// If the operating system refuses the address space.
pub(crate) fn map_spare_segment() -> std::io::Result<MmapMut> {
    ring::map_segment(SEGMENT_BYTES as u32)
}

/// Bytes that a patch replaces.
const PATCH_BYTES: usize = size_of::<[u8; 4]>();

/// Why there is no buffer.
#[derive(Debug)]
#[non_exhaustive]
pub enum BufferError {
    /// Offsets in a buffer have 32 bits. Ask for less than 4 GiB, or for several buffers.
    TooLarge {
        /// The size that was asked for.
        size_bytes: u64,
    },
    /// The operating system has no room for the memory. Ask for less, or raise the limit of the
    /// process's address space.
    OutOfMemory {
        /// The size that was asked for, rounded up.
        size_bytes: u64,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size_bytes } => write!(
                f,
                "a trace buffer of {size_bytes} bytes is too large: the limit is 4 GiB minus 4 KiB"
            ),
            Self::OutOfMemory { size_bytes, .. } => {
                write!(f, "no memory for a trace buffer of {size_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for BufferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TooLarge { .. } => None,
            Self::OutOfMemory { source, .. } => Some(source),
        }
    }
}

/// Whether a buffer takes chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Open,
    /// A full [`FillPolicy::Discard`] buffer: chunks are refused, patches are taken.
    Sealed,
    /// A clone: chunks and patches are refused.
    ReadOnly,
}

/// A central buffer of the service.
///
/// ```
/// use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
/// use tracezero_service::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk};
/// use tracezero_core::shm::layout::ChunkFlags;
///
/// let mut buffer = TraceBuffer::new(64 * 1024, FillPolicy::Ring)?;
/// buffer.commit_chunk(&UntrustedChunk {
///     producer_id: ProducerId(1),
///     client: ClientIdentity::default(),
///     writer_id: WriterId(1),
///     chunk_id: ChunkId(0),
///     fragment_count: 2,
///     flags: ChunkFlags::default(),
///     complete: true,
///     payload: b"\x03one\x03two",
/// });
///
/// buffer.begin_read();
/// while let Some(packet) = buffer.read_packet() {
///     assert!(packet.loss().is_empty());
///     assert_eq!(packet.len_bytes(), 3);
/// }
/// let counts = buffer.packet_counts(ProducerId(1), WriterId(1)).unwrap();
/// assert_eq!((counts.read, counts.unread, counts.lost()), (2, 0, 0));
/// # Ok::<(), tracezero_service::trace_buffer::BufferError>(())
/// ```
#[derive(Debug)]
pub struct TraceBuffer {
    ring: Ring,
    policy: FillPolicy,
    intake: Intake,
    sequences: SequenceTable,
    stats: BufferStats,
    storage: StorageCounts,
    /// Where reading is; `None` after the buffer was written to.
    cycle: Option<ReadCycle>,
    /// Counts the calls of [`TraceBuffer::begin_read`].
    read_cycles: u64,
    /// The fragments of the packet that was put together last. Kept to be used again.
    packet: Vec<Fragment>,
    observer: Option<OverwriteObserver>,
    /// Writers whose packets were lost since somebody took the list; `None` if nobody does.
    losing_writers: Option<Vec<(ProducerId, WriterId)>>,
}

impl TraceBuffer {
    /// An empty buffer of at least `size_bytes`: the size is rounded up to a multiple of 4096.
    ///
    /// The memory is a private anonymous mapping, so the operating system hands out a page when
    /// the first chunk reaches it, zeroed and without a pass over it here, and takes all of it
    /// back when the buffer goes.
    ///
    /// # Errors
    ///
    /// [`BufferError::TooLarge`] from 4 GiB on (after rounding), [`BufferError::OutOfMemory`] if
    /// the operating system refuses.
    pub fn new(size_bytes: u64, policy: FillPolicy) -> Result<Self, BufferError> {
        let rounded = size_bytes
            .max(1)
            .checked_next_multiple_of(SIZE_GRANULE_BYTES);
        let Some(rounded) = rounded.and_then(|rounded| u32::try_from(rounded).ok()) else {
            return Err(BufferError::TooLarge { size_bytes });
        };
        let size_bytes = u64::from(rounded);
        let ring =
            Ring::new(rounded).map_err(|source| BufferError::OutOfMemory { size_bytes, source })?;
        Ok(Self::of_ring(ring, policy))
    }

    /// An empty ring that takes as much memory as its reader lags behind: it grows by segments of
    /// [`SEGMENT_BYTES`], up to `limit_bytes`, and overwrites only when it has reached that. The limit
    /// is rounded up to whole segments, and down to less than 4 GiB; there are at least two.
    ///
    /// # Errors
    ///
    /// [`BufferError::OutOfMemory`] if the operating system refuses the first segment.
    pub(crate) fn growing(limit_bytes: u64) -> Result<Self, BufferError> {
        const SEGMENT_SHIFT: u32 = SEGMENT_BYTES.ilog2();
        const SEGMENTS_MAX: u64 = (1 << (u32::BITS - SEGMENT_SHIFT)) - 1;
        let segments = limit_bytes.div_ceil(SEGMENT_BYTES).clamp(2, SEGMENTS_MAX);
        let size_bytes = SEGMENT_BYTES;
        let ring = Ring::growing(SEGMENT_SHIFT, segments as u32)
            .map_err(|source| BufferError::OutOfMemory { size_bytes, source })?;
        Ok(Self::of_ring(ring, FillPolicy::Ring))
    }

    fn of_ring(ring: Ring, policy: FillPolicy) -> Self {
        Self {
            stats: BufferStats {
                buffer_size: u64::from(ring.size_bytes()),
                ..BufferStats::default()
            },
            ring,
            policy,
            intake: Intake::Open,
            sequences: SequenceTable::new(),
            storage: StorageCounts::default(),
            cycle: None,
            read_cycles: 0,
            packet: Vec::new(),
            observer: None,
            losing_writers: None,
        }
    }

    /// A copy that can be read but not written: it refuses chunks and patches, and counts them.
    ///
    /// It holds what is unread here. Statistics of reading start anew in it; the accounts of
    /// packets go on, so packets that were read here count as read there, too.
    ///
    /// # Errors
    ///
    /// [`BufferError::OutOfMemory`] if the operating system refuses the memory.
    pub fn clone_read_only(&self) -> Result<Self, BufferError> {
        let size_bytes = self.size_bytes();
        let ring = self
            .ring
            .try_clone()
            .map_err(|source| BufferError::OutOfMemory { size_bytes, source })?;
        Ok(Self {
            ring,
            policy: self.policy,
            intake: Intake::ReadOnly,
            sequences: self.sequences.clone(),
            stats: BufferStats {
                bytes_read: 0,
                chunks_read: 0,
                readaheads_succeeded: 0,
                readaheads_failed: 0,
                ..self.stats
            },
            storage: StorageCounts {
                read_before_clone: self.chunks_read(),
                ..self.storage
            },
            cycle: None,
            read_cycles: self.read_cycles,
            packet: Vec::new(),
            observer: None,
            losing_writers: None,
        })
    }

    /// Creates an empty buffer of the same size and policy.
    ///
    /// # Errors
    ///
    /// [`BufferError::OutOfMemory`] if the operating system refuses the memory.
    pub fn empty_copy(&self) -> Result<Self, BufferError> {
        if self.can_ever_grow() {
            Self::growing(self.capacity_bytes())
        } else {
            Self::new(self.size_bytes(), self.policy)
        }
    }

    /// Makes this empty buffer the one for what comes after `earlier`: a chunk that came there while
    /// its writer was still filling it brings only the rest when it comes here. So this buffer repeats
    /// nothing of `earlier`.
    pub fn continue_after(&mut self, earlier: &Self) {
        if self.can_ever_grow() {
            self.ring.note_peak(earlier.peak_bytes());
        }
        for (sequence, account) in earlier.sequences.iter() {
            let newest = sequence.back().map(|newest| {
                let slot = earlier.ring.slot(newest.slot);
                ConsumedChunk {
                    id: newest.id,
                    payload_bytes: slot.payload_bytes,
                    was_incomplete: slot.is_incomplete,
                }
            });
            // What was refused counts as lost, and must not be there as well.
            let accounted = account.hot.accounted.newest();
            let reached = [sequence.last_consumed, newest, accounted]
                .into_iter()
                .flatten()
                .reduce(ConsumedChunk::further);
            if let Some(reached) = reached {
                let untold = sequence.untold_losses();
                self.sequences.continue_after(account, reached, untold);
            }
        }
    }

    /// Replaces lengths in a chunk that was committed before. With `has_more_patches` false, the
    /// packet at the end of the chunk no longer waits for any.
    ///
    /// Returns false if the chunk is not in the buffer, or at the first patch that lies outside
    /// of its fragments; the patches before that one stay applied.
    pub fn patch_chunk(
        &mut self,
        producer_id: ProducerId,
        writer_id: WriterId,
        chunk_id: ChunkId,
        patches: &[Patch],
        has_more_patches: bool,
    ) -> bool {
        self.cycle = None;
        let found = self
            .sequences
            .find(SequenceKey::new(producer_id, writer_id))
            .and_then(|sequence| self.sequences[sequence].find(chunk_id));
        let Some(chunk) = found.filter(|_| self.intake != Intake::ReadOnly) else {
            self.stats.patches_failed += 1;
            return false;
        };
        for patch in patches {
            let payload = self.ring.payload_mut(chunk.slot);
            let offset = usize::from(patch.offset_bytes);
            let Some(target) = payload.get_mut(offset..offset + PATCH_BYTES) else {
                self.stats.patches_failed += 1;
                return false;
            };
            target.copy_from_slice(&patch.data);
            let slot = self.ring.slot_mut(chunk.slot);
            slot.is_altered |= !slot.is_begin_of_packet(offset);
        }
        self.stats.patches_succeeded += patches.len() as u64;
        if !has_more_patches {
            let slot = self.ring.slot_mut(chunk.slot);
            slot.flags = slot.flags.difference(ChunkFlags::NEEDS_PATCHING);
        }
        true
    }

    /// From now on, lists the writers whose packets are lost, for
    /// [`TraceBuffer::take_losing_writers`].
    pub(crate) fn list_losing_writers(&mut self) {
        self.losing_writers = Some(Vec::new());
    }

    /// Takes the writers whose packets were lost since the last call.
    pub(crate) fn take_losing_writers(
        &mut self,
    ) -> impl Iterator<Item = (ProducerId, WriterId)> + '_ {
        self.losing_writers
            .as_mut()
            .into_iter()
            .flat_map(|writers| writers.drain(..))
    }

    /// Lists the writer of a sequence that has lost packets, if somebody takes the list.
    fn list_losing_writer(&mut self, sequence: SequenceIndex) {
        let hot = &self.sequences.account(sequence).hot;
        let writer = (hot.producer_id, hot.writer_id);
        if let Some(writers) = &mut self.losing_writers
            && writers.last() != Some(&writer)
        {
            writers.push(writer);
        }
    }

    /// What happened in this buffer so far.
    #[must_use]
    pub fn stats(&self) -> &BufferStats {
        &self.stats
    }

    /// Where everything is that was ever stored. Takes a look at each chunk.
    #[must_use]
    pub fn storage_balance(&self) -> StorageBalance {
        let mut unread = ChunkAmount::default();
        let mut id = self.ring.first();
        while id != self.ring.end() {
            let slot = self.ring.slot(id);
            // A chunk without fragments is at its end when it leaves.
            if slot.sequence.is_some() && (!slot.is_drained() || slot.payload_bytes == 0) {
                unread.add(slot.size_bytes());
            }
            id = id.next();
        }
        StorageBalance {
            written: ChunkAmount {
                chunks: self.stats.chunks_written,
                bytes: self.stats.bytes_written,
            },
            reopened: self.storage.reopened,
            read: self.chunks_read(),
            overwritten: ChunkAmount {
                chunks: self.stats.chunks_overwritten,
                bytes: self.stats.bytes_overwritten,
            },
            empty: self.storage.empty,
            unreadable: self.storage.unreadable,
            unread,
            padding_bytes_written: self.stats.padding_bytes_written,
            reused_bytes: self.storage.reused_bytes,
            used_bytes: self.used_bytes(),
        }
    }

    /// Bytes of the chunks in the buffer that did not come to their end; the
    /// [`StorageBalance::unread`] of its balance, without a look at them.
    ///
    /// What was written is more than this and what was read and overwritten: a chunk that was read
    /// while its writer went on with it is read again.
    pub(crate) fn unread_bytes(&self) -> u64 {
        let begun_bytes = self.stats.bytes_written + self.storage.reopened.bytes;
        let ended_bytes = self.chunks_read().bytes
            + self.stats.bytes_overwritten
            + self.storage.empty.bytes
            + self.storage.unreadable.bytes;
        begun_bytes - ended_bytes
    }

    fn chunks_read(&self) -> ChunkAmount {
        let since_clone = ChunkAmount {
            chunks: self.stats.chunks_read,
            bytes: self.stats.bytes_read,
        };
        self.storage.read_before_clone + since_clone
    }

    /// How large the chunks of a writer were; `None` if none was ever taken.
    #[must_use]
    pub fn writer_histogram(
        &self,
        producer_id: ProducerId,
        writer_id: WriterId,
    ) -> Option<&ChunkPayloadHistogram> {
        let sequence = self
            .sequences
            .find(SequenceKey::new(producer_id, writer_id))?;
        Some(&self.sequences.account(sequence).histogram).filter(|histogram| !histogram.is_empty())
    }

    /// The account of one writer's packets; `None` if the buffer was never given a chunk of it.
    ///
    /// An account is kept as long as the buffer, about 400 bytes for each writer ever seen.
    #[must_use]
    pub fn packet_counts(
        &self,
        producer_id: ProducerId,
        writer_id: WriterId,
    ) -> Option<PacketCounts> {
        let sequence = self
            .sequences
            .find(SequenceKey::new(producer_id, writer_id))?;
        Some(self.counts_of(&self.sequences[sequence], self.sequences.account(sequence)))
    }

    /// The accounts of all writers, in the order in which their first chunks came.
    pub fn all_packet_counts(&self) -> impl Iterator<Item = (ProducerId, WriterId, PacketCounts)> {
        self.sequences.iter().map(|(sequence, account)| {
            (
                account.hot.producer_id,
                account.hot.writer_id,
                self.counts_of(sequence, account),
            )
        })
    }

    /// The account of a sequence, with what lies in the buffer. Takes a look at each chunk.
    fn counts_of(&self, sequence: &Sequence, account: &Account) -> PacketCounts {
        let unread = sequence
            .chunks()
            .map(|chunk| u64::from(self.ring.slot(chunk.slot).unread_packets));
        PacketCounts {
            unread: unread.sum(),
            overwritten: account.hot.overwritten,
            ..account.counts
        }
    }

    /// Whether this is a [`FillPolicy::Discard`] buffer that has refused a chunk for lack of room: it
    /// takes no more of them.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.intake == Intake::Sealed
    }

    /// What it does when it is full.
    #[must_use]
    pub fn fill_policy(&self) -> FillPolicy {
        self.policy
    }

    /// The size after rounding up; of a ring that grows, the size that it has now.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.ring.size_bytes())
    }

    /// The size that a ring can grow to.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.ring.capacity_bytes())
    }

    /// The largest size that it had so far.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        u64::from(self.ring.peak_bytes())
    }

    /// Takes the memory of segments that were removed, to be given back by who can wait.
    pub(crate) fn take_removed_segments(&mut self) -> Vec<MmapMut> {
        self.ring.take_removed()
    }

    fn can_ever_grow(&self) -> bool {
        self.ring.capacity_bytes() > self.ring.segment_bytes()
    }

    /// Whether the ring may grow soon, and would have to make memory for that first.
    pub(crate) fn wants_spare_segment(&self) -> bool {
        let half_bytes = self.ring.segment_bytes() / 2;
        self.intake == Intake::Open
            && self.ring.wants_spare()
            && self.ring.tail_bytes() < half_bytes
    }

    /// Makes the size that the ring has now the largest one: there is no memory to grow with.
    pub(crate) fn stop_growing(&mut self) {
        self.ring.stop_growing();
    }

    /// Takes memory of [`SEGMENT_BYTES`] to grow with.
    pub(crate) fn add_spare_segment(&mut self, memory: MmapMut) {
        self.ring.add_spare(memory);
    }

    /// How much can be written, more or less, before something is overwritten that was there at
    /// `mark` and was not read; `None` if there is nothing like that. Takes a look at each chunk up to
    /// that one.
    pub(crate) fn bytes_before_loss(&self, mark: Mark) -> Option<u64> {
        let mut id = self.ring.first();
        while id != self.ring.end() && !mark.is_before(id) {
            let slot = self.ring.slot(id);
            if slot.sequence.is_some() && !slot.is_drained() {
                return Some(u64::from(self.ring.bytes_ahead(slot.offset)));
            }
            id = id.next();
        }
        None
    }

    /// How much of the memory was ever written to; shrinks only with a ring that had grown. What is
    /// behind was not touched.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.ring.used_bytes())
    }

    /// Bytes between the write cursor and the end of the buffer.
    #[must_use]
    pub fn tail_bytes(&self) -> u64 {
        u64::from(self.ring.tail_bytes())
    }
}
