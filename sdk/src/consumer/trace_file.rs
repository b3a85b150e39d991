//! Streams a session into a file: a thread of its own drains the buffers while writers go on.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::service::TracingSession;

/// How long a packet that can be read stays out of the file, at most.
const WRITE_PERIOD: Duration = Duration::from_secs(1);

/// Wakes the thread that drains.
#[derive(Default)]
pub(crate) struct Waker {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    drain: bool,
    stop: bool,
}

impl Waker {
    /// A buffer fills up: drain it now. Called by writers, whenever they commit to such a buffer.
    pub(crate) fn drain(&self) {
        // Where the lock is taken, the thread is about to look, or another writer just did this.
        if let Some(mut wanted) = self.wanted.try_lock() {
            wanted.drain = true;
            drop(wanted);
            self.changed.notify_one();
        }
    }

    fn stop(&self) {
        self.wanted.lock().stop = true;
        self.changed.notify_one();
    }

    /// Waits until there is something to do, or the period is over. Returns false at the end.
    fn wait(&self) -> bool {
        let mut wanted = self.wanted.lock();
        if !wanted.drain && !wanted.stop {
            // Waking up too early does no harm.
            self.changed.wait_for(&mut wanted, WRITE_PERIOD);
        }
        wanted.drain = false;
        !wanted.stop
    }
}

/// What is written to, and how much was.
pub(crate) struct TraceFile {
    file: File,
    pub(crate) written_bytes: u64,
}

impl TraceFile {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
            written_bytes: 0,
        }
    }

    /// Writes a batch of packets, whole, and empties `batch`.
    pub(crate) fn write(&mut self, batch: &mut Vec<u8>) -> io::Result<()> {
        self.file.write_all(batch)?;
        self.written_bytes += batch.len() as u64;
        batch.clear();
        Ok(())
    }
}

/// A session that is being streamed.
pub(crate) struct Streaming {
    waker: Arc<Waker>,
    thread: JoinHandle<(TracingSession, TraceFile, io::Result<()>)>,
}

impl Streaming {
    /// Starts the thread. It holds no lock while it writes.
    pub(crate) fn start(
        mut session: TracingSession,
        mut file: TraceFile,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let thread_waker = Arc::clone(&waker);
        let stream = move || {
            let mut batch = session.preamble();
            let mut outcome = file.write(&mut batch);
            while outcome.is_ok() && thread_waker.wait() {
                outcome = session.read(&mut batch, |batch| file.write(batch));
            }
            (session, file, outcome)
        };
        let thread = thread::Builder::new()
            .name("tracezero".to_owned())
            .spawn(stream)?;
        Ok(Self { waker, thread })
    }

    /// Ends the thread; hands back what it worked with, and the first error it met.
    pub(crate) fn stop(self) -> (TracingSession, TraceFile, io::Result<()>) {
        self.waker.stop();
        match self.thread.join() {
            Ok(handed_back) => handed_back,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
