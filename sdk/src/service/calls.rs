//! Calls that the service makes: to producers, and to the owners of sessions.
//!
//! None is made while the service is locked, since whoever is called may call back. They are noted
//! under the lock and made after it, in the order in which they were noted, one at a time. Whoever
//! asked the service for something returns when the calls that follow from it have been made; so a
//! session that has started records, whichever thread made the calls. Inside of a call there is no
//! waiting: what it leads to is made when it has returned.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::thread::{self, ThreadId};

use parking_lot::{Condvar, MutexGuard};

use super::control::Control;

/// The calls that are still to be made.
#[derive(Default)]
pub(super) struct Calls {
    waiting: VecDeque<Box<dyn FnOnce() + Send>>,
    /// Calls noted so far.
    noted: u64,
    /// Those of them that are over.
    made: u64,
    /// The thread that is inside of a call.
    caller: Option<ThreadId>,
}

impl Calls {
    pub(super) fn note(&mut self, call: impl FnOnce() + Send + 'static) {
        self.noted += 1;
        self.waiting.push_back(Box::new(call));
    }
}

/// Makes the calls that were noted so far, or waits until another thread has made them. `changed`
/// is notified after each.
pub(super) fn make_calls(mut control: MutexGuard<'_, Control>, changed: &Condvar) {
    let this_thread = thread::current().id();
    let until = control.calls.noted;
    while control.calls.made < until {
        match control.calls.caller {
            Some(caller) if caller == this_thread => return,
            Some(_) => changed.wait(&mut control),
            None => {
                let Some(call) = control.calls.waiting.pop_front() else {
                    return;
                };
                control.calls.caller = Some(this_thread);
                let outcome = MutexGuard::unlocked(&mut control, || {
                    // A panic must not leave the others waiting; it goes on below.
                    panic::catch_unwind(AssertUnwindSafe(call))
                });
                control.calls.caller = None;
                control.calls.made += 1;
                changed.notify_all();
                if let Err(panic) = outcome {
                    drop(control);
                    panic::resume_unwind(panic);
                }
            }
        }
    }
}
