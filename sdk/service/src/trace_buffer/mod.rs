//! The central ring that receives chunks and returns whole packets.
//!
//! Each buffer of a tracing session is a [`TraceBuffer`]. Chunks come from any number of writers.
//! The packets of one writer of one producer form a *sequence*. A chunk holds *fragments*. Most
//! fragments are whole packets, but the first may be the end of a packet that an earlier chunk
//! began, and the last may be the begin of a packet that a later chunk continues. The reader gets
//! whole packets: in order within each sequence, and roughly in order of commit across sequences.
//! With each packet the reader gets the causes of the losses before that packet.
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
//! Three operations walk over these slots:
//!
//! - **Writing** stores a chunk at the write cursor. First it *evicts* the chunks that the new one
//!   would cover. If a chunk does not fit before the end of the memory, the cursor goes back to the
//!   start. A [`FillPolicy::Discard`] buffer never writes again from there on.
//! - **Reading** visits the slots from the oldest to the newest. At each chunk it first consumes
//!   the older chunks of the same sequence, wherever they lie. If a packet begins in the visited
//!   chunk, its other fragments are read from later ones. A sequence *stalls* until the next read
//!   cycle at a packet that still lacks patches or fragments, and behind a chunk that its writer
//!   has not finished.
//! - **Evicting** consumes packets as reading does, but never stalls, and counts the packets as
//!   lost. Usually a chunk shares no packet with other chunks. Then its descriptor (`slot.rs`) is
//!   enough to evict it, so its payload is not loaded into the cache. Only an
//!   [observer](TraceBuffer::observe_overwrites) makes evicting read the payload of such a chunk.
//!
//! The chunks of a writer usually come in order. A scrape also copies chunks that writers are still
//! filling. Such a copy is *incomplete*, and the chunk is committed again later. The second copy is
//! stored in place of the first. If the first copy was already read, the second one may be stored at
//! the write cursor instead (`commit.rs`). No reader can tell whether a missing chunk will still come,
//! so an id that is missing between two chunks is a loss, and reading does not wait for it.
//!
//! **Losses** are reported in two ways. The next packet in the sequence carries a [`LossMask`] with
//! the causes, once. And each sequence has an exact account of its packets, [`PacketCounts`].
//!
//! Chunks and patches are untrusted. Bad ones only change counters. Memory is read only as
//! fragments that are checked against the bounds of their chunk when they are read.

// In the order in which a chunk passes through them.
mod create; // creates buffers
mod chunk; // a chunk before it is checked
mod commit; // checks and stores chunks
mod chunk_window; // which chunks of a writer were already counted
mod ring; // the memory
mod segment_memory; // the memory of a segment, from the system or in a file
mod slot; // the descriptor of a chunk's place in the memory
mod slot_table; // all slots, oldest first
mod evict; // evicts chunks to make room
mod key_map; // from producer and writer to the sequence
mod sequence_table; // all sequences
mod sequence; // one sequence: its chunks and its losses
mod chunk_queue; // the chunks of a sequence, sorted by id
mod fragment; // splits a payload into fragments
mod packet_reader; // reads packets out of all chunks
mod reassembly; // puts together packets that lie in several chunks
mod loss; // causes of losses
mod account; // counters of a sequence
mod stats; // statistics of the buffer, which a trace reports
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use tracezero_config::FillPolicy;
use tracezero_core::commit::Patch;
use tracezero_core::crash_files::RingFile;
use tracezero_core::ids::{BufferId, ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;

pub use chunk::{ClientIdentity, UntrustedChunk};
pub use create::BufferError;
pub(crate) use create::SEGMENT_BYTES;
pub use evict::{EvictedChunk, OverwriteObserver, Overwritten};
pub use loss::LossMask;
pub(crate) use packet_reader::Mark;
pub use packet_reader::{Origin, Packet, Packets, Run, Slices, split_first_packet};
pub use stats::{BufferStats, ChunkAmount, ChunkPayloadHistogram, PacketCounts, StorageBalance};

use account::Account;
use evict::Observer;
use key_map::SequenceKey;
use packet_reader::ReadCycle;
#[cfg(test)]
use ring::at_stores;
use ring::{Fragment, Ring};
pub(crate) use segment_memory::SegmentMemory;
#[cfg(test)]
pub(crate) use segment_memory::memory_refusal;
use sequence::{ConsumedChunk, Sequence, SequenceIndex};
use sequence_table::SequenceTable;
use stats::StorageCounts;

/// The number of bytes that a patch replaces.
const PATCH_BYTES: usize = size_of::<[u8; 4]>();

/// How far a sequence was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    /// The newest chunk that packets were read from.
    pub chunk_id: ChunkId,
    /// The number of its payload bytes that were read.
    pub chunk_bytes: u16,
    /// The number of packets of the sequence that were read so far.
    pub read: u64,
}

/// The state of a buffer that decides whether it accepts chunks and patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Open,
    /// A full [`FillPolicy::Discard`] buffer: refuses chunks, accepts patches.
    Sealed,
    /// A clone: refuses chunks and patches.
    ReadOnly,
}

/// A trace buffer of the service: stores chunks of writers and returns their packets.
///
/// ```
/// use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
/// use tracezero_service::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk};
/// use tracezero_core::shm::layout::ChunkFlags;
///
/// let mut buffer = TraceBuffer::new(64 * 1024, FillPolicy::Ring)?;
/// buffer.commit_chunk(&UntrustedChunk {
///     producer_id: ProducerId::new(1),
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
/// let counts = buffer.packet_counts(ProducerId::new(1), WriterId(1)).unwrap();
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
    /// The position of the reader; `None` after a write to the buffer.
    cycle: Option<ReadCycle>,
    /// The number of calls of [`TraceBuffer::begin_read`].
    read_cycles: u64,
    /// The fragments of the packet that was put together last. The memory is reused.
    packet: Vec<Fragment>,
    observer: Option<Observer>,
    /// Writers whose packets were lost since the list was last taken; `None` if no list is kept.
    losing_writers: Option<Vec<(ProducerId, WriterId)>>,
}

impl TraceBuffer {
    /// Returns the crash file that the memory is in.
    pub(crate) fn crash_file(&self) -> Option<&Arc<RingFile>> {
        self.ring.file()
    }

    /// Notes that all packets that were read are in the trace file. Until then, a ring that grows
    /// in a crash file keeps them.
    pub(crate) fn note_written(&mut self) {
        self.ring.note_written();
    }

    /// Notes the id by which writers name the buffer, for a recovery.
    pub(crate) fn note_id(&self, id: BufferId) {
        if let Some(file) = self.ring.file() {
            file.set_buffer_id(id);
        }
    }

    /// Creates a copy that can be read but not written. The copy refuses chunks and patches, and
    /// counts what it refuses.
    ///
    /// The copy holds the packets that are unread here. Its statistics of reading start at zero.
    /// Its packet counts start with the counts of this buffer, so packets that were read here count
    /// as read in the copy, too.
    ///
    /// # Errors
    ///
    /// Returns [`BufferError::OutOfMemory`] if the operating system refuses the memory.
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

    /// Makes this empty buffer the successor of `earlier`, so that no packet of `earlier` is read
    /// again. If `earlier` holds a copy of an unfinished chunk, only the rest of that chunk is
    /// stored here when it comes again.
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
            // Packets that `earlier` refused count as lost in `earlier`, so they must not be stored
            // here.
            let accounted = account.hot.accounted.newest();
            let reached = [sequence.last_consumed, newest, accounted]
                .into_iter()
                .flatten()
                .reduce(ConsumedChunk::further);
            if let Some(reached) = reached {
                let unreported = sequence.unreported_losses();
                self.sequences.continue_after(account, reached, unreported);
            }
        }
    }

    /// Returns how far a sequence was read; `None` if nothing was read.
    pub(crate) fn read_position(
        &self,
        producer_id: ProducerId,
        writer_id: WriterId,
    ) -> Option<ReadPosition> {
        let sequence = self
            .sequences
            .find(SequenceKey::new(producer_id, writer_id))?;
        let front = self.sequences[sequence].front();
        let begun = front.and_then(|front| {
            let slot = self.ring.slot(front.slot);
            (slot.consumed_bytes > 0).then_some((slot.chunk_id, slot.consumed_bytes))
        });
        let (chunk_id, chunk_bytes) = match (begun, self.sequences[sequence].last_consumed) {
            (Some(begun), _) => begun,
            (None, Some(last)) => (last.id, last.payload_bytes),
            (None, None) => return None,
        };
        Some(ReadPosition {
            chunk_id,
            chunk_bytes,
            read: self.sequences.account(sequence).counts.read,
        })
    }

    /// Notes that a producer is gone. Packets of it that lack patches or fragments are lost, and hold back
    /// no others.
    pub(crate) fn end_writers(&mut self, producer_id: ProducerId) {
        self.cycle = None;
        for account in self.sequences.accounts_mut() {
            account.has_ended |= account.hot.producer_id == producer_id;
        }
    }

    /// Returns the newest chunk of each sequence of which something was read or overwritten.
    pub(crate) fn consumed_chunks(&self) -> impl Iterator<Item = EvictedChunk> + '_ {
        self.sequences.iter().filter_map(|(sequence, account)| {
            let last = sequence.last_consumed?;
            Some(EvictedChunk {
                producer_id: account.hot.producer_id,
                writer_id: account.hot.writer_id,
                chunk_id: last.id,
                payload_bytes: last.payload_bytes,
                is_newest: true,
                lost: account.lost(),
            })
        })
    }

    /// Makes this empty buffer continue a sequence that was read up to `position`: what comes of it
    /// before that position is ignored.
    pub fn continue_at(
        &mut self,
        producer_id: ProducerId,
        writer_id: WriterId,
        client: &ClientIdentity,
        position: ReadPosition,
    ) {
        let key = SequenceKey::new(producer_id, writer_id);
        self.sequences.continue_at(key, client, position);
    }

    /// Makes this empty buffer continue a sequence whose chunks up to `chunk` were overwritten: what
    /// comes of it is ignored. Of their packets, `folded` are part of a state, and those that `chunk`
    /// counts are lost. Call this after [`continue_at`](Self::continue_at).
    pub fn continue_behind(&mut self, client: &ClientIdentity, chunk: &EvictedChunk, folded: u64) {
        self.sequences.continue_behind(client, chunk, folded);
    }

    /// Applies patches to a chunk that was committed before. If `has_more_patches` is false, the
    /// packet at the end of the chunk waits for no more patches.
    ///
    /// Returns false if the chunk is not in the buffer, if the buffer is a clone, or if a patch
    /// lies outside of the chunk's fragments. The patches before that patch stay applied, and those
    /// behind it are ignored.
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
            self.ring.write_state(chunk.slot);
        }
        true
    }

    /// Starts listing the writers whose packets are lost, for [`TraceBuffer::take_losing_writers`].
    pub(crate) fn list_losing_writers(&mut self) {
        self.losing_writers = Some(Vec::new());
    }

    /// Returns the writers whose packets were lost since the last call.
    pub(crate) fn take_losing_writers(
        &mut self,
    ) -> impl Iterator<Item = (ProducerId, WriterId)> + '_ {
        self.losing_writers
            .as_mut()
            .into_iter()
            .flat_map(|writers| writers.drain(..))
    }

    /// Adds the writer of a sequence to the list of losing writers, if one is kept.
    fn list_losing_writer(&mut self, sequence: SequenceIndex) {
        let hot = &self.sequences.account(sequence).hot;
        let writer = (hot.producer_id, hot.writer_id);
        if let Some(writers) = &mut self.losing_writers
            && writers.last() != Some(&writer)
        {
            writers.push(writer);
        }
    }

    /// Returns the statistics of this buffer.
    #[must_use]
    pub fn stats(&self) -> &BufferStats {
        &self.stats
    }

    /// Returns the balance of all bytes that were ever stored. Looks at each chunk.
    #[must_use]
    pub fn storage_balance(&self) -> StorageBalance {
        let mut unread = ChunkAmount::default();
        let mut id = self.ring.first();
        while id != self.ring.end() {
            let slot = self.ring.slot(id);
            // A chunk without fragments is drained from the start, but counts as unread until it is
            // removed.
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

    /// Returns the number of bytes in chunks that were neither read nor overwritten. The result is
    /// that of [`StorageBalance::unread`], but needs no look at each chunk.
    ///
    /// Subtracting the bytes read and overwritten from `bytes_written` is not enough: a chunk that
    /// was read while its writer was filling it is read again, and then counts twice as read.
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

    /// Returns the sizes of a writer's chunks; `None` if no chunk of the writer was ever accepted.
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

    /// Returns the packet counts of a writer; `None` if the buffer was never given a chunk of it.
    ///
    /// The counts live as long as the buffer and take about 400 bytes for each writer. There are
    /// counts of at most 65,536 writers: chunks of later ones are discarded.
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

    /// Returns the packet counts of all writers, in the order of their first chunks.
    pub fn all_packet_counts(&self) -> impl Iterator<Item = (ProducerId, WriterId, PacketCounts)> {
        self.sequences.iter().map(|(sequence, account)| {
            (
                account.hot.producer_id,
                account.hot.writer_id,
                self.counts_of(sequence, account),
            )
        })
    }

    /// Returns the packet counts of a sequence, including packets in the buffer. Looks at each of
    /// its chunks.
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

    /// Returns true if this is a [`FillPolicy::Discard`] buffer that has refused a chunk for lack
    /// of room. It accepts no more chunks.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.intake == Intake::Sealed
    }

    /// Returns what the buffer does when it is full.
    #[must_use]
    pub fn fill_policy(&self) -> FillPolicy {
        self.policy
    }

    /// Returns the size after rounding up. For a growing ring, this is its present size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.ring.size_bytes())
    }

    /// Returns the size that the ring can grow to.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.ring.capacity_bytes())
    }

    /// Returns the largest size so far.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        u64::from(self.ring.peak_bytes())
    }

    /// Takes the memory of removed segments. Freeing the memory is slow, so the caller does that
    /// after it has released the lock of this buffer.
    pub(crate) fn take_removed_segments(&mut self) -> Vec<SegmentMemory> {
        self.ring.take_removed()
    }

    fn can_ever_grow(&self) -> bool {
        self.ring.capacity_bytes() > self.ring.segment_bytes()
    }

    /// Returns true if the ring may grow soon and has no spare segment for that.
    pub(crate) fn wants_spare_segment(&self) -> bool {
        let half_bytes = self.ring.segment_bytes() / 2;
        self.intake == Intake::Open
            && self.ring.wants_spare()
            && self.ring.tail_bytes() < half_bytes
    }

    /// Makes the present size the maximum, because no memory is left to grow into.
    pub(crate) fn stop_growing(&mut self) {
        self.ring.stop_growing();
    }

    /// Adds a spare segment of [`SEGMENT_BYTES`] for the ring to grow into.
    pub(crate) fn add_spare_segment(&mut self, memory: SegmentMemory) {
        self.ring.add_spare(memory);
    }

    /// Returns roughly how many bytes can be written before an unread chunk is overwritten that was
    /// in the buffer at `mark`; `None` if there is no such chunk. Looks at each chunk up to the
    /// first unread one.
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

    /// Returns how much of the memory was ever written. The rest of the memory is untouched. The
    /// result shrinks only when a ring that had grown shrinks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.ring.used_bytes())
    }

    /// Returns the number of bytes between the write cursor and the end of the buffer.
    #[must_use]
    pub fn tail_bytes(&self) -> u64 {
        u64::from(self.ring.tail_bytes())
    }
}
