//! The files that wait for a worker.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tracezero::{counter, span};

/// The capacity of the queue; when it is full, the main thread waits.
const WAITING_FILES_MAX: usize = 1024;

/// A bounded queue that one thread fills and several empty.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    has_file_or_end: Condvar,
    has_room: Condvar,
}

#[derive(Default)]
struct State {
    files: VecDeque<PathBuf>,
    is_closed: bool,
}

/// A guard that closes its queue when it is dropped.
pub struct CloseOnDrop<'q>(&'q Queue);

impl Queue {
    /// Appends a file; waits until there is room.
    pub fn push(&self, file: PathBuf) {
        let mut state = self.lock();
        if state.files.len() >= WAITING_FILES_MAX {
            let _span = span!("queue", "wait_for_room");
            state = self
                .has_room
                .wait_while(state, |state| state.files.len() >= WAITING_FILES_MAX)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.files.push_back(file);
        counter!("queue", "queued_files", state.files.len());
        drop(state);
        self.has_file_or_end.notify_one();
    }

    /// Removes the oldest file; waits until there is one. Returns `None` when the queue is closed
    /// and empty.
    pub fn pop(&self) -> Option<PathBuf> {
        let mut state = self.lock();
        if state.files.is_empty() && !state.is_closed {
            let _span = span!("queue", "wait_for_file");
            state = self
                .has_file_or_end
                .wait_while(state, |state| state.files.is_empty() && !state.is_closed)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let file = state.files.pop_front()?;
        counter!("queue", "queued_files", state.files.len());
        drop(state);
        self.has_room.notify_one();
        Some(file)
    }

    /// Returns a guard that closes the queue. Files that are already in the queue are still handed
    /// out.
    #[must_use]
    pub fn close_on_drop(&self) -> CloseOnDrop<'_> {
        CloseOnDrop(self)
    }

    /// Ignores poisoning: a panic cannot leave the state half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.has_file_or_end.notify_all();
    }
}
