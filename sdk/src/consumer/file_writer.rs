//! Streams a session into its file: a thread of its own drains the buffers while writers go on. When
//! the process ends, the files of sessions that are still open are finished first.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::answer::answer;
use super::on_error;
use crate::error::Error;
use crate::process_end::{self, Finisher};
use crate::runtime::Runtime;
use tracezero_core::ids::SessionId;
use tracezero_core::own_thread;
use tracezero_service::{State, Writing};

/// How long the application's function for errors is waited for when the process ends, if the files
/// took up all other time.
const TELLING_PATIENCE: Duration = Duration::from_millis(100);

/// Files of sessions that have not been finished by their owner.
static FILES: Mutex<Vec<Arc<SessionFile>>> = Mutex::new(Vec::new());

/// Notified when one more is closed.
static ONE_IS_CLOSED: Condvar = Condvar::new();

/// Wakes the thread that writes. Writers call it, whenever they commit to a buffer that fills up, so
/// it takes no lock.
#[derive(Default)]
pub(crate) struct Waker {
    is_wanted: AtomicBool,
    /// Set once the process ends.
    is_process_ending: AtomicBool,
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

    /// The process ends: so does the session.
    fn end_session(&self) {
        // Relaxed: `wake` publishes it.
        self.is_process_ending.store(true, Ordering::Relaxed);
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

/// The file of a session, from its begin until the session's owner has finished it.
struct SessionFile {
    path: PathBuf,
    waker: Arc<Waker>,
    is_closed: AtomicBool,
    /// Why writing failed, until somebody was told.
    untold: Mutex<Option<io::Error>>,
}

/// The thread that writes a session into its file.
pub(crate) struct FileWriter {
    file: Arc<SessionFile>,
    thread: JoinHandle<io::Result<()>>,
}

impl FileWriter {
    /// Starts the thread. It ends when the session has ended and all is written, or at an error.
    ///
    /// The first packets are in the file when this returns, if the session has started.
    pub(crate) fn start(
        runtime: &'static Runtime,
        session: SessionId,
        path: &Path,
        waker: Arc<Waker>,
    ) -> Result<Self, Error> {
        process_end::watch(&FINISHER).map_err(Error::Thread)?;
        let file = Arc::new(SessionFile {
            path: path.to_owned(),
            waker,
            is_closed: AtomicBool::new(false),
            untold: Mutex::default(),
        });
        FILES.lock().push(Arc::clone(&file));
        let open = OpenFile(Arc::clone(&file));
        let (begins, has_begun) = answer();
        let write = move || {
            let begun = match runtime.service().state(session) {
                // It waits for a trigger, or for `start`.
                Some(State::Configured) => Ok(Writing::GoesOn),
                _ => runtime.service().write_into_file(session),
            };
            begins.give(());
            open.write_all(runtime, session, begun)
        };
        let thread = own_thread::spawn("tracezero-file", write).map_err(|error| {
            file.forget();
            Error::Thread(error)
        })?;
        // An error is told when the session finishes, like those that come later.
        let _ = has_begun.wait();
        Ok(Self { file, thread })
    }

    /// Waits until all is written; the session has ended.
    pub(crate) fn join(self) -> Written {
        let outcome = self.thread.join();
        self.file.forget();
        Written {
            outcome: match outcome {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            },
            is_told: self.file.untold.lock().is_none(),
        }
    }
}

/// How the writing of a file ended.
pub(crate) struct Written {
    pub(crate) outcome: io::Result<()>,
    /// Whether there is no error, or [`tell_failures`] has told of it.
    pub(crate) is_told: bool,
}

impl SessionFile {
    fn forget(self: &Arc<Self>) {
        FILES.lock().retain(|other| !Arc::ptr_eq(other, self));
    }

    fn is_closed(&self) -> bool {
        // Acquire pairs with the drop of `OpenFile`: the error was noted before.
        self.is_closed.load(Ordering::Acquire)
    }

    /// The error that nobody was told of.
    fn take_failure(&self) -> Option<Error> {
        let source = self.untold.lock().take()?;
        Some(Error::of_io(&self.path, source))
    }
}

/// A file that is open as long as this lives.
struct OpenFile(Arc<SessionFile>);

impl OpenFile {
    /// Writes until the session is over. `written` says how the first batch went.
    fn write_all(
        self,
        runtime: &'static Runtime,
        session: SessionId,
        mut written: io::Result<Writing>,
    ) -> io::Result<()> {
        let SessionFile { waker, untold, .. } = &*self.0;
        loop {
            match written {
                Ok(Writing::GoesOn) => waker.wait(),
                Ok(Writing::Closed) => return Ok(()),
                Err(error) => {
                    *untold.lock() = Some(copy_of(&error));
                    return Err(error);
                }
            }
            // Relaxed: `wait` has seen what `wake` published.
            if waker.is_process_ending.load(Ordering::Relaxed) {
                runtime.service().end_with_process(session);
            }
            written = runtime.service().write_into_file(session);
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Release pairs with `is_closed`.
        self.0.is_closed.store(true, Ordering::Release);
        // Whoever has the lock looks before it waits.
        drop(FILES.lock());
        ONE_IS_CLOSED.notify_all();
    }
}

/// Finishes the files of all sessions when the process ends.
static FINISHER: Finisher = Finisher {
    begin: |ending| {
        let has_begun = begin_finishing(ending.deadline());
        Box::new(move |ending| has_begun && all_finished(ending.deadline()))
    },
    tell: |ending| tell_failures(ending.deadline()),
};

/// Ends the sessions whose files are open. Returns whether that was possible until `deadline`.
///
/// The process ends: any thread may hold any lock. All that is waited for is waited for with a limit,
/// and the work is done by the files' threads.
fn begin_finishing(deadline: Instant) -> bool {
    let Some(files) = FILES.try_lock_until(deadline) else {
        return false;
    };
    files.iter().for_each(|file| file.waker.end_session());
    true
}

/// Waits until all files are finished, at most until `deadline`. Returns whether they are.
fn all_finished(deadline: Instant) -> bool {
    let Some(mut files) = FILES.try_lock_until(deadline) else {
        return false;
    };
    while !files.iter().all(|file| file.is_closed()) {
        if ONE_IS_CLOSED.wait_until(&mut files, deadline).timed_out() {
            return files.iter().all(|file| file.is_closed());
        }
    }
    true
}

/// Tells the application of files that could not be written, since the process ends before their
/// sessions' owners learn of it. Waits for it at most until `deadline`.
fn tell_failures(deadline: Instant) {
    let Some(files) = FILES.try_lock_until(deadline) else {
        return;
    };
    let failures: Vec<Error> = files
        .iter()
        .filter_map(|file| file.take_failure())
        .collect();
    drop(files);
    if failures.is_empty() {
        return;
    }
    let (answer, asked) = answer();
    let work = move || {
        failures.iter().for_each(on_error::report);
        answer.give(());
    };
    // The application's function, or a standard error that nobody reads, may take its time.
    if own_thread::spawn("tracezero-errors", work).is_ok() {
        let patience = deadline.saturating_duration_since(Instant::now());
        let _ = asked.wait_for(patience.max(TELLING_PATIENCE));
    }
}

/// The same error for somebody else.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
