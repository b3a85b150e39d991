//! State of a producer that the service and the producer's endpoint share. Commits need nothing
//! else.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::central_buffer::CentralBuffer;
use super::lent_memory::LentMemory;
use super::trace_buffer::{ClientIdentity, UntrustedChunk};
use tracezero_core::commit::{ChunkToMove, ChunkToPatch, LossCount};
use tracezero_core::ids::{BufferId, ProducerId, WriterId};
use tracezero_core::shm::{ChunkPlace, CopiedHeader};

/// The maximum number of patches for one chunk in one request.
const PATCHES_PER_CHUNK_MAX: usize = 1024;

/// The number of violations of the shared memory's ABI after which nothing is taken from a producer.
pub const VIOLATIONS_MAX: u64 = 64;

/// State of a producer that the service and the producer's endpoint share. Commits need nothing
/// else.
pub(super) struct ProducerLink {
    id: ProducerId,
    client: ClientIdentity,
    memory: LentMemory,
    may_be_scraped: bool,
    violations: AtomicU64,
    /// The buffers of the sessions that record this producer. The producer may write to no others.
    buffers: RwLock<HashMap<BufferId, Arc<CentralBuffer>>>,
    /// The number of buffers that the producer may write to, or once might.
    buffers_ever: AtomicUsize,
    /// The target buffers of the registered writers. The producer chooses them: they may be buffers
    /// that it may not write to.
    writers: RwLock<HashMap<WriterId, BufferId>>,
    refused: Arc<RefusedCommits>,
}

/// The number of commits of all producers to buffers that they may not write to.
#[derive(Debug, Default)]
pub(super) struct RefusedCommits {
    chunks: AtomicU64,
    patches: AtomicU64,
}

impl RefusedCommits {
    /// Returns the number of refused chunks and of refused patches.
    pub(super) fn counts(&self) -> (u64, u64) {
        // Relaxed: counts that order nothing else.
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.chunks), load(&self.patches))
    }

    fn add(count: &AtomicU64) {
        // Relaxed: as in `counts`.
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// How much a scrape takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// All that there is.
    None,
    /// What a buffer takes until its reader does not keep up.
    WhileReaderKeepsUp,
}

impl ProducerLink {
    pub(super) fn new(
        id: ProducerId,
        client: ClientIdentity,
        memory: LentMemory,
        may_be_scraped: bool,
        refused: Arc<RefusedCommits>,
    ) -> Self {
        Self {
            id,
            client,
            memory,
            may_be_scraped,
            violations: AtomicU64::new(0),
            buffers: RwLock::default(),
            buffers_ever: AtomicUsize::new(0),
            writers: RwLock::default(),
            refused,
        }
    }

    pub(super) fn client(&self) -> ClientIdentity {
        self.client
    }

    /// Allows this producer to write to `buffer`.
    pub(super) fn allow(&self, buffer: &Arc<CentralBuffer>) {
        let mut buffers = self.buffers.write();
        if buffers.insert(buffer.id, Arc::clone(buffer)).is_none() {
            // Relaxed: changed and read with the buffers locked.
            self.buffers_ever.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forbids this producer to write to these buffers. What it commits to them later is dropped.
    pub(super) fn revoke(&self, revoked: &[Arc<CentralBuffer>]) {
        let mut buffers = self.buffers.write();
        for buffer in revoked {
            buffers.remove(&buffer.id);
        }
    }

    /// Registers a writer to `target_buffer`. The writer learns from `losses` of packets that are
    /// lost there, if the producer may write to that buffer. Ignores an id that no writer can have.
    pub(super) fn register_writer(
        &self,
        writer_id: WriterId,
        target_buffer: BufferId,
        losses: &Arc<LossCount>,
    ) {
        if !writer_id.is_valid() {
            return;
        }
        // A buffer keeps counts of registered writers only: their number is limited.
        self.unregister_writer(writer_id);
        self.writers.write().insert(writer_id, target_buffer);
        if let Some(buffer) = self.buffer(target_buffer) {
            buffer.report_losses((self.id, writer_id), Arc::clone(losses));
        }
    }

    pub(super) fn unregister_writer(&self, writer_id: WriterId) {
        let target_buffer = self.writers.write().remove(&writer_id);
        if let Some(buffer) = target_buffer.and_then(|id| self.buffer(id)) {
            buffer.stop_reporting_losses((self.id, writer_id));
        }
    }

    /// Unregisters all writers.
    pub(super) fn unregister_writers(&self) {
        let writers: Vec<_> = self.writers.read().keys().copied().collect();
        for writer_id in writers {
            self.unregister_writer(writer_id);
        }
    }

    /// Copies finished packets out of chunks that writers still hold into all buffers that this
    /// producer may write to, before the producer is removed. What they lack then is lost.
    ///
    /// A process that was killed may not have registered its newest writers. If the producer could ever
    /// write to one buffer alone, that is where their packets belong.
    pub(super) fn scrape_all(&self) {
        let buffers = self.buffers.read();
        // Relaxed: as in `allow`.
        let had_several = self.buffers_ever.load(Ordering::Relaxed) > 1;
        let buffers: Vec<_> = buffers.values().map(Arc::clone).collect();
        let of_unregistered = buffers.first().filter(|_| !had_several);
        self.scrape_into(&buffers, of_unregistered, Bound::None);
        for buffer in &buffers {
            buffer.with(|buffer| buffer.end_writers(self.id));
        }
    }

    /// Copies finished packets out of chunks that writers still hold into those of `buffers` that
    /// this producer may write to.
    pub(super) fn scrape(&self, buffers: &[Arc<CentralBuffer>]) {
        self.scrape_into(&self.allowed(buffers), None, Bound::None);
    }

    /// Does the same, but takes only what the thread that writes the session's file keeps up with.
    ///
    /// The memory of another process may have many complete chunks, whose commits wait for this very
    /// thread: more than the buffer has room for. They come with the commits.
    pub(super) fn scrape_while_read(&self, buffers: &[Arc<CentralBuffer>]) {
        let bound = match self.memory.is_foreign() {
            true => Bound::WhileReaderKeepsUp,
            false => Bound::None,
        };
        self.scrape_into(&self.allowed(buffers), None, bound);
    }

    /// Returns those of `buffers` that this producer may write to. A writer names its buffer itself, so
    /// that it is registered there proves nothing.
    fn allowed(&self, buffers: &[Arc<CentralBuffer>]) -> Vec<Arc<CentralBuffer>> {
        let allowed = buffers.iter().filter_map(|buffer| self.buffer(buffer.id));
        allowed.collect()
    }

    /// Copies finished packets of registered writers into those of `buffers` that they write to, and
    /// those of other writers into `of_unregistered`.
    fn scrape_into(
        &self,
        buffers: &[Arc<CentralBuffer>],
        of_unregistered: Option<&Arc<CentralBuffer>>,
        bound: Bound,
    ) {
        let registered = self.writers.read();
        // Without writers, no chunk has a target. Then do not even look at page words: the system
        // allocates each page of shared memory that is looked at.
        if !self.may_be_scraped || (registered.is_empty() && of_unregistered.is_none()) {
            return;
        }
        // `None` for writers to buffers that are not scraped into.
        let targets = registered.iter().map(|(writer_id, target)| {
            let buffer = buffers.iter().find(|buffer| buffer.id == *target);
            (*writer_id, buffer)
        });
        let targets: HashMap<WriterId, Option<&Arc<CentralBuffer>>> = targets.collect();
        drop(registered);
        let target = |writer_id| match targets.get(&writer_id) {
            Some(registered) => *registered,
            None => of_unregistered.filter(|_| writer_id.is_valid()),
        };
        let is_wanted = |writer_id| target(writer_id).is_some();
        // Once a chunk was left out, the later ones of its writer must be left out, too.
        let mut full: Vec<BufferId> = Vec::new();
        self.memory.scrape(is_wanted, |scraped, payload| {
            let Some(buffer) = target(scraped.header.writer_id) else {
                return;
            };
            if bound == Bound::WhileReaderKeepsUp {
                if full.contains(&buffer.id) {
                    return;
                }
                if buffer.read_by_slow_reader_bytes().is_some() {
                    full.push(buffer.id);
                    return;
                }
            }
            // The reader itself scrapes, or somebody whom others wait for.
            let _ = self.commit(buffer, &scraped.header, scraped.is_complete, payload);
        });
    }

    /// Commits a chunk. Returns true if the reader of the buffer does not keep up.
    fn commit(
        &self,
        buffer: &CentralBuffer,
        header: &CopiedHeader,
        is_complete: bool,
        payload: &[u8],
    ) -> bool {
        buffer.commit(&UntrustedChunk {
            producer_id: self.id,
            client: self.client,
            writer_id: header.writer_id,
            chunk_id: header.chunk_id,
            fragment_count: header.packets.count(),
            flags: header.packets.flags(),
            complete: is_complete,
            payload,
        })
    }

    /// Returns the producer's buffers whose readers do not keep up, and how many bytes were read of
    /// each.
    pub(super) fn buffers_of_slow_readers(&self) -> Vec<(BufferId, u64)> {
        let buffers = self.buffers.read();
        let slow = buffers
            .values()
            .filter_map(|it| Some((it.id, it.read_by_slow_reader_bytes()?)));
        slow.collect()
    }

    /// Returns the buffer with this id if this producer may write to it.
    pub(super) fn buffer(&self, id: BufferId) -> Option<Arc<CentralBuffer>> {
        self.buffers.read().get(&id).map(Arc::clone)
    }

    /// Commits a chunk and frees it. Returns true if the reader of its buffer does not keep up.
    pub(super) fn move_chunk(&self, chunk_to_move: &ChunkToMove) -> bool {
        let place = ChunkPlace {
            page_index: chunk_to_move.page_index,
            chunk_index: chunk_to_move.chunk_index,
        };
        if self.violations() >= VIOLATIONS_MAX {
            RefusedCommits::add(&self.refused.chunks);
            return false;
        }
        let taken = self.memory.take(place, |header, payload| {
            self.commit_copy(chunk_to_move.target_buffer, header, true, payload)
        });
        taken.unwrap_or_else(|_| {
            // Relaxed: a count that orders nothing else.
            self.violations.fetch_add(1, Ordering::Relaxed);
            false
        })
    }

    /// Commits the copy of a chunk, if the producer may write to its target. Returns true if the
    /// reader of its buffer does not keep up.
    pub(super) fn commit_copy(
        &self,
        target_buffer: BufferId,
        header: &CopiedHeader,
        is_complete: bool,
        payload: &[u8],
    ) -> bool {
        let buffer = self.buffer(target_buffer);
        match buffer.filter(|buffer| self.may_commit(header.writer_id, buffer.id)) {
            Some(buffer) => self.commit(&buffer, header, is_complete, payload),
            None => {
                RefusedCommits::add(&self.refused.chunks);
                false
            }
        }
    }

    /// Returns how often the producer has committed a chunk that was not complete, or has changed a
    /// page while the service had a chunk of it. Producers in this process never do that.
    pub(super) fn violations(&self) -> u64 {
        // Relaxed: as in `move_chunk`.
        self.violations.load(Ordering::Relaxed)
    }

    /// Returns false if no writer has this id, or if the writer is registered for another buffer. A
    /// writer that is not registered may commit.
    fn may_commit(&self, writer_id: WriterId, target_buffer: BufferId) -> bool {
        let registered = self.writers.read().get(&writer_id).copied();
        writer_id.is_valid() && registered.is_none_or(|registered| registered == target_buffer)
    }

    pub(super) fn patch_chunk(&self, patch: &ChunkToPatch) {
        let buffer = self.buffer(patch.target_buffer);
        match buffer.filter(|_| patch.patches.len() <= PATCHES_PER_CHUNK_MAX) {
            Some(buffer) => buffer.patch(
                self.id,
                patch.writer_id,
                patch.chunk_id,
                &patch.patches,
                patch.has_more_patches,
            ),
            None => RefusedCommits::add(&self.refused.patches),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracezero_core::ids::ChunkId;
    use tracezero_core::shm::{ChunkFlags, Geometry, NewChunk, PageLayout, shared_memory};

    use super::*;

    #[test]
    fn memory_of_a_producer_without_writers_is_not_looked_at() {
        let geometry = Geometry::new(4096, 4096).unwrap();
        let (producer, memory) = shared_memory(geometry).unwrap();
        let client = ClientIdentity::default();
        let link = ProducerLink::new(
            ProducerId::new(1),
            client,
            memory.into(),
            true,
            Arc::default(),
        );
        let writer_id = WriterId(1);
        link.register_writer(writer_id, BufferId(1), &Arc::default());
        link.unregister_writer(writer_id);
        let header = NewChunk {
            writer_id,
            chunk_id: ChunkId(0),
            flags: ChunkFlags::NONE,
        };
        let chunk = producer.acquire_for_writing(0, PageLayout::One, header);
        let place = chunk.unwrap().complete();
        // A scrape that looked at the memory would wait for ever, because a commit has locked it.
        let taken = link.memory.take(place, |_, _| link.scrape(&[]));
        assert_eq!(taken, Ok(()));
    }
}
