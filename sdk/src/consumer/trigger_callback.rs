//! Triggers: what an application hits, and what it does when one asks for a snapshot.

use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use super::snapshot::Snapshot;
use crate::error::Error;
use crate::flight_recorder;
use crate::ids::SessionId;
use crate::producer;
use crate::runtime::Runtime;
use crate::service::ReceivedTrigger;

/// Hits the trigger of this name: every session of this process that waits for it takes it, and
/// starts, ends, or has a snapshot taken, as its configuration says; so does every
/// [`FlightRecorder`](crate::FlightRecorder) that [waits](crate::FlightRecorderBuilder::trigger) for
/// it.
///
/// ```
/// use tracezero::{BufferConfig, Trigger, TriggerConfig, TriggerMode};
/// use tracezero::{TraceConfig, activate_trigger, instant};
///
/// let session = TraceConfig::new()
///     .buffer(BufferConfig::ring(1024))
///     .record_all()
///     .triggers(
///         TriggerConfig::new(TriggerMode::Start, 60_000).trigger(Trigger::new("too slow")),
///     )
///     .record_in_memory()?;
/// instant!("app", "before");
/// activate_trigger("too slow");
/// instant!("app", "after");
/// assert_eq!(session.finish().1.events, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
pub fn activate_trigger(name: &str) {
    producer::activate_triggers(&[name]);
    flight_recorder::trigger_hit(name);
}

type Save = Arc<dyn Fn(Result<Snapshot, Error>) + Send + Sync>;

/// The application's function, once it has given one.
#[derive(Default)]
pub(super) struct TriggerCallback {
    save: Mutex<Option<Save>>,
}

impl TriggerCallback {
    pub(super) fn set(&self, save: Save) {
        *self.save.lock() = Some(save);
    }

    /// A trigger was hit: takes the snapshot on a thread of its own, so that neither the service
    /// nor whoever hit it waits for a file.
    pub(super) fn call(
        &self,
        runtime: &'static Runtime,
        session: SessionId,
        trigger: &ReceivedTrigger,
    ) {
        let Some(save) = self.save.lock().clone() else {
            return;
        };
        let trigger = trigger.clone();
        let on_failure = Arc::clone(&save);
        let spawned = thread::Builder::new()
            .name("tracezero-snapshot".to_owned())
            .spawn(move || save(Snapshot::of(runtime, session, Some(trigger))));
        if let Err(error) = spawned {
            on_failure(Err(Error::Thread(error)));
        }
    }
}
