//! What can be done to a session while it goes on.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::answer::answer;
use super::snapshot::{Snapshot, write_snapshot};
use super::trigger_callback::TriggerCallback;
use crate::config::{TraceConfig, TrackEventConfig};
use crate::error::Error;
use crate::runtime::Runtime;
use tracezero_core::commit::RingProgress;
use tracezero_core::coordination::FlushFlags;
use tracezero_core::ids::SessionId;
use tracezero_service::{CentralBuffer, FlushOutcome, SessionState, TraceStats};
use tracezero_track_event::TRACK_EVENT;

/// A handle to a session of either kind, for as many threads as want one. It does not keep the
/// session alive: once that has finished, nothing here has an effect, and neither has it in a forked
/// child.
#[derive(Clone)]
pub struct SessionControl {
    runtime: &'static Runtime,
    id: SessionId,
    on_trigger: Arc<TriggerCallback>,
}

/// How much a buffer has taken.
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

    /// Starts a session whose configuration says
    /// [`deferred_start`](TraceConfig::deferred_start).
    pub fn start(&self) {
        if let Ok(runtime) = self.runtime.here() {
            runtime.service().start(self.id);
        }
    }

    /// Stops recording. What was recorded waits for the session's `finish`.
    pub fn stop(&self) {
        if let Ok(runtime) = self.runtime.here() {
            runtime.service().flush_and_disable(self.id);
        }
    }

    /// Where the session is in its life.
    #[must_use]
    pub fn state(&self) -> SessionState {
        let here = self.runtime.here().ok();
        let state = here.and_then(|runtime| runtime.service().state(self.id));
        state.map_or(SessionState::Ended, SessionState::from)
    }

    /// Why the session ended, if nobody asked it to: another one was exclusive, or its file could
    /// not be written.
    #[must_use]
    pub fn end_reason(&self) -> Option<String> {
        self.runtime.here().ok()?.service().end_reason(self.id)
    }

    /// Waits until the session is over, because its time is up, a trigger ended it, or somebody
    /// stopped it; at most for `timeout`. Returns whether it is over.
    #[must_use = "tells whether the time was enough"]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.runtime.here().map_or(true, |runtime| {
            runtime.service().wait_until_disabled(self.id, timeout)
        })
    }

    /// Has data sources hand over what they hold, and takes what threads have finished in their
    /// chunks. Returns whether all data sources did within the flush timeout of the configuration.
    #[must_use = "tells whether all data sources answered"]
    pub fn flush(&self) -> bool {
        let Ok(runtime) = self.runtime.here() else {
            return false;
        };
        let (answer, asked) = answer();
        let done = move |outcome| answer.give(outcome);
        runtime
            .service()
            .flush(self.id, 0, FlushFlags::explicit(), done);
        // There is an answer to everybody, also if the session ends or is no more.
        asked.wait() == Some(FlushOutcome::Succeeded)
    }

    /// Statistics as they are now; empty ones once the session has finished.
    #[must_use]
    pub fn stats(&self) -> TraceStats {
        let here = self.runtime.here().ok();
        here.and_then(|runtime| runtime.service().stats(self.id))
            .unwrap_or_default()
    }

    /// Takes a snapshot: all that is in the buffers now, as a trace of its own. Recording goes on.
    ///
    /// # Errors
    ///
    /// If the session has finished, or there is no memory for a copy of its buffers. If it writes
    /// into a file, which only [`snapshot_to`](Self::snapshot_to) can follow.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::of(self.runtime.here()?, self.id, None)
    }

    /// Writes a snapshot into the file at `path`, which is created, or replaced if it exists: all
    /// that is in the file of the session, if it has one, and in its buffers. Recording goes on.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot), and if one of the files cannot be read or written, or a
    /// session writes into that at `path`.
    pub fn snapshot_to(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        write_snapshot(self.runtime.here()?, self.id, path.as_ref())
    }

    /// Has `save` called with a snapshot whenever a trigger asks for one, on a thread of its own.
    /// The configuration names the triggers: see
    /// [`TriggerMode::CloneSnapshot`](crate::TriggerMode::CloneSnapshot).
    pub fn on_trigger(&self, save: impl Fn(Result<Snapshot, Error>) + Send + Sync + 'static) {
        if self.runtime.here().is_ok() {
            self.on_trigger.set(Arc::new(save));
        }
    }

    /// Takes over the producer filters of `config`; whatever else differs has no effect.
    ///
    /// # Errors
    ///
    /// If the configuration contradicts itself.
    pub fn change_filters(&self, config: TraceConfig) -> Result<(), Error> {
        let recording = Arc::new(config.recording()?);
        self.runtime
            .here()?
            .service()
            .change_config(self.id, recording);
        Ok(())
    }

    /// Chooses other categories of track events, in place of those that the session records now.
    /// When this returns, events of categories that were off are recorded, and events of those that
    /// are off now are not, in all entries that the session has for `track_event`.
    ///
    /// A span belongs to the moment of its begin: one that began while its category was on also
    /// ends in the trace, and one that began while it was off does not. So slices stay balanced.
    /// [`begin!`](crate::begin) and [`end!`](crate::end) are two events, and each is recorded if its
    /// category is on at its time.
    ///
    /// Only the choice of categories and tags is taken over. How events are written, such as the
    /// unit of their timestamps, stays as the session began; so does the configuration in the
    /// trace.
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
    /// If a pattern has a `*` that is not its end. Nothing changes then.
    pub fn choose_categories(&self, choice: &TrackEventConfig) -> Result<(), Error> {
        let config = choice.to_checked_config()?;
        let service = self.runtime.service();
        service.change_data_source(self.id, TRACK_EVENT.state().name(), config.into());
        Ok(())
    }

    /// Reads what came since this was done last, as a trace of its own. Nothing of a session that
    /// writes into a file, and in a forked child.
    pub(crate) fn read_part(&self) -> Vec<u8> {
        let mut trace = Vec::new();
        let Ok(runtime) = self.runtime.here() else {
            return trace;
        };
        // Who does not answer in time has less in it.
        let _ = self.flush();
        let service = runtime.service();
        service.read_part(self.id, &mut trace);
        for buffer in service.buffers(self.id) {
            // What comes next is to be read without what is read now, before long.
            buffer.progress.advance(RingProgress::QUARTER);
        }
        trace
    }

    /// Bytes that each buffer has taken so far, and how many it holds.
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
