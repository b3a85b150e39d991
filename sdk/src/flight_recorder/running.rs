//! The list of running flight recorders of this process, for events that concern all of them:
//! panics, triggers, the exit.
//!
//! A thread that panics or exits may hold any lock, and so may other threads. So a thread that
//! panics or exits takes only locks of recorders, and waits for each of them only a limited time.
//! The recorders' threads do the work.

use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::request_queue::{Answer, PANIC, Request, RequestQueue};
use crate::process_end::{Ending, Finisher};
use tracezero_core::forked_child;
use tracezero_track_event::Track;

/// How long a thread waits for the lock of the list, while others start or stop recorders.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

static RUNNING: Mutex<Vec<Arc<RunningRecorder>>> = Mutex::new(Vec::new());

thread_local! {
    /// True on threads of recorders, which cannot wait for themselves.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// A running recorder: its queue, and the events at which it takes snapshots.
pub(crate) struct RunningRecorder {
    pub(super) queue: Arc<RequestQueue>,
    pub(super) on_panic: bool,
    pub(super) on_exit: bool,
    /// How long a thread that panics, and a process that exits, wait until snapshots are saved.
    pub(super) save_timeout: Duration,
    pub(super) triggers: Vec<TriggerWindow>,
}

/// A trigger, and the times before and after it that its snapshots hold.
#[derive(Clone, Debug)]
pub(super) struct TriggerWindow {
    pub(super) name: String,
    pub(super) before: Option<Duration>,
    pub(super) after: Duration,
}

/// Marks this thread as a thread of a recorder.
pub(super) fn enter_own_thread() {
    IS_OWN.set(true);
}

pub(super) fn is_own_thread() -> bool {
    IS_OWN.get()
}

/// Adds a recorder to the list.
pub(super) fn add(running: &Arc<RunningRecorder>) {
    static AT_PANICS: Once = Once::new();
    if running.on_panic {
        AT_PANICS.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                // Save snapshots before calling the previous hook, because that hook may end the
                // process.
                save_panic(info);
                previous(info);
            }));
        });
    }
    RUNNING.lock().push(Arc::clone(running));
}

pub(super) fn remove(running: &Arc<RunningRecorder>) {
    RUNNING.lock().retain(|other| !Arc::ptr_eq(other, running));
}

/// Requests snapshots from all recorders that wait for this trigger.
pub(crate) fn trigger_hit(name: &str) {
    if forked_child::is_disabled() {
        return;
    }
    let Some(running) = RUNNING.try_lock_for(LOCK_TIMEOUT) else {
        return;
    };
    for recorder in running.iter() {
        for trigger in recorder.triggers.iter().filter(|it| it.name == name) {
            recorder.queue.submit(Request {
                track: Some(Track::current_thread()),
                before: trigger.before,
                after: trigger.after,
                ..Request::new(name)
            });
        }
    }
}

/// Saves snapshots for a panic. The thread that panics calls it, before it unwinds or the process
/// aborts.
fn save_panic(info: &PanicHookInfo<'_>) {
    if forked_child::is_disabled() || is_own_thread() {
        return;
    }
    let started = Instant::now();
    let mut savings = Vec::new();
    {
        let Some(running) = RUNNING.try_lock_for(LOCK_TIMEOUT) else {
            return;
        };
        for recorder in running.iter().filter(|it| it.on_panic) {
            let answer = recorder.queue.submit(Request {
                track: Some(Track::current_thread()),
                message: Some(info.payload_as_str().unwrap_or("no text").to_owned()),
                location: info.location().map(ToString::to_string),
                may_be_last: true,
                ..Request::new(PANIC)
            });
            match answer {
                // A panic a moment before may have made the first request. Its file must be
                // complete, too, before the process may abort.
                Answer::Refused(_, Some(saving)) | Answer::Saving(saving) => {
                    savings.push((saving, started + recorder.save_timeout));
                }
                Answer::Refused(_, None) => {}
            }
        }
    }
    for (saving, deadline) in savings {
        // Failures are counted and reported to the callback.
        let _ = saving.wait_until(deadline);
    }
}

/// Saves requested snapshots and those for the exit of all recorders, when the process ends.
pub(super) static FINISHER: Finisher = Finisher {
    begin: |_| {
        let recorders = begin_finishing();
        Box::new(move |ending| all_saved(&recorders, ending))
    },
    // Nothing to do here: the threads of the recorders report failures themselves.
    report: |_| {},
};

/// Asks all recorders to save requested snapshots and those for the exit.
fn begin_finishing() -> Vec<Arc<RunningRecorder>> {
    let running = match RUNNING.try_lock_for(LOCK_TIMEOUT) {
        Some(running) => running.clone(),
        None => return Vec::new(),
    };
    for recorder in &running {
        if recorder.on_exit {
            recorder.queue.submit(Request::at_exit());
        }
        recorder.queue.begin_ending();
    }
    running
}

/// Waits until these recorders have saved everything, each for its own `save_timeout`. Returns
/// whether all is saved.
fn all_saved(recorders: &[Arc<RunningRecorder>], ending: &Ending) -> bool {
    let mut all_saved = true;
    for recorder in recorders {
        let deadline = ending.deadline_of(recorder.save_timeout);
        all_saved &= recorder.queue.wait_for_all(deadline);
    }
    all_saved
}
