//! What waits to be sent to the daemon, in order.
//!
//! Items leave in the order in which they were put in. So the end of a writer is behind its last
//! commit, and the answer to a flush behind all commits before it. Nobody waits for the socket.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use tracezero_core::commit::{ChunkToMove, ChunkToPatch, CommitRequest, RingProgress};
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::ids::{BufferId, FlushId, InstanceId, WriterId};
use tracezero_core::shm::Geometry;
use tracezero_core::small_map::SmallMap;

/// The maximum number of items that wait, apart from commits. A daemon that leaves so many unread has
/// stopped for long, and the connection ends.
const ITEMS_MAX: usize = 1 << 16;

/// Something to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// The next chunks and patches of the batch.
    Commit {
        move_count: usize,
        patched_count: usize,
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
}

/// What wakes the thread that sends.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    pub(crate) fn wake(&self) {
        // Fails only if the counter is full: then the thread is being woken.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Forgets that it was woken.
    pub(crate) fn reset(&self) {
        let mut count = [0; 8];
        // Fails only if nobody has woken it.
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The bytes that are written to a buffer before its writers start their incremental state again.
///
/// The daemon's buffer may be a ring that overwrites old packets, and neither its size nor how far it
/// is are known here. In a ring of 2 MiB, at most about a hundredth of the packets then lacks names.
const STATE_PERIOD_BYTES: usize = 32 * 1024;

/// What was taken out of the queue. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    items: Vec<Item>,
    moves: Vec<ChunkToMove>,
    /// The first `patched_len` are part of the batch. The others are empty, and keep their memory.
    patched: Vec<ChunkToPatch>,
    patched_len: usize,
}

/// A part of a batch, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Item(&'a Item),
    Commit(&'a [ChunkToMove], &'a [ChunkToPatch]),
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns what is to be sent, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let (mut moves, mut patched) = (&self.moves[..], &self.patched[..]);
        self.items.iter().map(move |item| match *item {
            Item::Commit {
                move_count,
                patched_count,
            } => Part::Commit(
                moves.split_off(..move_count).unwrap_or_default(),
                patched.split_off(..patched_count).unwrap_or_default(),
            ),
            ref item => Part::Item(item),
        })
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.moves.clear();
        for entry in &mut self.patched[..self.patched_len] {
            entry.patches.clear();
        }
        self.patched_len = 0;
    }

    /// Adds a commit. Commits that follow each other become one: patches are applied behind all
    /// chunks of a commit, so a chunk may follow a patch.
    fn add(&mut self, request: &CommitRequest) {
        if !matches!(self.items.last(), Some(Item::Commit { .. })) {
            self.items.push(Item::Commit {
                move_count: 0,
                patched_count: 0,
            });
        }
        if let Some(Item::Commit {
            move_count,
            patched_count,
        }) = self.items.last_mut()
        {
            *move_count += request.chunks_to_move.len();
            *patched_count += request.chunks_to_patch.len();
        }
        self.moves.extend_from_slice(&request.chunks_to_move);
        for patched in &request.chunks_to_patch {
            match self.patched.get_mut(self.patched_len) {
                Some(spare) => {
                    let mut patches = mem::take(&mut spare.patches);
                    patches.extend_from_slice(&patched.patches);
                    *spare = ChunkToPatch {
                        patches,
                        ..*patched
                    };
                }
                None => self.patched.push(patched.clone()),
            }
            self.patched_len += 1;
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
    /// The number of chunks in [`STATE_PERIOD_BYTES`]. Chunks count as whole pages.
    state_period_chunks: usize,
    buffers: SmallMap<BufferId, Buffer>,
    /// True if the thread does not look for items before it is woken.
    is_asleep: bool,
    /// Swallows all items: the connection has ended.
    is_closed: bool,
}

/// A trace buffer that writers of this connection write to.
#[derive(Debug, Default)]
struct Buffer {
    progress: Arc<RingProgress>,
    /// The number of chunks since the progress last advanced.
    chunks: usize,
}

impl Outbox {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Batch::default(),
                wake_at_chunks: usize::MAX,
                state_period_chunks: 1,
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
        state.wake_at_chunks = (geometry.page_count() as usize / 2).max(1);
        state.state_period_chunks = STATE_PERIOD_BYTES.div_ceil(geometry.page_size_bytes());
    }

    /// Returns the progress of a buffer, by which its writers start their incremental state again.
    pub(crate) fn progress(&self, buffer: BufferId) -> Arc<RingProgress> {
        let buffers = &mut self.state.lock().buffers;
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
            state.note_chunk(chunk.target_buffer);
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
        state.waiting.items.push(item);
        state.is_asleep = false;
        drop(state);
        self.waker.wake();
    }

    /// Exchanges what waits for `batch`, which is empty. Returns false if too much was waiting.
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

    /// Drops all items, and all that will be added.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.waiting = Batch::default();
    }
}

impl State {
    /// Counts a chunk that goes to a buffer.
    fn note_chunk(&mut self, buffer: BufferId) {
        if let Some(buffer) = self.buffers.get_mut(&buffer) {
            buffer.chunks += 1;
            if buffer.chunks >= self.state_period_chunks {
                buffer.chunks = 0;
                buffer.progress.advance(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tracezero_core::commit::Patch;
    use tracezero_core::ids::ChunkId;

    use super::*;

    fn outbox() -> Outbox {
        Outbox::new(Arc::new(Waker::new().unwrap()))
    }

    fn geometry() -> Geometry {
        Geometry::new(32 * 1024, 4096).unwrap()
    }

    fn chunk(page_index: u32) -> CommitRequest {
        CommitRequest {
            chunks_to_move: vec![ChunkToMove {
                page_index,
                chunk_index: 0,
                target_buffer: BufferId(1),
            }],
            chunks_to_patch: Vec::new(),
        }
    }

    fn patch(chunk_id: u32, count: usize) -> CommitRequest {
        let patch = Patch {
            offset_bytes: 4,
            data: [0x80, 0x80, 0x80, 0],
        };
        CommitRequest {
            chunks_to_move: Vec::new(),
            chunks_to_patch: vec![ChunkToPatch {
                writer_id: WriterId(1),
                chunk_id: ChunkId(chunk_id),
                target_buffer: BufferId(1),
                patches: vec![patch; count],
                has_more_patches: false,
            }],
        }
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
        let moves = |pages: [u32; 2]| pages.map(|page| chunk(page).chunks_to_move[0]);
        let batch = take(&outbox);
        let patched = patch(1, 2).chunks_to_patch;
        let expected = [
            Part::Commit(&moves([1, 2]), &[]),
            Part::Item(&Item::FlushDone(FlushId(1))),
            Part::Commit(&moves([3, 0])[..1], &[]),
            Part::Item(&Item::UnregisterWriter(WriterId(1))),
            Part::Commit(&moves([4, 0])[..1], &patched),
        ];
        assert_eq!(batch.parts().collect::<Vec<_>>(), expected);
        assert!(take(&outbox).is_empty());
    }

    #[test]
    fn a_batch_that_is_used_again_has_the_new_patches_alone() {
        let outbox = outbox();
        let mut batch = Batch::default();
        for round in 0..4 {
            outbox.commit(&patch(round, 1 + round as usize % 2));
            assert!(outbox.take(&mut batch));
            let expected = patch(round, 1 + round as usize % 2).chunks_to_patch;
            assert_eq!(
                batch.parts().collect::<Vec<_>>(),
                [Part::Commit(&[], &expected)]
            );
            batch.clear();
        }
    }

    #[test]
    fn writers_start_their_state_again_after_some_bytes() {
        let outbox = outbox();
        outbox.set_geometry(geometry());
        let progress = outbox.progress(BufferId(1));
        let chunks = STATE_PERIOD_BYTES / geometry().page_size_bytes();
        for page in 1..chunks {
            outbox.commit(&chunk(page as u32));
            assert_eq!(progress.parts(), 0);
        }
        outbox.commit(&chunk(0));
        assert_eq!(progress.parts(), 1);
        assert_eq!(outbox.progress(BufferId(2)).parts(), 0);
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
