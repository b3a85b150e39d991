//! Streams a session into its file: a thread of its own drains the buffers while writers go on. When
//! the process exits, the files of sessions that are still open are finished first.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::forked_child;
use crate::ids::SessionId;
use crate::process_hooks;
use crate::runtime::Runtime;
use crate::service::Writing;

/// How long an exit waits for files to be finished. What is in them by then is a trace.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);

/// Those whose files are open.
static OPEN: Mutex<Vec<Arc<Waker>>> = Mutex::new(Vec::new());

/// Notified when there is one less.
static ONE_IS_CLOSED: Condvar = Condvar::new();

/// Wakes the thread that writes. Writers call it, whenever they commit to a buffer that fills up, so
/// it takes no lock.
#[derive(Default)]
pub(crate) struct Waker {
    is_wanted: AtomicBool,
    /// Whether the process exits.
    is_exiting: AtomicBool,
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

    /// The process exits: the session is to end.
    fn exit(&self) {
        // Relaxed: `wake` publishes it.
        self.is_exiting.store(true, Ordering::Relaxed);
        self.wake();
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
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| process_hooks::at_exit(finish_all));
        let open = OpenFile::new(&waker);
        let write = move || loop {
            let _open = &open;
            waker.wait();
            // Relaxed: `wait` has seen what `wake` published.
            if waker.is_exiting.load(Ordering::Relaxed) {
                runtime.service().flush_and_disable(session);
            }
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

/// An entry in the list of open files.
struct OpenFile(Arc<Waker>);

impl OpenFile {
    fn new(waker: &Arc<Waker>) -> Self {
        OPEN.lock().push(Arc::clone(waker));
        Self(Arc::clone(waker))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN.lock().retain(|waker| !Arc::ptr_eq(waker, &self.0));
        ONE_IS_CLOSED.notify_all();
    }
}

/// Called when the process exits. The thread that exits may hold any lock, and so may others: all
/// that is waited for here is waited for with a limit, and the work is done by the files' threads.
extern "C" fn finish_all() {
    if forked_child::is_quiet() {
        return;
    }
    let deadline = Instant::now() + EXIT_PATIENCE;
    let Some(mut open) = OPEN.try_lock_until(deadline) else {
        return;
    };
    open.iter().for_each(|waker| waker.exit());
    while !open.is_empty() && !ONE_IS_CLOSED.wait_until(&mut open, deadline).timed_out() {}
}
