//! Calls that the service makes to producers and to owners of sessions, and other work that must not
//! be done while the state is locked.
//!
//! The service never makes a call while its state is locked, because the callee may call the
//! service back. Calls are noted under the lock and made after it is released: one at a time, in
//! the order in which they were noted. Scrapes are among them, because they take long; when one is
//! over, the state is locked again and the session continues. What it notes then is done before
//! anything that was noted later, and counts as a part of the scrape. A request to the service returns when the calls that follow
//! from it have been made. So when a request to start a session returns, the session is recording,
//! whichever thread made the calls. Perfetto's own service posts messages to the one thread that it
//! runs on. Here the requesting thread does the work, under one lock.
//!
//! Two kinds of threads do not wait for the thread that is making a call, but leave their own calls
//! to it. One is that thread itself, when the callee calls the service back. The other is a thread
//! that answers a call, because the call may be waiting for the answer. A thread that reaches a
//! data source for the first time waits for a limited time only, because a call may be waiting for
//! that thread.
//!
//! # Locks
//!
//! Locks are taken in this order: the reader of a session, the service's state (`control.rs`), the
//! locks of a producer link, the contents of a buffer. A thread that waits in [`make_calls`] holds
//! none of these locks, and no other lock that a call may need.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::thread::{self, ThreadId};
use std::time::Instant;

use parking_lot::{Condvar, MutexGuard};

/// A call that was noted, to be made later.
pub(super) type Call = Box<dyn FnOnce() + Send>;

/// What follows from a call, with the state locked.
pub(super) type Continuation<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A call, and what follows from it.
type Step<T> = Box<dyn FnOnce() -> Option<Continuation<T>> + Send>;

/// The calls that are still to be made.
pub(super) struct Calls<T> {
    waiting: VecDeque<Step<T>>,
    /// What the continuation of the present call has noted.
    following: VecDeque<Step<T>>,
    /// True while a continuation runs.
    is_continuing: bool,
    /// The number of calls noted so far, without those that follow from others.
    noted: u64,
    /// The number of calls that were noted and have returned.
    made: u64,
    /// The thread that is making a call now.
    caller: Option<ThreadId>,
    /// The number of the last call that was left to `caller`.
    left_to_caller: u64,
}

/// How long to wait for calls that another thread is making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallWait {
    Unlimited,
    /// Waits until this time, then leaves the remaining calls to the other thread.
    Until(Instant),
    LeaveCalls,
}

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            following: VecDeque::new(),
            is_continuing: false,
            noted: 0,
            made: 0,
            caller: None,
            left_to_caller: 0,
        }
    }
}

impl<T: 'static> Calls<T> {
    /// Notes a call.
    pub(super) fn note(&mut self, call: Call) {
        self.note_step(Box::new(move || {
            call();
            None
        }));
    }

    /// Notes work, and what follows from it.
    pub(super) fn note_work(&mut self, work: Call, then: Continuation<T>) {
        self.note_step(Box::new(move || {
            work();
            Some(then)
        }));
    }

    fn note_step(&mut self, step: Step<T>) {
        if self.is_continuing {
            self.following.push_back(step);
        } else {
            self.noted += 1;
            self.waiting.push_back(step);
        }
    }
}

/// Makes the calls that were noted so far. `calls_of` finds them in the locked value. If another
/// thread is making calls, this function waits or leaves all calls to that thread, as `patience`
/// says. Notifies `changed` after each call.
pub(super) fn make_calls<T: 'static>(
    mut locked: MutexGuard<'_, T>,
    calls_of: impl Fn(&mut T) -> &mut Calls<T>,
    changed: &Condvar,
    mut patience: CallWait,
) {
    let this_thread = thread::current().id();
    let until = calls_of(&mut locked).noted;
    loop {
        let calls = calls_of(&mut locked);
        match calls.caller {
            Some(caller) if caller == this_thread || patience == CallWait::LeaveCalls => {
                calls.left_to_caller = calls.noted;
                return;
            }
            Some(_) if calls.made < until => match patience {
                CallWait::Until(deadline) => {
                    if changed.wait_until(&mut locked, deadline).timed_out() {
                        patience = CallWait::LeaveCalls;
                    }
                }
                CallWait::Unlimited | CallWait::LeaveCalls => changed.wait(&mut locked),
            },
            None if calls.made < until.max(calls.left_to_caller) => {
                let Some(step) = calls.waiting.pop_front() else {
                    return;
                };
                calls.caller = Some(this_thread);
                let outcome = make_call(&mut locked, &calls_of, step);
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

/// Makes a call, and all that follow from it. If one panics, the others are made before this returns.
fn make_call<T: 'static>(
    locked: &mut MutexGuard<'_, T>,
    calls_of: impl Fn(&mut T) -> &mut Calls<T>,
    first: Step<T>,
) -> thread::Result<()> {
    let mut outcome = Ok(());
    let mut next = Some(first);
    while let Some(step) = next {
        // Catch a panic, so that other threads can make the remaining calls. The caller resumes it.
        match MutexGuard::unlocked(locked, || panic::catch_unwind(AssertUnwindSafe(step))) {
            Ok(Some(continuation)) => {
                calls_of(locked).is_continuing = true;
                continuation(locked);
                calls_of(locked).is_continuing = false;
            }
            Ok(None) => {}
            Err(panic) => outcome = Err(panic),
        }
        next = calls_of(locked).following.pop_front();
    }
    outcome
}
