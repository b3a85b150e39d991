//! Streams a session into its file: a thread of its own drains the buffers while writers go on.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};

use crate::ids::SessionId;
use crate::runtime::Runtime;
use crate::service::Writing;

/// Wakes the thread that writes. Writers call it, whenever they commit to a buffer that fills up, so
/// it takes no lock.
#[derive(Default)]
pub(crate) struct Waker {
    is_wanted: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// There is something to write.
    pub(crate) fn wake(&self) {
        // Release and acquire pair with the swap in `wait`: either that one sees this, or this one
        // sees the thread. Whoever finds the flag set leaves the rest to who set it.
        if !self.is_wanted.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Waits until there is something to write. Called by one thread only.
    fn wait(&self) {
        self.thread.get_or_init(thread::current);
        // Acquire pairs with `wake`: what was committed before it is read after this.
        while !self.is_wanted.swap(false, Ordering::AcqRel) {
            thread::park();
        }
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
        let write = move || loop {
            waker.wait();
            if runtime.service().write_into_file(session)? == Writing::Closed {
                return Ok(());
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
