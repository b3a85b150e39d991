//! A handle to a snapshot that is being saved.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::error::FlightError;
use crate::error::Error;
use tracezero_core::forked_child;

/// A handle to a snapshot that is being saved in the background. Dropping the handle changes
/// nothing: [`FlightRecorder::stats`](crate::FlightRecorder::stats) still counts a failure.
#[derive(Clone)]
pub struct SavingSnapshot(Arc<Saving>);

#[derive(Default)]
struct Saving {
    outcome: Mutex<Option<Result<PathBuf, FlightError>>>,
    is_finished: Condvar,
}

impl SavingSnapshot {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Creates a handle to a snapshot that has failed already.
    pub(super) fn failed(error: FlightError) -> Self {
        let saving = Self::new();
        saving.finish(Err(error));
        saving
    }

    /// Sets the outcome, unless one is set already, and wakes all waiting threads.
    pub(super) fn finish(&self, outcome: Result<PathBuf, FlightError>) {
        self.0.outcome.lock().get_or_insert(outcome);
        self.0.is_finished.notify_all();
    }

    /// Returns whether both handles belong to the same file.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns true if the file is complete or saving has failed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        !forked_child::is_disabled() && self.0.outcome.lock().is_some()
    }

    /// Waits until the file is complete, and returns its path.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, if there was a snapshot with this name a moment ago, if too
    /// many snapshots wait to be written, if the recorder has stopped, or if this is a forked
    /// child.
    pub fn wait(&self) -> Result<PathBuf, FlightError> {
        if forked_child::is_disabled() {
            return Err(Error::ForkedChild.into());
        }
        let mut outcome = self.0.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            self.0.is_finished.wait(&mut outcome);
        }
    }

    /// Waits like [`wait`](Self::wait), but at most for `timeout`. Returns `None` if the snapshot
    /// is not finished by then.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> Option<Result<PathBuf, FlightError>> {
        self.wait_until(Instant::now().checked_add(timeout)?)
    }

    pub(super) fn wait_until(&self, deadline: Instant) -> Option<Result<PathBuf, FlightError>> {
        if forked_child::is_disabled() {
            return Some(Err(Error::ForkedChild.into()));
        }
        let mut outcome = self.0.outcome.try_lock_until(deadline)?;
        while outcome.is_none() {
            if self
                .0
                .is_finished
                .wait_until(&mut outcome, deadline)
                .timed_out()
            {
                break;
            }
        }
        outcome.clone()
    }
}

/// A guard of the side that saves the snapshot. If it is dropped without an outcome, waiting
/// threads get [`FlightError::Stopped`].
#[derive(Debug)]
pub(super) struct SavingGuard(SavingSnapshot);

impl SavingGuard {
    pub(super) fn new() -> Self {
        Self(SavingSnapshot::new())
    }
}

impl Deref for SavingGuard {
    type Target = SavingSnapshot;

    fn deref(&self) -> &SavingSnapshot {
        &self.0
    }
}

impl Drop for SavingGuard {
    fn drop(&mut self) {
        self.0.finish(Err(FlightError::Stopped));
    }
}

impl fmt::Debug for SavingSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavingSnapshot")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
