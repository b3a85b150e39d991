//! Operations on a running session.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::oneshot::oneshot;
use super::snapshot::{Snapshot, write_snapshot};
use super::trigger_callback::TriggerCallback;
use crate::config::{TraceConfig, TrackEventConfig};
use crate::error::Error;
use crate::runtime::Runtime;
use tracezero_core::commit::RingProgress;
use tracezero_core::coordination::FlushFlags;
use tracezero_core::crash_files::PartFile;
use tracezero_core::ids::SessionId;
use tracezero_service::{CentralBuffer, FlushOutcome, SessionState, TraceStats};
use tracezero_track_event::TRACK_EVENT;

/// A handle that controls a running session, either a [`Session`](crate::Session) or an
/// [`InMemorySession`](crate::InMemorySession). It can be cloned and sent to other threads. It does
/// not keep the session alive: its methods have no effect after the session has finished, or in a
/// forked child.
///
/// ```
/// use std::time::Duration;
///
/// use tracezero::{SessionState, TraceConfig, instant};
///
/// let session = TraceConfig::default().deferred_start().record_in_memory()?;
/// let control = session.control().clone();
/// assert_eq!(control.state(), SessionState::Configured);
/// instant!("app", "too early");
///
/// std::thread::spawn(move || {
///     control.start();
///     instant!("app", "recorded");
///     control.stop();
/// });
/// assert!(session.control().wait(Duration::from_secs(10)));
/// instant!("app", "too late");
/// assert_eq!(session.finish().1.events, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone)]
pub struct SessionControl {
    runtime: &'static Runtime,
    id: SessionId,
    on_trigger: Arc<TriggerCallback>,
}

/// The number of bytes written to a buffer, and the size of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferFill {
    pub(crate) written_bytes: u64,
    pub(crate) size_bytes: u64,
}

impl SessionControl {
    pub(super) fn new(
        runtime: &'static Runtime,
        id: SessionId,
        on_trigger: Arc<TriggerCallback>,
    ) -> Self {
        Self {
            runtime,
            id,
            on_trigger,
        }
    }

    /// Starts a session that was configured with [`deferred_start`](TraceConfig::deferred_start).
    pub fn start(&self) {
        if let Ok(runtime) = self.runtime.here() {
            runtime.service().start(self.id);
        }
    }

    /// Stops recording. The session's `finish` still returns what was recorded.
    pub fn stop(&self) {
        if let Ok(runtime) = self.runtime.here() {
            runtime.service().flush_and_disable(self.id);
        }
    }

    /// Returns the state of the session.
    #[must_use]
    pub fn state(&self) -> SessionState {
        let here = self.runtime.here().ok();
        let state = here.and_then(|runtime| runtime.service().state(self.id));
        state.map_or(SessionState::Ended, SessionState::of)
    }

    /// Returns the reason why the session ended by itself: another session was exclusive, or the
    /// file could not be written. Returns `None` if the application ended the session.
    #[must_use]
    pub fn end_reason(&self) -> Option<String> {
        self.runtime.here().ok()?.service().end_reason(self.id)
    }

    /// Waits until the session is over, at most for `timeout`, and returns whether the session is
    /// over. A session is over when its duration has passed, a trigger ended it, or somebody
    /// stopped it.
    #[must_use = "the result tells whether the session is over"]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.runtime.here().map_or(true, |runtime| {
            runtime.service().wait_until_disabled(self.id, timeout)
        })
    }

    /// Asks data sources to flush, and collects the finished packets of chunks that threads still
    /// use. Returns whether all data sources answered within the flush timeout of the
    /// configuration.
    #[must_use = "the result tells whether all data sources answered"]
    pub fn flush(&self) -> bool {
        let Ok(runtime) = self.runtime.here() else {
            return false;
        };
        let (sender, receiver) = oneshot();
        let done = move |outcome| sender.send(outcome);
        runtime
            .service()
            .flush(self.id, 0, FlushFlags::explicit(), done);
        // The service always answers, even if the session ends or no longer exists.
        receiver.wait() == Some(FlushOutcome::Succeeded)
    }

    /// Returns the current statistics of the session. They are empty after the session has
    /// finished.
    #[must_use]
    pub fn stats(&self) -> TraceStats {
        let here = self.runtime.here().ok();
        here.and_then(|runtime| runtime.service().stats(self.id))
            .unwrap_or_default()
    }

    /// Takes a snapshot: a copy of everything in the buffers, as a trace of its own. Recording
    /// continues.
    ///
    /// # Errors
    ///
    /// If the session has finished, if there is no memory for a copy of its buffers, or if the
    /// session streams into a file. For a session with a file, use
    /// [`save_snapshot`](Self::save_snapshot).
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::of(self.runtime.here()?, self.id, None)
    }

    /// Writes a snapshot into the file at `path`, which is created, or replaced if it exists. The
    /// snapshot holds everything in the session's buffers and, if the session streams into a file,
    /// in that file. Recording continues.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot), and if one of the files cannot be read or written, or a
    /// session writes to the file at `path`.
    pub fn save_snapshot(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        write_snapshot(self.runtime.here()?, self.id, path.as_ref())
    }

    /// Calls `save` with a snapshot whenever a trigger asks for a snapshot. Each call runs on a
    /// thread of its own. The configuration names the triggers: see
    /// [`TriggerMode::CloneSnapshot`](crate::TriggerMode::CloneSnapshot).
    pub fn on_trigger(&self, save: impl Fn(Result<Snapshot, Error>) + Send + Sync + 'static) {
        if self.runtime.here().is_ok() {
            self.on_trigger.set(Arc::new(save));
        }
    }

    /// Replaces the producer filters of the session's data sources by those of `config`. Producers
    /// that match a new filter join the session. Producers that record already stay in it.
    ///
    /// Also passes on the fields of each data source that are meant for the data source itself, if
    /// they have changed. Of the data sources of this process, only `track_event` applies them: it
    /// changes its categories. All other fields of `config` are ignored.
    ///
    /// Does nothing if the session has ended.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid, or this process is a forked child.
    pub fn change_filters(&self, config: TraceConfig) -> Result<(), Error> {
        let recording = Arc::new(config.recording()?);
        self.runtime
            .here()?
            .service()
            .change_config(self.id, recording);
        Ok(())
    }

    /// Changes which categories of track events the session records. The choice applies to all
    /// entries for `track_event` in the session's configuration. When this returns, events of newly
    /// enabled categories are recorded, and events of newly disabled ones are not.
    ///
    /// A span follows the choice at its begin. A span that began while its category was on also
    /// ends in the trace, and a span that began while it was off does not appear. So slices stay
    /// balanced. [`begin!`](crate::begin) and [`end!`](crate::end) are separate events: each is
    /// recorded if its category is on at that time.
    ///
    /// Only the patterns for categories and tags are used. How events are written, such as the unit
    /// of their timestamps, stays as it was at the session's start. The configuration in the trace
    /// does not change either.
    ///
    /// ```
    /// use tracezero::{InMemorySession, TrackEventConfig, instant};
    ///
    /// let session = InMemorySession::start()?;
    /// for choice in [
    ///     TrackEventConfig::new().disable("io"),
    ///     TrackEventConfig::new(),
    /// ] {
    ///     session.control().choose_categories(&choice)?;
    ///     instant!("io", "read"); // recorded the second time
    ///     instant!("app", "step"); // recorded both times
    /// }
    /// assert_eq!(session.finish().1.events, 3);
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a pattern has a `*` anywhere but at its end, or this process is a forked child. Then nothing
    /// changes.
    pub fn choose_categories(&self, choice: &TrackEventConfig) -> Result<(), Error> {
        let config = choice.to_checked_config()?;
        let service = self.runtime.here()?.service();
        service.change_data_source(self.id, TRACK_EVENT.state().name(), config.into());
        Ok(())
    }

    /// Reads the packets that were recorded since the last call, as a trace of its own. The trace
    /// is empty for a session that streams into a file, and in a forked child. If the session has
    /// crash files, the trace is in one of them, too, as long as the second result exists.
    pub(crate) fn read_part(&self) -> (Vec<u8>, Option<PartFile>) {
        let mut trace = Vec::new();
        let Ok(runtime) = self.runtime.here() else {
            return (trace, None);
        };
        // Packets of a data source that does not answer in time may be missing.
        let _ = self.flush();
        let service = runtime.service();
        service.read_part(self.id, &mut trace);
        for buffer in service.buffers(self.id) {
            // Makes sequences clear their incremental state soon. The next part can then be read
            // without this part.
            buffer.progress.advance(RingProgress::QUARTER);
        }
        // Without the file, a recovery finds these packets in the ring, until it overwrites them.
        let crash_files = service.crash_files(self.id);
        let crash_file = crash_files.and_then(|folder| folder.add_part(&trace).ok());
        (trace, crash_file)
    }

    /// Returns the bytes written to each buffer so far, and the size of each.
    pub(crate) fn buffer_fill(&self) -> Vec<BufferFill> {
        let fill = |buffer: &Arc<CentralBuffer>| {
            buffer.with(|buffer| BufferFill {
                written_bytes: buffer.stats().bytes_written,
                size_bytes: buffer.stats().buffer_size,
            })
        };
        self.runtime.here().map_or_else(
            |_| Vec::new(),
            |runtime| {
                runtime
                    .service()
                    .buffers(self.id)
                    .iter()
                    .map(fill)
                    .collect()
            },
        )
    }

    pub(super) fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }
}

impl fmt::Debug for SessionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionControl")
            .field("id", &self.id)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
