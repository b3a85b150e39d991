//! A snapshot that is asked for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::desk::{Desk, Request};
use super::error::FlightError;
use super::saving::SavingSnapshot;
use tracezero_track_event::Track;

/// A snapshot of a [`FlightRecorder`](crate::FlightRecorder), before it is saved.
#[must_use = "nothing is saved yet"]
pub struct SnapshotRequest<'r> {
    desk: &'r Desk,
    request: Request,
}

impl<'r> SnapshotRequest<'r> {
    pub(super) fn new(desk: &'r Desk, name: &str) -> Self {
        Self {
            desk,
            request: Request::new(name),
        }
    }

    /// Goes back so far, and about a second further at most. That much is there only if the ring is
    /// large enough for it.
    pub fn before(mut self, before: Duration) -> Self {
        self.request.before = Some(before);
        self
    }

    /// Waits so long, and holds what comes meanwhile as well.
    pub fn after(mut self, after: Duration) -> Self {
        self.request.after = after;
        self
    }

    /// Writes this file, which is created, or replaced if it exists, instead of one in the
    /// recorder's folder. A pipe or a device is written into. Neither the interval between snapshots
    /// nor the number of files counts for it. A file that a session writes into is left alone:
    /// [`FlightError::FileInUse`](crate::FlightError::FileInUse).
    pub fn to_file(mut self, path: impl AsRef<Path>) -> Self {
        self.request.path = Some(path.as_ref().to_owned());
        self
    }

    /// Has the snapshot taken and written by the threads of the recorder. This one goes on at once.
    #[expect(
        clippy::must_use_candidate,
        reason = "most want the file, and nothing else"
    )]
    pub fn save_in_background(self) -> SavingSnapshot {
        let track = Some(Track::current_thread());
        let request = Request {
            track,
            ..self.request
        };
        self.desk.ask(request).into()
    }

    /// Saves the snapshot, and waits for that.
    ///
    /// # Errors
    ///
    /// As [`SavingSnapshot::wait`].
    pub fn save(self) -> Result<PathBuf, FlightError> {
        self.save_in_background().wait()
    }
}

impl fmt::Debug for SnapshotRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotRequest")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
