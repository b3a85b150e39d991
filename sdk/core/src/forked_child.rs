//! A child process that was forked off a process that traces is *quiet*: it never traces.
//!
//! The child has only one thread, the one that called `fork`, and a copy of the parent's memory.
//! The copy contains locks that other threads held, which stay locked for ever. It also contains
//! the parent's trace writers, sessions and open files. So the child does not touch any of them. It
//! locks, commits, writes and closes nothing; its trace points record nothing; objects of the
//! tracer that it drops are leaked. Memory that it would share with the parent becomes private, and
//! connections to daemons are closed. If the child executes another program, that program traces
//! normally.
//!
//! A process that has not traced yet can fork: its children can start sessions of their own.
//! Perfetto's own SDK does not support forks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub use crate::fork_guard::ClosedInChild;

use crate::fork_guard;
use crate::process_hooks;
use crate::reentry;

/// True once the hook that the C library calls at a fork is set.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// The number of reasons why a child forked now would become quiet: threads that may hold a lock,
/// and the runtime.
static REASONS: AtomicUsize = AtomicUsize::new(0);

/// True in a quiet child.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Returns whether this process is a quiet child.
#[inline]
pub fn is_disabled() -> bool {
    // Relaxed: the child's first thread stored the value, before it started any other thread.
    IS_QUIET.load(Ordering::Relaxed)
}

/// A guard of a thread that uses objects which a forked child must not use. A child that is forked
/// while a guard exists is quiet. As long as the guard exists, trace points of this thread record
/// nothing and are only counted.
#[derive(Debug)]
#[must_use = "forked children are quiet only while this guard lives"]
pub struct ForkGuard {
    is_for_good: bool,
    _thread: reentry::TracerGuard,
}

/// Creates a guard for this thread, before it uses locks or other objects that a forked child must
/// not use. Returns `None` in a quiet child, which must not use these objects.
pub fn enter() -> Option<ForkGuard> {
    // No thread goes on before the hook is set. No thread waits here until another one has set the
    // hook: a child forked meanwhile lacks the other thread, and would wait for ever. So, if
    // several threads call this at the same time before the hook is set, each sets it; calling the
    // hook twice does no harm. Acquire pairs with the release below: a thread that sees true takes
    // locks only after the hook is set.
    if !IS_WATCHED.load(Ordering::Acquire) {
        process_hooks::in_forked_child(go_quiet);
        IS_WATCHED.store(true, Ordering::Release);
    }
    if is_disabled() {
        return None;
    }
    // Sequentially consistent, so that the increment comes before any lock that is taken
    // afterwards: if a child's copy of the memory has the lock, it has the increment, too.
    REASONS.fetch_add(1, Ordering::SeqCst);
    Some(ForkGuard {
        is_for_good: false,
        _thread: reentry::TracerGuard::enter(),
    })
}

impl ForkGuard {
    /// Makes every child forked from now on quiet, because the process has a runtime.
    pub fn make_permanent(mut self) {
        self.is_for_good = true;
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        if self.is_for_good {
            return;
        }
        // Release, so that the decrement comes after the locks were released: a child's copy of the
        // memory has the locks released, or does not have the decrement.
        REASONS.fetch_sub(1, Ordering::Release);
    }
}

/// Makes a child quiet if there is a reason. The hook that runs in each child.
extern "C" fn go_quiet() {
    // Relaxed, like the store: the child has one thread.
    if REASONS.load(Ordering::Relaxed) > 0 {
        IS_QUIET.store(true, Ordering::Relaxed);
        fork_guard::replace_mappings();
        fork_guard::close_descriptors();
    }
}
