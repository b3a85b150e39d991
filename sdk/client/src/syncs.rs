//! Waits until the daemon has said what it records of this process.
//!
//! A request of the kind Sync follows everything that waits to be sent. Its reply follows the
//! commands that the daemon sends because of all that. The wait is over once the calls of these
//! commands are made, too.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The requests of a connection that threads wait for.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the last request.
    asked: u64,
    /// The number of the last request that is carried out.
    done: u64,
    /// True if the connection has ended, so that no reply comes.
    is_closed: bool,
}

impl Syncs {
    /// Returns the number of a new request.
    pub(crate) fn ask(&self) -> u64 {
        let mut state = self.state.lock();
        state.asked += 1;
        state.asked
    }

    /// Notes that a request is carried out, and all before it.
    pub(crate) fn finish(&self, number: u64) {
        let mut state = self.state.lock();
        state.done = state.done.max(number);
        self.has_changed.notify_all();
    }

    /// Ends all waits: the connection has ended.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.has_changed.notify_all();
    }

    /// Waits until a request is carried out or the connection has ended, at most for `limit`.
    pub(crate) fn wait(&self, number: u64, limit: Duration) {
        let end = Instant::now() + limit;
        let mut state = self.state.lock();
        while state.done < number && !state.is_closed {
            if self.has_changed.wait_until(&mut state, end).timed_out() {
                return;
            }
        }
    }
}
