//! A request for a snapshot, before it is submitted.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::error::FlightError;
use super::request_queue::{Request, RequestQueue};
use super::saving::SavingSnapshot;
use tracezero_track_event::Track;

/// A request for a snapshot of a [`FlightRecorder`](crate::FlightRecorder), which is not saved yet.
///
/// ```
/// use std::time::Duration;
///
/// use tracezero::{FlightRecorder, instant};
///
/// # let folder = std::env::temp_dir().join(format!("tracezero-request-{}", std::process::id()));
/// let recorder = FlightRecorder::builder().directory(&folder).start()?;
/// instant!("app", "something slow");
/// let path = recorder
///     .snapshot("slow request")
///     .before(Duration::from_secs(5))
///     .after(Duration::from_millis(1))
///     .save()?;
/// assert!(path.exists());
/// # drop(recorder);
/// # std::fs::remove_dir_all(&folder).expect("removed");
/// # Ok::<(), tracezero::FlightError>(())
/// ```
#[must_use = "nothing is saved until a method such as `save_in_background` is called"]
pub struct SnapshotRequest<'r> {
    queue: &'r RequestQueue,
    request: Request,
}

impl<'r> SnapshotRequest<'r> {
    pub(super) fn new(queue: &'r RequestQueue, name: &str) -> Self {
        Self {
            queue,
            request: Request::new(name),
        }
    }

    /// Sets how far back the snapshot goes. It holds up to about a second more. It holds less if
    /// the ring is too small for that time.
    pub fn before(mut self, before: Duration) -> Self {
        self.request.before = Some(before);
        self
    }

    /// Sets how long to wait before the snapshot is taken. It then contains what is recorded
    /// meanwhile.
    pub fn after(mut self, after: Duration) -> Self {
        self.request.after = after;
        self
    }

    /// Sets the path of the file, which is created, or replaced if it exists. By default the file
    /// is in the recorder's directory. If the path is that of a pipe or a device, the snapshot is
    /// written to it. The interval between snapshots and the limit on files do not apply to this
    /// snapshot. A file to which a session writes is left as it is, and saving fails with
    /// [`FlightError::FileInUse`](crate::FlightError::FileInUse).
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.request.path = Some(path.into());
        self
    }

    /// Submits the request and returns at once. Threads of the recorder take the snapshot and write
    /// it.
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
        self.queue.submit(request).into()
    }

    /// Saves the snapshot and waits until the file is complete. Returns the path of the file.
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
