//! Calls that the service makes: to producers, and to the owners of sessions.
//!
//! None is made while the service is locked, since whoever is called may call back. They are noted
//! under the lock and made after it, in the order in which they were noted, one at a time. Whoever
//! asks the service for something returns when the calls that follow from it have been made; so a
//! session that has started records, whichever thread made the calls. Perfetto's own service posts messages
//! to the one thread that it runs on. Here whoever asks does the work, under one lock.
//!
//! Two do not wait, and leave their calls to the thread that is inside of one: that thread itself,
//! which calls back; and whoever answers a call, since the call may be waiting for the answer.
//! Whoever happens to reach a data source first waits for a while only: a call may be waiting for
//! that thread.
//!
//! # Locks
//!
//! From the outside in: the reader of a session, the service's books, what a producer's link
//! holds, the contents of a buffer. Whoever waits here for calls holds none of them, and nothing
//! that a call may want.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::thread::{self, ThreadId};
use std::time::Instant;

use parking_lot::{Condvar, MutexGuard};

/// A call that is made later.
pub(super) type Call = Box<dyn FnOnce() + Send>;

/// The calls that are still to be made.
#[derive(Default)]
pub(super) struct Calls {
    waiting: VecDeque<Call>,
    /// Calls noted so far.
    noted: u64,
    /// Those of them that are over.
    made: u64,
    /// The thread that is inside of a call.
    caller: Option<ThreadId>,
    /// Calls up to this number were left to that thread.
    left_to_caller: u64,
}

/// Whether to return before calls that another thread is making are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    /// Waits until then, and leaves calls after that.
    WaitsUntil(Instant),
    LeavesCalls,
}

impl Calls {
    pub(super) fn note(&mut self, call: Call) {
        self.noted += 1;
        self.waiting.push_back(call);
    }
}

/// Makes the calls that were noted so far; `calls_of` finds them in what is locked. While another thread
/// makes some, either waits or leaves all to that thread. `changed` is notified after each call.
pub(super) fn make_calls<T>(
    mut locked: MutexGuard<'_, T>,
    calls_of: impl Fn(&mut T) -> &mut Calls,
    changed: &Condvar,
    mut patience: Patience,
) {
    let this_thread = thread::current().id();
    let until = calls_of(&mut locked).noted;
    loop {
        let calls = calls_of(&mut locked);
        match calls.caller {
            Some(caller) if caller == this_thread || patience == Patience::LeavesCalls => {
                calls.left_to_caller = calls.noted;
                return;
            }
            Some(_) if calls.made < until => match patience {
                Patience::WaitsUntil(deadline) => {
                    if changed.wait_until(&mut locked, deadline).timed_out() {
                        patience = Patience::LeavesCalls;
                    }
                }
                Patience::Waits | Patience::LeavesCalls => changed.wait(&mut locked),
            },
            None if calls.made < until.max(calls.left_to_caller) => {
                let Some(call) = calls.waiting.pop_front() else {
                    return;
                };
                calls.caller = Some(this_thread);
                let outcome = MutexGuard::unlocked(&mut locked, || {
                    // A panic must not leave the others waiting; it goes on below.
                    panic::catch_unwind(AssertUnwindSafe(call))
                });
                let calls = calls_of(&mut locked);
                calls.caller = None;
                calls.made += 1;
                changed.notify_all();
                if let Err(panic) = outcome {
                    drop(locked);
                    panic::resume_unwind(panic);
                }
            }
            Some(_) | None => return,
        }
    }
}
