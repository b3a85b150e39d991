//! A lock for tests that cannot run in parallel. They use state that exists once per process:
//! sessions record all threads, and the clock of events, data sources and counts are shared.

use std::sync::{Mutex, MutexGuard, PoisonError};

static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test of the process holds the lock. Returns a guard that holds it.
pub fn alone() -> MutexGuard<'static, ()> {
    // A panic of another test does not matter to this one.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
