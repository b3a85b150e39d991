//! The flight recorders of this process, for what concerns all of them: panics, triggers, the exit.
//!
//! The thread that panics or exits may hold any lock, and so may others: it takes no lock but those
//! of the recorders, with a limit, and the work is done by the recorders' threads.

use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::desk::{Answer, Desk, PANIC, Request};
use crate::process_end::{Ending, Finisher};
use tracezero_core::forked_child;
use tracezero_track_event::Track;

/// How long whoever has something to tell recorders waits for others that start and stop them.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

static RUNNING: Mutex<Vec<Arc<Running>>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether this is a thread of a recorder, which cannot wait for itself.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// What a recorder is there for.
pub(crate) struct Running {
    pub(super) desk: Arc<Desk>,
    pub(super) on_panic: bool,
    pub(super) on_exit: bool,
    /// How long a panic and an exit wait for what is saved.
    pub(super) patience: Duration,
    pub(super) triggers: Vec<TriggerWindow>,
}

/// What a trigger saves.
#[derive(Clone, Debug)]
pub(super) struct TriggerWindow {
    pub(super) name: String,
    pub(super) before: Option<Duration>,
    pub(super) after: Duration,
}

/// From now on this thread is one of a recorder.
pub(super) fn enter_own_thread() {
    IS_OWN.set(true);
}

pub(super) fn is_own_thread() -> bool {
    IS_OWN.get()
}

/// From now on the recorder learns of what happens.
pub(super) fn add(running: &Arc<Running>) {
    static AT_PANICS: Once = Once::new();
    if running.on_panic {
        AT_PANICS.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                // First, since the one before may end the process.
                save_panic(info);
                previous(info);
            }));
        });
    }
    RUNNING.lock().push(Arc::clone(running));
}

pub(super) fn remove(running: &Arc<Running>) {
    RUNNING.lock().retain(|other| !Arc::ptr_eq(other, running));
}

/// A trigger was hit.
pub(crate) fn trigger_hit(name: &str) {
    if forked_child::is_quiet() {
        return;
    }
    let Some(running) = RUNNING.try_lock_for(LOCK_PATIENCE) else {
        return;
    };
    for recorder in running.iter() {
        for trigger in recorder.triggers.iter().filter(|it| it.name == name) {
            recorder.desk.ask(Request {
                track: Some(Track::current_thread()),
                before: trigger.before,
                after: trigger.after,
                ..Request::new(name)
            });
        }
    }
}

/// Called by a thread that panics, before it unwinds or the process aborts.
fn save_panic(info: &PanicHookInfo<'_>) {
    if forked_child::is_quiet() || is_own_thread() {
        return;
    }
    let started = Instant::now();
    let mut savings = Vec::new();
    {
        let Some(running) = RUNNING.try_lock_for(LOCK_PATIENCE) else {
            return;
        };
        for recorder in running.iter().filter(|it| it.on_panic) {
            let answer = recorder.desk.ask(Request {
                track: Some(Track::current_thread()),
                message: Some(info.payload_as_str().unwrap_or("no text").to_owned()),
                location: info.location().map(ToString::to_string),
                is_last_word: true,
                ..Request::new(PANIC)
            });
            match answer {
                // Another panic has asked a moment before. That file is to be there, too, before
                // the process may abort.
                Answer::Refused(_, Some(saving)) | Answer::Saving(saving) => {
                    savings.push((saving, started + recorder.patience));
                }
                Answer::Refused(_, None) => {}
            }
        }
    }
    for (saving, deadline) in savings {
        // Failures are counted, and told to the callback.
        let _ = saving.wait_until(deadline);
    }
}

/// Saves what all recorders were asked for, and what they save at the exit, when the process ends.
pub(super) static FINISHER: Finisher = Finisher {
    begin: |_| {
        let recorders = begin_finishing();
        Box::new(move |ending| all_saved(&recorders, ending))
    },
    // The recorders' own threads tell of failures.
    tell: |_| {},
};

/// Asks all recorders to save what was asked for, and what they save at the exit.
fn begin_finishing() -> Vec<Arc<Running>> {
    let running = match RUNNING.try_lock_for(LOCK_PATIENCE) {
        Some(running) => running.clone(),
        None => return Vec::new(),
    };
    for recorder in &running {
        if recorder.on_exit {
            recorder.desk.ask(Request::at_exit());
        }
        recorder.desk.begin_ending();
    }
    running
}

/// Waits for what these recorders save, for each as long as it was told to. Returns whether all is
/// saved.
fn all_saved(recorders: &[Arc<Running>], ending: &Ending) -> bool {
    let mut all_saved = true;
    for recorder in recorders {
        let deadline = ending.deadline_of(recorder.patience);
        all_saved &= recorder.desk.wait_for_all(deadline);
    }
    all_saved
}
