//! Counts the recorders of this process, whose instances the kernel keeps until they are dropped.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

static COUNT: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// A recorder that lives.
#[derive(Debug)]
pub(super) struct Live(());

impl Live {
    pub(super) fn count() -> Self {
        *COUNT.lock() += 1;
        Self(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        *COUNT.lock() -= 1;
        ENDED.notify_all();
    }
}

/// Waits until no recorder lives. Returns false if one still does after `limit`.
pub(super) fn wait_until_idle(limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let mut count = COUNT.lock();
    while *count > 0 {
        if ENDED.wait_until(&mut count, deadline).timed_out() {
            return *count == 0;
        }
    }
    true
}
