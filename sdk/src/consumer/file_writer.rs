//! Streams a session into its file: a thread of its own drains the buffers while writers go on.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use crate::ids::SessionId;
use crate::runtime::Runtime;
use crate::service::Writing;

/// Wakes the thread that writes.
#[derive(Default)]
pub(crate) struct Waker {
    is_wanted: Mutex<bool>,
    changed: Condvar,
}

impl Waker {
    /// There is something to write.
    pub(crate) fn wake(&self) {
        *self.is_wanted.lock() = true;
        self.changed.notify_one();
    }

    /// A buffer fills up: write now. Called by writers, whenever they commit to such a buffer.
    pub(crate) fn wake_from_commit(&self) {
        // Where the lock is taken, the thread is about to look, or another writer just did this.
        if let Some(mut is_wanted) = self.is_wanted.try_lock() {
            *is_wanted = true;
            drop(is_wanted);
            self.changed.notify_one();
        }
    }

    fn wait(&self) {
        let mut is_wanted = self.is_wanted.lock();
        self.changed
            .wait_while(&mut is_wanted, |is_wanted| !*is_wanted);
        *is_wanted = false;
    }
}

/// The thread that writes a session into its file.
pub(crate) struct FileWriter {
    thread: JoinHandle<io::Result<()>>,
}

impl FileWriter {
    /// Starts the thread. It ends when the session has ended and all is written, or at an error.
    pub(crate) fn start(
        runtime: &'static Runtime,
        session: SessionId,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let write = move || {
            let mut batch = Vec::new();
            loop {
                waker.wait();
                match runtime.service().write_into_file(session, &mut batch) {
                    Ok(Writing::GoesOn) => {}
                    Ok(Writing::Closed) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        };
        let thread = thread::Builder::new()
            .name("tracezero-file".to_owned())
            .spawn(write)?;
        Ok(Self { thread })
    }

    /// Waits until all is written; the session has ended.
    pub(crate) fn join(self) -> io::Result<()> {
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
