//! Flight recorders: they always record, and write a file only when something goes wrong.
//!
//! In Perfetto, a flight recorder is a session whose configuration has triggers that clone it.
//! Here, it is a type of its own. It limits the number of files if there are very many requests
//! (`limiter.rs`). It takes parts out of the ring early, so the times before and after an event can
//! be longer together than the ring covers (`history.rs`).

mod builder; // settings, and the start
mod error; // errors
mod request; // a snapshot before it is saved
mod saving; // a snapshot that is being saved
// From a request to a file.
mod request_queue; // the queue of requests
mod limiter; // limits how often snapshots are taken
mod collector; // the thread that takes parts out of the buffers
mod history; // the parts that were taken
mod saver; // the thread that writes files
mod cut; // joins parts into one trace from a given time on
mod files; // the files
// Other sources of requests.
mod running; // panics, triggers, the exit
#[cfg(feature = "signals")]
mod signals; // signals

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use builder::FlightRecorderBuilder;
pub use error::FlightError;
pub use request::SnapshotRequest;
pub use request_queue::FlightStats;
pub(crate) use running::trigger_hit;
pub use saving::SavingSnapshot;
#[cfg(feature = "signals")]
pub use signals::Signal;

use crate::consumer::{InMemorySession, SessionControl};
use request_queue::Request;
use running::RunningRecorder;
use tracezero_core::forked_child;

/// Records into a ring all the time, and writes a file when something goes wrong. It writes a file
/// when the application asks for a [snapshot](Self::snapshot) or activates a
/// [trigger](FlightRecorderBuilder::add_trigger) and, if configured, when a thread
/// [panics](FlightRecorderBuilder::snapshot_on_panic) or a signal arrives. The file contains what
/// led up to the event and, if wanted, what came [after it](Self::around). Recording continues
/// meanwhile.
///
/// A flight recorder is one of the 15 sessions that a process can have, and has two threads that
/// usually sleep. Recording costs as much as in any session.
///
/// Each file is a complete trace by itself, and gets its name only when it is complete. An instant
/// of the category `flight_recorder` shows when the snapshot was requested, and by which thread.
/// Many requests do not make many files ([`min_interval`](FlightRecorderBuilder::min_interval)),
/// and many files do not fill the disk ([`max_files`](FlightRecorderBuilder::max_files),
/// [`total_bytes`](FlightRecorderBuilder::total_bytes)). If a slice began before the first event of
/// the file, its begin is missing.
///
/// No thread that records waits for a disk: one thread of the recorder reads the ring, another one
/// writes files. If the disk is slow, up to four snapshots wait until they can be written. Further
/// snapshots fail and are counted.
///
/// ```
/// use std::time::Duration;
/// use tracezero::{FlightRecorder, instant};
///
/// # let folder = std::env::temp_dir().join(format!("tracezero-flight-{}", std::process::id()));
/// let recorder = FlightRecorder::builder()
///     .keep(Duration::from_secs(30))
///     .directory(&folder)
///     .snapshot_on_panic()
///     .start()?;
///
/// instant!("app", "something slow");
/// let saving = recorder.snapshot("slow request").save_in_background();
/// // The application goes on. If it wants to know the file:
/// println!("{}", saving.wait()?.display()); // ../flight-slow_request-20260131T235959Z-77-1.pftrace
/// # drop(recorder);
/// # std::fs::remove_dir_all(&folder).expect("removed");
/// # Ok::<(), tracezero::FlightError>(())
/// ```
///
/// Dropping the recorder saves all requested snapshots and ends the recording. Snapshots that wait
/// for the time after their request are saved at once. In a forked child the recorder belongs to
/// the parent: nothing is saved there, and dropping it does nothing.
#[must_use = "the recorder stops when it is dropped"]
pub struct FlightRecorder {
    running: Arc<RunningRecorder>,
    /// `None` after the recorder has ended.
    session: Option<InMemorySession>,
    /// The thread of the collector, then the thread of the saver.
    threads: Vec<JoinHandle<()>>,
    #[cfg(feature = "signals")]
    signals: Option<signals::SignalThread>,
}

impl FlightRecorder {
    /// Records everything in this process into a ring of 16 MiB. Snapshots are written to the
    /// current directory.
    ///
    /// # Errors
    ///
    /// As [`FlightRecorderBuilder::start`].
    pub fn start() -> Result<Self, FlightError> {
        Self::builder().start()
    }

    /// Returns a builder with default settings.
    pub fn builder() -> FlightRecorderBuilder {
        FlightRecorderBuilder::new()
    }

    /// Creates a request for a snapshot of everything recorded so far, to be
    /// [saved](SnapshotRequest::save_in_background). Its name states the reason. The name is part
    /// of the file's name, and the time between two snapshots is limited per name.
    pub fn snapshot(&self, name: &str) -> SnapshotRequest<'_> {
        SnapshotRequest::new(&self.running.queue, name)
    }

    /// Creates a request for a snapshot of the time `before` this moment, and of the time `after`
    /// it. Until the snapshot is taken, further requests with the same name join it: one file then
    /// has the events for all these requests.
    ///
    /// The events before this moment are put aside at once, so later events cannot overwrite them.
    /// If more is recorded after this moment than the ring holds, the file contains only the newest
    /// of these events, and the trace shows the loss.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tracezero::{FlightRecorder, instant};
    ///
    /// # let folder = std::env::temp_dir().join(format!("tracezero-around-{}", std::process::id()));
    /// let recorder = FlightRecorder::builder().directory(&folder).start()?;
    /// instant!("app", "before");
    /// let saving = recorder
    ///     .around("slow request", Duration::from_secs(10), Duration::from_millis(50))
    ///     .save_in_background();
    /// instant!("app", "after"); // in the file, too
    /// println!("{}", saving.wait()?.display());
    /// # drop(recorder);
    /// # std::fs::remove_dir_all(&folder).expect("removed");
    /// # Ok::<(), tracezero::FlightError>(())
    /// ```
    pub fn around(&self, name: &str, before: Duration, after: Duration) -> SnapshotRequest<'_> {
        self.snapshot(name).before(before).after(after)
    }

    /// Returns statistics of the recorder; they are empty in a forked child.
    #[must_use]
    pub fn stats(&self) -> FlightStats {
        if forked_child::is_disabled() {
            return FlightStats::default();
        }
        self.running.queue.stats()
    }

    /// Returns the control of the recorder's session, for instance to change categories. A
    /// [`SessionControl::snapshot`] contains only what was recorded after the recorder's last
    /// snapshot.
    ///
    /// # Panics
    ///
    /// Never: the session lives as long as the recorder.
    #[must_use]
    pub fn control(&self) -> &SessionControl {
        let session = self.session.as_ref();
        session.expect("it ends when it is dropped").control()
    }

    /// Saves all requested snapshots and ends the recorder. Returns its statistics.
    #[must_use = "the statistics count snapshots that could not be saved"]
    pub fn stop(mut self) -> FlightStats {
        self.end();
        self.stats()
    }

    fn end(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        if forked_child::is_disabled() {
            // The recorder's threads exist only in the parent.
            mem::forget(mem::take(&mut self.threads));
            #[cfg(feature = "signals")]
            mem::forget(self.signals.take());
            return;
        }
        running::remove(&self.running);
        #[cfg(feature = "signals")]
        if let Some(signals) = self.signals.take() {
            signals.stop();
        }
        let queue = &self.running.queue;
        if self.running.on_exit {
            // Joining the threads below waits for this request, too.
            queue.submit(Request::at_exit());
        }
        queue.stop();
        for thread in self.threads.drain(..) {
            // A thread of the recorder that drops the recorder, in a callback, cannot join itself.
            // It ends by itself.
            if !running::is_own_thread() {
                // Panics in the application's callback were caught.
                let _ = thread.join();
            }
        }
        drop(session);
    }
}

impl Drop for FlightRecorder {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for FlightRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightRecorder")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
