//! Calls the application with the snapshots that triggers ask for.

use std::sync::Arc;

use parking_lot::Mutex;

use super::snapshot::Snapshot;
use crate::error::Error;
use crate::runtime::Runtime;
use tracezero_core::ids::SessionId;
use tracezero_core::own_thread;
use tracezero_service::ReceivedTrigger;

type Save = Arc<dyn Fn(Result<Snapshot, Error>) + Send + Sync>;

/// The application's function, if it has set one.
#[derive(Default)]
pub(super) struct TriggerCallback {
    save: Mutex<Option<Save>>,
}

impl TriggerCallback {
    pub(super) fn set(&self, save: Save) {
        *self.save.lock() = Some(save);
    }

    /// Takes a snapshot for a trigger, on a thread of its own, so that neither the service nor the
    /// thread that activated the trigger waits for a file.
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
        let spawned = own_thread::spawn("tracezero-snapshot", move || {
            save(Snapshot::of(runtime, session, Some(trigger)));
        });
        if let Err(error) = spawned {
            on_failure(Err(Error::Thread(error)));
        }
    }
}
