//! Finishes recordings at the end of the process: at `exit`, a return from `main`, or a signal.
//!
//! The thread that exits or receives the signal may hold any lock, and so may other threads. So the
//! thread that exits or receives the signal takes no lock and only sends a request. A thread of
//! this module then finishes files and flight recorders, and waits for each of them with a limit.
//! The tests are in `tests/judge/tests/processes/signals.rs`.

mod requests; // requests to the thread that finishes recordings
mod signals; // SIGINT and SIGTERM

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};
use std::{io, ptr};

use parking_lot::Mutex;

pub use signals::leave_signals_alone;

use tracezero_core::forked_child;
use tracezero_core::own_thread;
use tracezero_core::process_hooks;

/// How long the end of the process waits for files and, after a signal, for flight recorders. What
/// a file contains by then is a valid trace.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// Functions that finish recordings of one kind when the process ends.
pub(crate) struct Finisher {
    /// Starts to finish all recordings of this kind.
    pub(crate) begin: fn(&Ending) -> WaitUntilFinished,
    /// Reports failures to the application, in the time that is left.
    pub(crate) report: fn(&Ending),
}

/// Waits until the recordings are finished, as long as `Ending` allows. Returns whether they are
/// finished.
pub(crate) type WaitUntilFinished = Box<dyn FnOnce(&Ending) -> bool>;

/// An end of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    started: Instant,
    /// True if the process exits by itself. Snapshots then have their full `save_timeout`.
    is_exit: bool,
}

impl Ending {
    /// Returns the time until which to wait for files.
    pub(crate) fn deadline(self) -> Instant {
        self.started + FINISH_TIMEOUT
    }

    /// Returns the time until which to wait for a snapshot that may take `patience`.
    pub(crate) fn deadline_of(self, patience: Duration) -> Instant {
        let limit = if self.is_exit {
            patience
        } else {
            FINISH_TIMEOUT
        };
        self.started + patience.min(limit)
    }
}

/// The finishers of all kinds of recordings that were started so far.
static FINISHERS: Mutex<Vec<&Finisher>> = Mutex::new(Vec::new());

/// Registers a finisher to be called when the process ends. Every recording calls this with the
/// finisher of its kind. The first call starts the thread.
///
/// # Errors
///
/// If the thread cannot be started.
pub(crate) fn watch(finisher: &'static Finisher) -> Result<(), io::Error> {
    let mut finishers = FINISHERS.lock();
    if finishers.is_empty() {
        own_thread::spawn("tracezero-end", serve)?;
        requests::note_thread();
        process_hooks::at_exit(at_exit);
    }
    if !finishers.iter().any(|known| ptr::eq(*known, finisher)) {
        finishers.push(finisher);
    }
    // Install the handlers at every call: the application may have restored a default action
    // meanwhile.
    signals::install();
    Ok(())
}

/// Finishes everything that the end of the process would finish: the files of all sessions that
/// stream into one, and snapshots of flight recorders. These snapshots are the requested ones, and
/// those that recorders take because of
/// [`snapshot_on_exit`](crate::FlightRecorderBuilder::snapshot_on_exit). Waits for at most 2 s.
/// Returns whether everything was finished in time. Errors of files are reported to
/// [`on_error`](crate::on_error).
///
/// The sessions have ended when this returns. Their `finish` still returns the report.
///
/// This is meant for applications that handle `SIGINT` or `SIGTERM` themselves, and end without
/// dropping their sessions. It may be called from anywhere, even from a signal handler: it takes no
/// lock, allocates nothing, and leaves the work to a thread of the SDK. Without a session, and in a
/// forked child, it does nothing and returns true.
///
/// ```
/// use tracezero::{Session, finish_recordings, instant};
///
/// # let directory = std::env::temp_dir().join(format!("tracezero-end-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).expect("a temporary directory");
/// # let path = directory.join("app.pftrace");
/// let session = Session::record_to_file(&path)?;
/// instant!("app", "shutdown");
/// assert!(finish_recordings());
/// // The file is complete. `std::process::abort()` would lose nothing here.
/// assert_eq!(session.finish()?.events, 1);
/// # std::fs::remove_dir_all(&directory).expect("removed");
/// # Ok::<(), tracezero::Error>(())
/// ```
#[expect(
    clippy::must_use_candidate,
    reason = "most end the process in either case"
)]
pub fn finish_recordings() -> bool {
    if forked_child::is_disabled() {
        return true;
    }
    requests::request_and_wait(Some(FINISH_TIMEOUT))
}

/// Finishes recordings when the process exits.
extern "C" fn at_exit() {
    if !forked_child::is_disabled() {
        requests::note_exit();
        // No limit here: the thread limits everything that it waits for.
        requests::request_and_wait(None);
    }
}

/// Serves requests as long as the process lives.
fn serve() {
    let mut served = 0;
    loop {
        let requested = requests::wait_for_request(served);
        // A panic in a callback of the application must not keep the process from ending.
        let finished = panic::catch_unwind(AssertUnwindSafe(finish_all));
        requests::answer(requested, finished.unwrap_or(false));
        if let Some(signal) = signals::received() {
            signals::end_by(signal);
        }
        served = requested;
    }
}

/// Finishes all recordings. Returns whether that was possible within the limits.
fn finish_all() -> bool {
    let ending = Ending {
        started: Instant::now(),
        is_exit: requests::is_exit() && signals::received().is_none(),
    };
    // The thread that holds the lock may be the thread that waits for the reply of this one.
    let Some(finishers) = FINISHERS.try_lock_until(ending.deadline()) else {
        return false;
    };
    let finishers = finishers.clone();
    // Start all before waiting, so that files and snapshots are written at the same time.
    let begun: Vec<WaitUntilFinished> = finishers
        .iter()
        .map(|finisher| (finisher.begin)(&ending))
        .collect();
    let mut all_finished = true;
    for wait_until_finished in begun {
        all_finished &= wait_until_finished(&ending);
    }
    finishers
        .iter()
        .for_each(|finisher| (finisher.report)(&ending));
    all_finished
}
