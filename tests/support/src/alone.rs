//! One test at a time, for what a process has once: sessions record all of its threads; the clock of events,
//! data sources and counts are the same for all of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test of the process is alone. The caller is until it drops what it gets.
pub fn alone() -> MutexGuard<'static, ()> {
    // A failure of another test says nothing about this one.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
