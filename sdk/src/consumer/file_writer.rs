//! Streams a session into its file: a thread of its own moves packets from the buffers to the file
//! while writers continue. At the end of the process it finishes the files of open sessions.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::on_error;
use super::oneshot::oneshot;
use super::segments::Rotation;
use crate::error::Error;
use crate::process_end::{self, Finisher};
use crate::runtime::Runtime;
use tracezero_core::ids::SessionId;
use tracezero_core::own_thread;
use tracezero_service::{FileProgress, State};

/// How long the end of the process waits at least for the application's error function, even if
/// finishing the files took all the time that was allowed.
const REPORT_TIMEOUT: Duration = Duration::from_millis(100);

/// Files of sessions whose owners have not finished them.
static FILES: Mutex<Vec<Arc<SessionFile>>> = Mutex::new(Vec::new());

/// Notified whenever a file is closed.
static FILE_CLOSED: Condvar = Condvar::new();

/// Wakes the thread that writes a file. Trace writers call [`wake`](Self::wake) whenever they
/// commit to a buffer that fills up, so that method takes no lock.
#[derive(Default)]
pub(crate) struct Waker {
    is_wanted: AtomicBool,
    /// True once the process ends.
    is_process_ending: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Wakes the thread to write.
    pub(crate) fn wake(&self) {
        // Release and acquire pair with the swap in `wait`: either `wait` sees the flag, or this
        // call sees the thread. A call that finds the flag set already leaves the unparking to the
        // call that set it.
        if !self.is_wanted.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Asks the thread to end the session, because the process ends.
    fn end_session(&self) {
        // Relaxed: `wake` publishes it.
        self.is_process_ending.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Waits until there is something to write. Only one thread calls this.
    fn wait(&self) {
        self.thread.get_or_init(thread::current);
        // Acquire pairs with `wake`: commits made before `wake` are read after this.
        while !self.is_wanted.swap(false, Ordering::AcqRel) {
            thread::park();
        }
    }
}

/// The file of a session, from its creation until the session's owner finishes it.
struct SessionFile {
    path: PathBuf,
    waker: Arc<Waker>,
    is_closed: AtomicBool,
    /// The error of writing, until it is reported.
    unreported: Mutex<Option<io::Error>>,
}

/// A handle to the thread that writes a session into its file.
pub(crate) struct FileWriter {
    file: Arc<SessionFile>,
    thread: JoinHandle<io::Result<()>>,
}

impl FileWriter {
    /// Starts the thread. The thread ends when the session has ended and everything is written, or
    /// at an error.
    ///
    /// If the session has started, its first packets are in the file when this returns. `rotation` is
    /// given if the trace is written into segments.
    pub(crate) fn start(
        runtime: &'static Runtime,
        session: SessionId,
        path: &Path,
        waker: Arc<Waker>,
        rotation: Option<Rotation>,
    ) -> Result<Self, Error> {
        process_end::watch(&FINISHER).map_err(Error::Thread)?;
        let file = Arc::new(SessionFile {
            path: path.to_owned(),
            waker,
            is_closed: AtomicBool::new(false),
            unreported: Mutex::default(),
        });
        FILES.lock().push(Arc::clone(&file));
        let open = OpenFile(Arc::clone(&file));
        let (begins, has_begun) = oneshot();
        let write = move || {
            let begun = match runtime.service().state(session) {
                // The session waits for a trigger, or for `start`.
                Some(State::Configured) => Ok(FileProgress::Open),
                _ => runtime.service().write_into_file(session),
            };
            begins.send(());
            open.write_all(runtime, session, begun, rotation)
        };
        let thread = own_thread::spawn("tracezero-file", write).map_err(|error| {
            file.forget();
            Error::Thread(error)
        })?;
        // Errors so far are reported when the session finishes, like later ones.
        let _ = has_begun.wait();
        Ok(Self { file, thread })
    }

    /// Waits until everything is written. The session must have ended.
    pub(crate) fn join(self) -> WriteOutcome {
        let outcome = self.thread.join();
        self.file.forget();
        WriteOutcome {
            outcome: match outcome {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            },
            is_reported: self.file.unreported.lock().is_none(),
        }
    }
}

/// The outcome of writing a file.
pub(crate) struct WriteOutcome {
    pub(crate) outcome: io::Result<()>,
    /// True if there is no error, or [`report_failures`] has reported it.
    pub(crate) is_reported: bool,
}

impl SessionFile {
    fn forget(self: &Arc<Self>) {
        FILES.lock().retain(|other| !Arc::ptr_eq(other, self));
    }

    fn is_closed(&self) -> bool {
        // Acquire pairs with the release in the drop of `OpenFile`: the error was stored before.
        self.is_closed.load(Ordering::Acquire)
    }

    /// Takes the error that was not reported yet.
    fn take_failure(&self) -> Option<Error> {
        let source = self.unreported.lock().take()?;
        Some(Error::of_io(&self.path, source))
    }
}

/// Keeps a file marked as open. Dropping it marks the file as closed.
struct OpenFile(Arc<SessionFile>);

impl OpenFile {
    /// Writes batches until the session is over. `written` is the result of the first batch.
    ///
    /// The file is closed after `rotation` is dropped: the application has then had all segments.
    fn write_all(
        self,
        runtime: &'static Runtime,
        session: SessionId,
        mut written: io::Result<FileProgress>,
        mut rotation: Option<Rotation>,
    ) -> io::Result<()> {
        let SessionFile {
            waker, unreported, ..
        } = &*self.0;
        loop {
            match written {
                Ok(FileProgress::Open) => {
                    let rotation = rotation.as_mut();
                    let goes_on = rotation.is_some_and(|it| it.after_pass(&runtime.service()));
                    if !goes_on {
                        waker.wait();
                    }
                }
                Ok(FileProgress::Closed) => return Ok(()),
                Err(error) => {
                    *unreported.lock() = Some(copy_of(&error));
                    return Err(error);
                }
            }
            // Relaxed: `wait` has synchronized with `wake`, which published the flag.
            if waker.is_process_ending.load(Ordering::Relaxed) {
                runtime.service().end_with_process(session);
            }
            written = runtime.service().write_into_file(session);
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Release pairs with the acquire in `is_closed`.
        self.0.is_closed.store(true, Ordering::Release);
        // A thread that waits checks `is_closed` under the lock first. With the lock taken here,
        // that thread either has not checked yet, or waits already and gets the notification.
        drop(FILES.lock());
        FILE_CLOSED.notify_all();
    }
}

/// Finishes the files of all sessions when the process ends.
static FINISHER: Finisher = Finisher {
    begin: |ending| {
        let has_begun = begin_finishing(ending.deadline());
        Box::new(move |ending| has_begun && all_finished(ending.deadline()))
    },
    report: |ending| report_failures(ending.deadline()),
};

/// Ends the sessions whose files are open. Returns false if the lock was not free until `deadline`.
///
/// At the end of the process any thread may hold any lock. So every wait has a limit, and the
/// threads of the files do the work.
fn begin_finishing(deadline: Instant) -> bool {
    let Some(files) = FILES.try_lock_until(deadline) else {
        return false;
    };
    files.iter().for_each(|file| file.waker.end_session());
    true
}

/// Waits until all files are finished, at most until `deadline`. Returns whether all files are
/// finished.
fn all_finished(deadline: Instant) -> bool {
    let Some(mut files) = FILES.try_lock_until(deadline) else {
        return false;
    };
    while !files.iter().all(|file| file.is_closed()) {
        if FILE_CLOSED.wait_until(&mut files, deadline).timed_out() {
            return files.iter().all(|file| file.is_closed());
        }
    }
    true
}

/// Tells the application which files could not be written, because the process ends before the
/// owners of the sessions see the errors. Waits for the application at most until `deadline`, or
/// for [`REPORT_TIMEOUT`] if that is later.
fn report_failures(deadline: Instant) {
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
    let (sender, receiver) = oneshot();
    let work = move || {
        failures.iter().for_each(on_error::report);
        sender.send(());
    };
    // The report is made on a thread of its own, because it may take long: the application's
    // function may be slow, or nobody may read standard error.
    if own_thread::spawn("tracezero-errors", work).is_ok() {
        let patience = deadline.saturating_duration_since(Instant::now());
        let _ = receiver.wait_for(patience.max(REPORT_TIMEOUT));
    }
}

/// Copies an error, so that it can be both returned and reported.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
