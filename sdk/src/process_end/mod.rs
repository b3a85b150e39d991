//! The end of the process: by `exit`, by a return from `main`, or by a signal.
//!
//! The thread that exits or gets the signal may hold any lock, and so may others. It takes no lock and only
//! asks: a thread of this module finishes files and flight recorders, and waits for each with a limit.
//! `tests/judge/tests/processes/signals.rs` has the tests.

mod asking; // how the thread is asked, and how one waits for it
mod signals; // SIGINT and SIGTERM

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};
use std::{io, ptr};

use parking_lot::Mutex;

pub use signals::leave_signals_alone;

use tracezero_core::forked_child;
use tracezero_core::own_thread;
use tracezero_core::process_hooks;

/// How long files are waited for, and after a signal flight recorders as well. What is in a file by
/// then is a trace.
const PATIENCE: Duration = Duration::from_secs(2);

/// Finishes recordings of one kind when the process ends.
pub(crate) struct Finisher {
    /// Begins to finish all of them.
    pub(crate) begin: fn(&Ending) -> WaitUntilFinished,
    /// Tells the application what went wrong, in the time that is left.
    pub(crate) tell: fn(&Ending),
}

/// Waits until the recordings are finished, for as long as the ending allows. Returns whether they are.
pub(crate) type WaitUntilFinished = Box<dyn FnOnce(&Ending) -> bool>;

/// An end of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    started: Instant,
    /// The process exits by itself, so snapshots may take the time that they were promised.
    is_exit: bool,
}

impl Ending {
    /// Files are waited for until then.
    pub(crate) fn deadline(self) -> Instant {
        self.started + PATIENCE
    }

    /// Something that was promised `patience` is waited for until then.
    pub(crate) fn deadline_of(self, patience: Duration) -> Instant {
        let limit = if self.is_exit { patience } else { PATIENCE };
        self.started + patience.min(limit)
    }
}

/// The finishers of all kinds of recordings that there were so far.
static FINISHERS: Mutex<Vec<&Finisher>> = Mutex::new(Vec::new());

/// Watches for the end of the process, from the first recording on. Called for each recording that
/// the end of the process concerns, with the finisher of its kind.
///
/// # Errors
///
/// If the thread cannot be started.
pub(crate) fn watch(finisher: &'static Finisher) -> Result<(), io::Error> {
    let mut finishers = FINISHERS.lock();
    if finishers.is_empty() {
        own_thread::spawn("tracezero-end", serve)?;
        asking::open();
        process_hooks::at_exit(at_exit);
    }
    if !finishers.iter().any(|known| ptr::eq(*known, finisher)) {
        finishers.push(finisher);
    }
    // Each time: the application may have restored a default action meanwhile.
    signals::install();
    Ok(())
}

/// Finishes what the end of the process would finish: the files of all sessions that are written into
/// one, and the snapshots that flight recorders were asked for, with those of
/// [`snapshot_on_exit`](crate::FlightRecorderBuilder::snapshot_on_exit). Waits for that, for at most
/// 2 s. Returns whether all of it came to its end in time; errors of files are told as [`on_error`](crate::on_error) says.
///
/// The sessions have ended then; their `finish` still returns the report.
///
/// For applications that handle `SIGINT` or `SIGTERM` themselves and end without dropping their
/// sessions. It may be called from anywhere, also from a signal handler: it takes no lock, allocates
/// nothing, and leaves the work to a thread of the SDK. Without a session, and in a forked child, it
/// does nothing.
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
    if forked_child::is_quiet() {
        return true;
    }
    asking::ask(Some(PATIENCE))
}

/// Called when the process exits.
extern "C" fn at_exit() {
    if !forked_child::is_quiet() {
        asking::note_exit();
        // Without a limit of its own: the thread has limits for all that it does.
        asking::ask(None);
    }
}

/// Serves those who ask, for as long as the process lives.
fn serve() {
    let mut served = 0;
    loop {
        let asked = asking::wait_for_more_than(served);
        // The application's callbacks do not keep the process from ending.
        let finished = panic::catch_unwind(AssertUnwindSafe(finish_all));
        asking::answer(asked, finished.unwrap_or(false));
        if let Some(signal) = signals::received() {
            signals::end_by(signal);
        }
        served = asked;
    }
}

/// Finishes everything; returns whether that was possible within the limits.
fn finish_all() -> bool {
    let ending = Ending {
        started: Instant::now(),
        is_exit: asking::is_exit() && signals::received().is_none(),
    };
    // A thread that adds a finisher may be the one that ends the process.
    let Some(finishers) = FINISHERS.try_lock_until(ending.deadline()) else {
        return false;
    };
    let finishers = finishers.clone();
    // Files and snapshots are written at the same time.
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
        .for_each(|finisher| (finisher.tell)(&ending));
    all_finished
}
