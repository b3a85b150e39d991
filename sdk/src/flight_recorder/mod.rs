//! Always recording, and a file only when something goes wrong.
//!
//! In Perfetto a configuration of triggers and clones makes a session a flight recorder. Here a type does
//! this one thing. It limits how many files a storm of requests makes (`limiter.rs`). It takes parts out of
//! the ring early enough that the times before and after an event can be longer than the ring lasts
//! (`history.rs`).

mod builder; // what it is to do, and its start
mod error; // what can go wrong
mod request; // what is asked for
mod saving; // what became of it
// From a request to a file.
mod desk; // where all ask
mod limiter; // how often they may
mod keeper; // the thread that takes what is due
mod history; // what was taken
mod saver; // the thread that writes it
mod cut; // as one trace, from a given time on
mod files; // names and number of the files
// Who asks besides the application.
mod running; // panics, triggers, the exit
#[cfg(feature = "signals")]
mod signals; // signals

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use builder::FlightRecorderBuilder;
pub use desk::FlightStats;
pub use error::FlightError;
pub use request::SnapshotRequest;
pub(crate) use running::trigger_hit;
pub use saving::SavingSnapshot;
#[cfg(feature = "signals")]
pub use signals::Signal;

use crate::consumer::{InMemorySession, SessionControl};
use desk::Request;
use running::Running;
use tracezero_core::forked_child;

/// Records into a ring all the time, and writes a file when something goes wrong: when the
/// application asks for a [snapshot](Self::snapshot) or hits a
/// [trigger](FlightRecorderBuilder::add_trigger), and if it is told to, when a thread
/// [panics](FlightRecorderBuilder::snapshot_on_panic) or a signal comes. What led up to it is in the
/// file, and if that is wanted, what came [after](Self::around). Recording goes on meanwhile.
///
/// It takes up one of the 15 places for sessions, and two threads that sleep; what it records costs
/// what it costs in any session.
///
/// Each file is a trace that can be read by itself, and has its name only when it is complete. An
/// instant of the category `flight_recorder` shows when the snapshot was asked for, and by which
/// thread. Many requests do not make many files
/// ([`min_interval`](FlightRecorderBuilder::min_interval)), and many files do not fill the disk
/// ([`limit_files`](FlightRecorderBuilder::limit_files)). Slices that began before the file does have
/// no begin there.
///
/// No thread that records waits for a disk: one thread of the recorder takes what is there, another
/// one writes it. If the disk is slow, four snapshots wait for it; more are refused and counted.
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
/// // .. goes on, and if it wants to know:
/// println!("{}", saving.wait()?.display()); // ../flight-slow_request-20260131T235959Z-77-1.pftrace
/// # drop(recorder);
/// # std::fs::remove_dir_all(&folder).expect("removed");
/// # Ok::<(), tracezero::FlightError>(())
/// ```
///
/// Dropping it ends the recording, when the snapshots that were asked for are saved: those that wait
/// for what comes after their event do so no longer. In a forked child it belongs to the parent:
/// there nothing is saved, and dropping it does nothing.
#[must_use = "it records as long as it lives"]
pub struct FlightRecorder {
    running: Arc<Running>,
    /// `None` once it has ended.
    session: Option<InMemorySession>,
    /// The keeper, then the saver.
    threads: Vec<JoinHandle<()>>,
    #[cfg(feature = "signals")]
    signals: Option<signals::SignalThread>,
}

impl FlightRecorder {
    /// Records everything in this process into a ring of 16 MiB; snapshots go into the current
    /// folder.
    ///
    /// # Errors
    ///
    /// As [`FlightRecorderBuilder::start`].
    pub fn start() -> Result<Self, FlightError> {
        Self::builder().start()
    }

    /// A recorder that is to be told what to do.
    pub fn builder() -> FlightRecorderBuilder {
        FlightRecorderBuilder::new()
    }

    /// A snapshot of what is there now, to be [saved](SnapshotRequest::save_in_background). Its name
    /// says why; it is in the name of the file, and counts for how often there may be one.
    pub fn snapshot(&self, name: &str) -> SnapshotRequest<'_> {
        SnapshotRequest::new(&self.running.desk, name)
    }

    /// A snapshot of what was there so long before this moment, and of what comes so long after it.
    /// While it waits, another one of its name is the same: their events are in one file.
    ///
    /// What came before is put aside at once, and nothing that comes after overwrites it. If more
    /// comes after than the ring holds, the newest of it is in the file, and the trace tells of the
    /// loss.
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

    /// What it has done so far; nothing in a forked child.
    #[must_use]
    pub fn stats(&self) -> FlightStats {
        if forked_child::is_quiet() {
            return FlightStats::default();
        }
        self.running.desk.stats()
    }

    /// What can be done to its recording while it goes on, such as choosing other categories. A
    /// [`SessionControl::snapshot`] has only what came after the recorder's last one.
    ///
    /// # Panics
    ///
    /// Never: there is a recording until the recorder is gone.
    #[must_use]
    pub fn control(&self) -> &SessionControl {
        let session = self.session.as_ref();
        session.expect("it ends when it is dropped").control()
    }

    /// Saves what was asked for, and ends. Returns what was done.
    #[must_use = "failures are counted there"]
    pub fn stop(mut self) -> FlightStats {
        self.end();
        self.stats()
    }

    fn end(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        if forked_child::is_quiet() {
            // Its threads exist in the parent only.
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
        let desk = &self.running.desk;
        if self.running.on_exit {
            // It is waited for below, with all others.
            desk.ask(Request::at_exit());
        }
        desk.stop();
        for thread in self.threads.drain(..) {
            // One that drops the recorder itself, in a callback, ends by itself.
            if !running::is_own_thread() {
                // Panics of the application's callback were caught.
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
