//! A snapshot on its way into a file, as whoever asked for it sees it.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::error::FlightError;
use crate::error::Error;
use tracezero_core::forked_child;

/// A snapshot that is being saved, in the background. Whoever does not want to know drops it: that
/// changes nothing, and [`FlightRecorder::stats`](crate::FlightRecorder::stats) counts failures.
#[derive(Clone)]
pub struct SavingSnapshot(Arc<Saving>);

#[derive(Default)]
struct Saving {
    outcome: Mutex<Option<Result<PathBuf, FlightError>>>,
    is_over: Condvar,
}

impl SavingSnapshot {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// One that is over before it began.
    pub(super) fn failed(error: FlightError) -> Self {
        let saving = Self::new();
        saving.finish(Err(error));
        saving
    }

    /// The first outcome counts.
    pub(super) fn finish(&self, outcome: Result<PathBuf, FlightError>) {
        self.0.outcome.lock().get_or_insert(outcome);
        self.0.is_over.notify_all();
    }

    /// Whether two wait for the same file.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the file is complete, or cannot be.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !forked_child::is_quiet() && self.0.outcome.lock().is_some()
    }

    /// Waits until the file is complete; returns where it is.
    ///
    /// # Errors
    ///
    /// If it cannot be written, if there was a snapshot of this name a moment ago, if too many wait
    /// to be written, if the recorder has stopped. If this is a forked child.
    pub fn wait(&self) -> Result<PathBuf, FlightError> {
        if forked_child::is_quiet() {
            return Err(Error::ForkedChild.into());
        }
        let mut outcome = self.0.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            self.0.is_over.wait(&mut outcome);
        }
    }

    /// Waits as [`wait`](Self::wait) does, at most for `timeout`; `None` if that is not enough.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> Option<Result<PathBuf, FlightError>> {
        self.wait_until(Instant::now().checked_add(timeout)?)
    }

    pub(super) fn wait_until(&self, deadline: Instant) -> Option<Result<PathBuf, FlightError>> {
        if forked_child::is_quiet() {
            return Some(Err(Error::ForkedChild.into()));
        }
        let mut outcome = self.0.outcome.try_lock_until(deadline)?;
        while outcome.is_none() {
            if self
                .0
                .is_over
                .wait_until(&mut outcome, deadline)
                .timed_out()
            {
                break;
            }
        }
        outcome.clone()
    }
}

/// The duty to save a snapshot. Should it be dropped before that is done or has failed, nobody waits
/// for it any more.
#[derive(Debug)]
pub(super) struct Pledge(SavingSnapshot);

impl Pledge {
    pub(super) fn new() -> Self {
        Self(SavingSnapshot::new())
    }
}

impl Deref for Pledge {
    type Target = SavingSnapshot;

    fn deref(&self) -> &SavingSnapshot {
        &self.0
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        self.0.finish(Err(FlightError::Stopped));
    }
}

impl fmt::Debug for SavingSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavingSnapshot")
            .field("is_over", &self.is_over())
            .finish_non_exhaustive()
    }
}
