//! Wakes the thread that writes a session's file.

use parking_lot::{Condvar, Mutex};

/// Wakes the thread that writes a session's file.
#[derive(Debug, Default)]
pub(crate) struct FileWaker {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl FileWaker {
    pub(crate) fn wake(&self) {
        *self.is_woken.lock() = true;
        self.changed.notify_one();
    }

    /// Waits until it is woken, or was since the last wait.
    pub(crate) fn wait(&self) {
        let mut is_woken = self.is_woken.lock();
        self.changed
            .wait_while(&mut is_woken, |is_woken| !*is_woken);
        *is_woken = false;
    }
}
