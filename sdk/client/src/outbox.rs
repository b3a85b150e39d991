//! Commits, answers and requests that wait to be sent to the daemon, in order.
//!
//! Items leave in the order in which they were put in. So the request that unregisters a writer
//! follows its last commit, and the answer to a flush follows all commits before it. Callers never
//! wait for the socket.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tracezero_core::commit::{ChunkToMove, CommitRequest, Patch, RingProgress};
use tracezero_core::coordination::{DataSourceDescriptor, WriterTotals};
use tracezero_core::ids::{BufferId, ChunkId, FlushId, InstanceId, WriterId};
use tracezero_core::shm::{CHUNKS_PER_PAGE_MAX, Geometry};
use tracezero_core::small_map::SmallMap;
use tracezero_ipc::producer_port::PatchedChunk;
use tracezero_ipc::waker::Waker;

/// The maximum number of items that wait: more than the patches for all chunks of the largest
/// memory. If more wait, the thread has not sent for long, and the connection ends.
const ITEMS_MAX: usize = 1 << 18;

/// The number of patches for each chunk that a new queue has room for. A packet has a patch for each
/// nested message that is open at the end of the chunk.
const PATCHES_PER_CHUNK: usize = 8;

/// The number of chunks of an item from which on further ones stay behind the patches that follow it.
/// Without a limit, a ring that is smaller than the shared memory could overwrite a packet before its
/// patch comes.
const MOVES_MAX: usize = 4;

/// Something to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// The next chunks of the batch.
    Moves {
        count: usize,
    },
    /// The next patches of the batch, which are for one chunk.
    Patches {
        writer_id: WriterId,
        chunk_id: ChunkId,
        target_buffer: BufferId,
        count: usize,
        has_more_patches: bool,
    },
    FlushDone(FlushId),
    RegisterWriter(WriterId, BufferId),
    UnregisterWriter(WriterId),
    Started(InstanceId),
    Stopped(InstanceId),
    RegisterDataSource(DataSourceDescriptor),
    UpdateDataSource(DataSourceDescriptor),
    UnregisterDataSource(String),
    ActivateTriggers(Vec<String>),
    WriterTotals(Vec<WriterTotals>),
    /// A request with this number, whose reply is behind all replies before it.
    Sync(u64),
}

/// The bytes that are written to a buffer before its writers start their incremental state again.
///
/// The daemon's buffer may be a ring that overwrites old packets. This process knows neither the
/// size nor the write position of the ring. With this period, at most about a quarter of a ring of
/// 256 KiB is unreadable, and less of a larger ring.
const STATE_PERIOD_BYTES: u32 = 64 * 1024;
/// The number of parts by which the progress advances after each period. Writers with few packets
/// restart their state after a [quarter](RingProgress::QUARTER), so after 256 KiB.
const STATE_PERIOD_PARTS: u64 = RingProgress::QUARTER / 4;

/// A list of items that wait, or that were taken out of the queue. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    items: Vec<Item>,
    moves: Vec<ChunkToMove>,
    patches: Vec<Patch>,
    /// The last item with chunks, if only patches follow it. Chunks that come next are added to
    /// this item, up to [`MOVES_MAX`]: a daemon applies patches to chunks that it already has, so a chunk
    /// may overtake a patch.
    open_moves: Option<usize>,
}

/// A part of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Item(&'a Item),
    Moves(&'a [ChunkToMove]),
    Patches(PatchedChunk<'a>),
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the parts to be sent, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let (mut moves, mut patches) = (&self.moves[..], &self.patches[..]);
        self.items.iter().map(move |item| match *item {
            Item::Moves { count } => Part::Moves(moves.split_off(..count).unwrap_or_default()),
            Item::Patches {
                writer_id,
                chunk_id,
                target_buffer,
                count,
                has_more_patches,
            } => Part::Patches(PatchedChunk {
                writer_id,
                chunk_id,
                target_buffer,
                patches: patches.split_off(..count).unwrap_or_default(),
                has_more_patches,
            }),
            ref item => Part::Item(item),
        })
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.moves.clear();
        self.patches.clear();
        self.open_moves = None;
    }

    /// Makes room for as many chunks as the memory has, with patches for each. Most of this memory is
    /// never touched.
    pub(crate) fn reserve(&mut self, geometry: Geometry) {
        let chunks = geometry.page_count() as usize * usize::from(CHUNKS_PER_PAGE_MAX);
        self.items.reserve(2 * chunks);
        self.moves.reserve(chunks);
        self.patches.reserve(chunks * PATCHES_PER_CHUNK);
    }

    fn push(&mut self, item: Item) {
        self.items.push(item);
        self.open_moves = None;
    }

    fn add(&mut self, request: &CommitRequest) {
        if !request.chunks_to_move.is_empty() {
            let new = request.chunks_to_move.len();
            let has_patches = self
                .open_moves
                .is_some_and(|index| index + 1 < self.items.len());
            let open = self.open_moves.and_then(|index| self.items.get_mut(index));
            if let Some(Item::Moves { count }) = open
                && (!has_patches || *count + new <= MOVES_MAX)
            {
                *count += new;
            } else {
                self.open_moves = Some(self.items.len());
                self.items.push(Item::Moves { count: new });
            }
            self.moves.extend_from_slice(&request.chunks_to_move);
        }
        for patched in &request.chunks_to_patch {
            self.items.push(Item::Patches {
                writer_id: patched.writer_id,
                chunk_id: patched.chunk_id,
                target_buffer: patched.target_buffer,
                count: patched.patches.len(),
                has_more_patches: patched.has_more_patches,
            });
            self.patches.extend_from_slice(&patched.patches);
        }
    }
}

/// The queue of one connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    waker: Arc<Waker>,
}

#[derive(Debug)]
struct State {
    waiting: Batch,
    /// The number of waiting chunks that wakes the thread: half of the memory.
    wake_at_chunks: usize,
    buffers: SmallMap<BufferId, Buffer>,
    /// True if the thread does not look for items before it is woken.
    is_asleep: bool,
    /// True once the connection has ended: all items are then discarded.
    is_closed: bool,
}

/// A trace buffer that writers of this connection write to.
#[derive(Debug, Default)]
struct Buffer {
    progress: Arc<RingProgress>,
    /// The bytes of the chunks since the progress last advanced.
    chunk_bytes: u32,
}

impl Outbox {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Batch::default(),
                wake_at_chunks: usize::MAX,
                buffers: SmallMap::new(),
                is_asleep: true,
                is_closed: false,
            }),
            waker,
        }
    }

    /// Sets the sizes of the memory.
    pub(crate) fn set_geometry(&self, geometry: Geometry) {
        let mut state = self.state.lock();
        // Each page has at least one chunk.
        state.waiting.reserve(geometry);
        state.wake_at_chunks = (geometry.page_count() as usize / 2).max(1);
    }

    /// Returns the progress of a buffer, by which its writers start their incremental state again.
    pub(crate) fn progress(&self, buffer: BufferId) -> Arc<RingProgress> {
        let buffers = &mut self.state.lock().buffers;
        // Forgets the buffers of sessions that have ended: their progress has no other owner.
        buffers.retain(|_, buffer| Arc::strong_count(&buffer.progress) > 1);
        Arc::clone(&buffers.or_default(buffer).progress)
    }

    /// Adds a commit.
    pub(crate) fn commit(&self, request: &CommitRequest) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        state.waiting.add(request);
        for chunk in &request.chunks_to_move {
            state.note_chunk(chunk);
        }
        let is_urgent = state.waiting.moves.len() >= state.wake_at_chunks;
        if mem::take(&mut state.is_asleep) || is_urgent {
            drop(state);
            self.waker.wake();
        }
    }

    /// Adds an item, and wakes the thread.
    pub(crate) fn push(&self, item: Item) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        state.waiting.push(item);
        state.is_asleep = false;
        drop(state);
        self.waker.wake();
    }

    /// Exchanges the waiting items for `batch`, which must be empty. Returns false if too many
    /// items were waiting.
    pub(crate) fn take(&self, batch: &mut Batch) -> bool {
        mem::swap(&mut self.state.lock().waiting, batch);
        batch.items.len() <= ITEMS_MAX
    }

    /// Notes that the thread will wait until it is woken. Returns false if there is something to
    /// send.
    pub(crate) fn sleep(&self) -> bool {
        let mut state = self.state.lock();
        state.is_asleep = state.waiting.is_empty();
        state.is_asleep
    }

    /// Drops all items, and discards all items that are added later.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.waiting = Batch::default();
    }
}

impl State {
    /// Counts a chunk that goes to a buffer.
    fn note_chunk(&mut self, chunk: &ChunkToMove) {
        if let Some(buffer) = self.buffers.get_mut(&chunk.target_buffer) {
            buffer.chunk_bytes += chunk.payload_bytes;
            if buffer.chunk_bytes >= STATE_PERIOD_BYTES {
                buffer.chunk_bytes = 0;
                buffer.progress.advance(STATE_PERIOD_PARTS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tracezero_core::commit::ChunkToPatch;

    use super::*;

    fn outbox() -> Outbox {
        Outbox::new(Arc::new(Waker::new().unwrap()))
    }

    fn geometry() -> Geometry {
        Geometry::new(8 * 4096, 4096).unwrap()
    }

    const PAYLOAD_BYTES: u32 = 1024;

    fn chunk(page_index: u32) -> CommitRequest {
        CommitRequest {
            chunks_to_move: vec![ChunkToMove {
                page_index,
                chunk_index: 0,
                target_buffer: BufferId(1),
                payload_bytes: PAYLOAD_BYTES,
            }],
            chunks_to_patch: Vec::new(),
        }
    }

    fn patch(chunk_id: u32, count: usize) -> CommitRequest {
        CommitRequest {
            chunks_to_move: Vec::new(),
            chunks_to_patch: vec![ChunkToPatch {
                writer_id: WriterId(1),
                chunk_id: ChunkId(chunk_id),
                target_buffer: BufferId(1),
                patches: vec![LENGTH; count],
                has_more_patches: false,
            }],
        }
    }

    const LENGTH: Patch = Patch {
        offset_bytes: 4,
        data: [0x80, 0x80, 0x80, 0],
    };

    fn patched(chunk_id: u32, patches: &[Patch]) -> Part<'_> {
        Part::Patches(PatchedChunk {
            writer_id: WriterId(1),
            chunk_id: ChunkId(chunk_id),
            target_buffer: BufferId(1),
            patches,
            has_more_patches: false,
        })
    }

    fn take(outbox: &Outbox) -> Batch {
        let mut batch = Batch::default();
        assert!(outbox.take(&mut batch));
        batch
    }

    fn is_woken(outbox: &Outbox) -> bool {
        let mut fds = [PollFd::new(&outbox.waker, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let is_woken = poll(&mut fds, Some(&now)).unwrap() > 0;
        outbox.waker.reset();
        is_woken
    }

    #[test]
    fn items_keep_their_order_and_commits_are_merged() {
        let outbox = outbox();
        outbox.commit(&chunk(1));
        outbox.commit(&chunk(2));
        outbox.push(Item::FlushDone(FlushId(1)));
        outbox.commit(&chunk(3));
        outbox.push(Item::UnregisterWriter(WriterId(1)));
        outbox.commit(&patch(1, 2));
        outbox.commit(&chunk(4));
        outbox.commit(&chunk(5));
        let moves = |pages: &[u32]| -> Vec<ChunkToMove> {
            let chunks = pages.iter().map(|page| chunk(*page).chunks_to_move[0]);
            chunks.collect()
        };
        let batch = take(&outbox);
        let expected = [
            Part::Moves(&moves(&[1, 2])),
            Part::Item(&Item::FlushDone(FlushId(1))),
            Part::Moves(&moves(&[3])),
            Part::Item(&Item::UnregisterWriter(WriterId(1))),
            patched(1, &[LENGTH; 2]),
            Part::Moves(&moves(&[4, 5])),
        ];
        assert_eq!(batch.parts().collect::<Vec<_>>(), expected);
        assert!(take(&outbox).is_empty());
    }

    #[test]
    fn chunks_may_overtake_patches_and_nothing_else() {
        let outbox = outbox();
        outbox.commit(&chunk(1));
        outbox.commit(&patch(7, 1));
        outbox.commit(&chunk(1));
        let batch = take(&outbox);
        let moves = [chunk(1).chunks_to_move[0]; 2];
        let expected = [Part::Moves(&moves), patched(7, &[LENGTH])];
        assert_eq!(batch.parts().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_batch_that_is_used_again_has_the_new_patches_alone() {
        let outbox = outbox();
        let mut batch = Batch::default();
        for round in 0..4 {
            let count = 1 + round as usize % 2;
            outbox.commit(&patch(round, count));
            assert!(outbox.take(&mut batch));
            let expected = [patched(round, &[LENGTH; 2][..count])];
            assert_eq!(batch.parts().collect::<Vec<_>>(), expected);
            batch.clear();
        }
    }

    #[test]
    fn writers_start_their_state_again_after_some_bytes() {
        let outbox = outbox();
        let progress = outbox.progress(BufferId(1));
        for page in 1..STATE_PERIOD_BYTES / PAYLOAD_BYTES {
            outbox.commit(&chunk(page));
            assert_eq!(progress.parts(), 0);
        }
        outbox.commit(&chunk(0));
        assert_eq!(progress.parts(), STATE_PERIOD_PARTS);
        assert_eq!(outbox.progress(BufferId(2)).parts(), 0);
        drop(progress);
        assert_eq!(outbox.progress(BufferId(1)).parts(), 0, "a new session");
    }

    #[test]
    fn commits_wake_a_thread_that_sleeps_and_one_whose_memory_fills() {
        let outbox = outbox();
        outbox.set_geometry(geometry());
        assert!(outbox.sleep());
        outbox.commit(&chunk(1));
        assert!(is_woken(&outbox));
        outbox.commit(&chunk(2));
        outbox.commit(&chunk(3));
        assert!(!is_woken(&outbox), "the thread looks by itself");
        outbox.commit(&chunk(4));
        assert!(is_woken(&outbox), "half of the memory waits");
        assert!(!outbox.sleep());
        take(&outbox);
        assert!(outbox.sleep());
    }

    #[test]
    fn a_closed_outbox_swallows_everything() {
        let outbox = outbox();
        outbox.commit(&chunk(1));
        outbox.close();
        outbox.commit(&chunk(2));
        outbox.push(Item::FlushDone(FlushId(1)));
        assert!(take(&outbox).is_empty());
    }
}
