//! A child that was forked off a process that traces, and goes quiet.
//!
//! Such a child has one thread, the one that forked, and a copy of everything else: locks that other
//! threads held, and that nobody will release; writers and sessions, which are its parent's; an open
//! file, which its parent writes. So from the fork on it leaves all of them alone. Nothing is
//! locked, committed, written or closed; trace points record nothing; what is dropped is leaked. A
//! new program, by `exec`, starts anew.
//!
//! A process that has not traced yet can fork freely: its children start sessions of their own. Perfetto's
//! own SDK does not support forks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::process_hooks;
use crate::reentry;

/// Whether the hook that notices forks was set.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Reasons for a child to go quiet: threads that may hold a lock, and a runtime.
static REASONS: AtomicUsize = AtomicUsize::new(0);

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Whether this is a forked child that has to leave alone what it was born with.
#[inline]
pub fn is_quiet() -> bool {
    // Relaxed: it was stored by the thread that every other thread here descends from.
    IS_QUIET.load(Ordering::Relaxed)
}

/// A thread that uses what a forked child must not: while this lives, a child goes quiet.
/// Trace points of this thread are counted only.
#[derive(Debug)]
#[must_use = "children notice only as long as it lives"]
pub struct Inside {
    is_for_good: bool,
    _thread: reentry::Inside,
}

/// Enters what a forked child must not; `None` in one that is to leave it alone.
pub fn enter() -> Option<Inside> {
    // No thread goes on before the hook is set, and none waits for another, since a child would wait
    // forever. So threads that come first at once may all set it; called twice, it does the same.
    // Acquire, with the release below: who sees that the hook is set takes locks after that.
    if !IS_WATCHED.load(Ordering::Acquire) {
        process_hooks::in_forked_child(go_quiet);
        IS_WATCHED.store(true, Ordering::Release);
    }
    if is_quiet() {
        return None;
    }
    // Sequentially consistent, so that it comes before any lock that is taken afterwards: a child
    // whose copy of the memory has the lock has this as well.
    REASONS.fetch_add(1, Ordering::SeqCst);
    Some(Inside {
        is_for_good: false,
        _thread: reentry::Inside::enter(),
    })
}

impl Inside {
    /// From now on every child goes quiet: there is a runtime.
    pub fn for_good(mut self) {
        self.is_for_good = true;
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.is_for_good {
            return;
        }
        // Release, so that it comes after the locks were released; a child has the one or the other.
        REASONS.fetch_sub(1, Ordering::Release);
    }
}

/// Called in each child.
extern "C" fn go_quiet() {
    // Relaxed, as the store: the child has one thread.
    if REASONS.load(Ordering::Relaxed) > 0 {
        IS_QUIET.store(true, Ordering::Relaxed);
    }
}
