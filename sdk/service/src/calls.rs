//! Calls that the service makes to producers and to owners of sessions, and other work that must not
//! be done while the state is locked.
//!
//! The service never makes a call while its state is locked, because the callee may call the
//! service back. Calls are noted under the lock and made after it is released: one at a time, in
//! the order in which they were noted. Scrapes are among them, because they take long. When one is
//! over, the state is locked again, and the session continues: the calls that it then notes wait
//! behind all others. They follow from the request that the scrape follows from.
//!
//! A request to the service returns when the calls that follow from it have been made. So when a
//! request to start a session returns, the session is recording, whichever thread made the calls.
//! Perfetto's own service posts messages to the one thread that it runs on. Here the requesting
//! thread does the work, under one lock.
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
use std::collections::btree_map::{BTreeMap, Entry};
use std::panic::{self, AssertUnwindSafe};
use std::thread::{self, ThreadId};
use std::time::Instant;

use parking_lot::{Condvar, MutexGuard};

/// A call that was noted, to be made later.
pub(super) type Call = Box<dyn FnOnce() + Send>;

/// The work that follows from a call, with the state locked.
pub(super) type Continuation<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A call that is still to be made.
struct Step<T> {
    /// The number of this call, or of the call that it follows from.
    root: u64,
    call: Call,
    then: Option<Continuation<T>>,
}

/// The calls that are still to be made.
pub(super) struct Calls<T> {
    waiting: VecDeque<Step<T>>,
    /// The number of calls noted so far, without those that follow from others.
    noted: u64,
    /// For each root, the number of its calls that were noted and have not returned.
    unmade: BTreeMap<u64, usize>,
    /// The root of the call whose continuation is running.
    continues: Option<u64>,
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
            noted: 0,
            unmade: BTreeMap::new(),
            continues: None,
            caller: None,
            left_to_caller: 0,
        }
    }
}

impl<T> Calls<T> {
    /// Notes a call.
    pub(super) fn note(&mut self, call: Call) {
        self.note_step(call, None);
    }

    /// Notes work, and what follows from it, also if the work panics.
    pub(super) fn note_work(&mut self, work: Call, then: Continuation<T>) {
        self.note_step(work, Some(then));
    }

    fn note_step(&mut self, call: Call, then: Option<Continuation<T>>) {
        let root = self.continues.unwrap_or_else(|| {
            self.noted += 1;
            self.noted
        });
        *self.unmade.entry(root).or_default() += 1;
        self.waiting.push_back(Step { root, call, then });
    }

    fn note_made(&mut self, root: u64) {
        if let Entry::Occupied(mut unmade) = self.unmade.entry(root) {
            *unmade.get_mut() -= 1;
            if *unmade.get() == 0 {
                unmade.remove();
            }
        }
    }

    /// Returns whether the first `count` calls have been made, and all that follow from them.
    fn are_made(&self, count: u64) -> bool {
        self.unmade.keys().next().is_none_or(|root| *root > count)
    }
}

/// Makes the calls that were noted so far. `calls_of` finds them in the locked value. If another
/// thread is making calls, this function waits or leaves all calls to that thread, as `patience`
/// says. Notifies `changed` after each call.
pub(super) fn make_calls<T>(
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
            Some(_) if !calls.are_made(until) => match patience {
                CallWait::Until(deadline) => {
                    if changed.wait_until(&mut locked, deadline).timed_out() {
                        patience = CallWait::LeaveCalls;
                    }
                }
                CallWait::Unlimited | CallWait::LeaveCalls => changed.wait(&mut locked),
            },
            None if !calls.are_made(until.max(calls.left_to_caller)) => {
                let Some(Step { root, call, then }) = calls.waiting.pop_front() else {
                    return;
                };
                calls.caller = Some(this_thread);
                let outcome = MutexGuard::unlocked(&mut locked, || {
                    // Catch a panic, so that `caller` is reset and other threads can make the
                    // remaining calls. The panic is resumed below.
                    panic::catch_unwind(AssertUnwindSafe(call))
                });
                if let Some(then) = then {
                    calls_of(&mut locked).continues = Some(root);
                    then(&mut locked);
                    calls_of(&mut locked).continues = None;
                }
                let calls = calls_of(&mut locked);
                calls.caller = None;
                calls.note_made(root);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct State {
        calls: Calls<State>,
    }

    type Log = Arc<Mutex<Vec<&'static str>>>;

    fn noting(log: &Log, word: &'static str) -> Call {
        let log = Arc::clone(log);
        Box::new(move || log.lock().push(word))
    }

    fn make(state: &Mutex<State>) {
        let patience = CallWait::Unlimited;
        make_calls(
            state.lock(),
            |state| &mut state.calls,
            &Condvar::new(),
            patience,
        );
    }

    #[test]
    fn calls_that_follow_come_last_and_are_made_before_the_request_returns() {
        let (state, log) = (Mutex::new(State::default()), Log::default());
        let follower = noting(&log, "follower");
        let then = |state: &mut State| state.calls.note(follower);
        let work = noting(&log, "work");
        state.lock().calls.note_work(work, Box::new(then));
        state.lock().calls.note(noting(&log, "later"));
        make(&state);
        assert_eq!(*log.lock(), ["work", "later", "follower"]);
    }

    #[test]
    fn what_follows_from_work_happens_also_if_the_work_panics() {
        let (state, log) = (Mutex::new(State::default()), Log::default());
        let follower = noting(&log, "follower");
        let then = |state: &mut State| state.calls.note(follower);
        let work = || panic!("the work fails");
        state.lock().calls.note_work(Box::new(work), Box::new(then));
        let made = panic::catch_unwind(AssertUnwindSafe(|| make(&state)));
        assert!(made.is_err());
        make(&state);
        assert_eq!(*log.lock(), ["follower"]);
    }
}
