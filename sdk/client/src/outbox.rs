//! What waits to be sent to the daemon, in order.
//!
//! Items leave in the order in which they were put in. So the end of a writer is behind its last
//! commit, and the answer to a flush behind all commits before it. Nobody waits for the socket.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use tracezero_core::commit::CommitRequest;
use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::ids::{BufferId, FlushId, InstanceId, WriterId};

/// The maximum number of items that wait, apart from commits. A daemon that leaves so many unread has
/// stopped for long, and the connection ends.
const ITEMS_MAX: usize = 1 << 16;

/// Something to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Commit(CommitRequest),
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

/// The queue of one connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    waker: std::sync::Arc<Waker>,
}

#[derive(Debug)]
struct State {
    items: Vec<Item>,
    /// The number of chunks in `items`.
    waiting_chunks: usize,
    /// The number of waiting chunks that wakes the thread: half of the memory.
    wake_at_chunks: usize,
    /// True if the thread does not look for items before it is woken.
    is_asleep: bool,
    /// Swallows all items: the connection has ended.
    is_closed: bool,
}

impl Outbox {
    pub(crate) fn new(waker: std::sync::Arc<Waker>) -> Self {
        Self {
            state: Mutex::new(State {
                items: Vec::new(),
                waiting_chunks: 0,
                wake_at_chunks: usize::MAX,
                is_asleep: true,
                is_closed: false,
            }),
            waker,
        }
    }

    /// Sets the size of the memory.
    pub(crate) fn set_page_count(&self, page_count: u32) {
        // Each page has at least one chunk.
        self.state.lock().wake_at_chunks = (page_count as usize / 2).max(1);
    }

    /// Adds a commit. Commits that follow each other become one.
    pub(crate) fn commit(&self, request: &CommitRequest) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        state.waiting_chunks += request.chunks_to_move.len();
        match state.items.last_mut() {
            // Patches are applied behind all chunks of a commit, so a chunk may follow a patch.
            Some(Item::Commit(last)) => {
                last.chunks_to_move
                    .extend_from_slice(&request.chunks_to_move);
                last.chunks_to_patch
                    .extend_from_slice(&request.chunks_to_patch);
            }
            _ => state.items.push(Item::Commit(request.clone())),
        }
        let is_urgent = state.waiting_chunks >= state.wake_at_chunks;
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
        state.items.push(item);
        state.is_asleep = false;
        drop(state);
        self.waker.wake();
    }

    /// Moves all items into `items`, which is empty. Returns false if too many are waiting.
    pub(crate) fn take(&self, items: &mut Vec<Item>) -> bool {
        let mut state = self.state.lock();
        mem::swap(&mut state.items, items);
        state.waiting_chunks = 0;
        items.len() <= ITEMS_MAX
    }

    /// Notes that the thread will wait until it is woken. Returns false if there is something to
    /// send.
    pub(crate) fn sleep(&self) -> bool {
        let mut state = self.state.lock();
        state.is_asleep = state.items.is_empty();
        state.is_asleep
    }

    /// Drops all items, and all that will be added.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.items = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tracezero_core::commit::ChunkToMove;

    use super::*;

    fn outbox() -> Outbox {
        Outbox::new(Arc::new(Waker::new().unwrap()))
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

    fn take(outbox: &Outbox) -> Vec<Item> {
        let mut items = Vec::new();
        assert!(outbox.take(&mut items));
        items
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
        let merged = CommitRequest {
            chunks_to_move: [chunk(1), chunk(2)].map(|it| it.chunks_to_move[0]).to_vec(),
            chunks_to_patch: Vec::new(),
        };
        let expected = [
            Item::Commit(merged),
            Item::FlushDone(FlushId(1)),
            Item::Commit(chunk(3)),
            Item::UnregisterWriter(WriterId(1)),
        ];
        assert_eq!(take(&outbox), expected);
        assert_eq!(take(&outbox), []);
    }

    #[test]
    fn commits_wake_a_thread_that_sleeps_and_one_whose_memory_fills() {
        let outbox = outbox();
        outbox.set_page_count(8);
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
        assert_eq!(take(&outbox), []);
    }
}
