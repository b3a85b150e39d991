//! Calls the callbacks of data sources of applications.

use std::sync::Arc;

use super::{DataSource, LocalState};
use crate::answers::{Flushing, Starting, Stopping};
use crate::application::call_application;
use crate::instance::{AnyInstance, Instance, InstanceStart};
use crate::setup::Setup;

impl<D: DataSource> AnyInstance for D {
    fn start(self: Arc<Self>, starting: Starting) {
        call_application(move || self.on_start(starting));
    }

    fn stop(self: Arc<Self>, stopping: Stopping) {
        call_application(move || self.on_stop(stopping));
    }

    fn flush(self: Arc<Self>, flushing: Flushing) {
        call_application(move || self.on_flush(flushing));
    }

    fn clear_incremental_state(self: Arc<Self>) {
        call_application(move || self.on_clear_incremental_state());
    }

    /// Does nothing: the service changes the configuration of track events only.
    fn change(&self, _: &[u8]) {}

    fn of_thread(self: Arc<Self>, start: InstanceStart) -> Box<Instance> {
        start.with(|start| LocalState::new(self, start.progress))
    }
}

/// Creates an instance; returns `None` if the application panics.
pub(super) fn set_up<D: DataSource>(setup: &Setup<'_>) -> Option<Arc<dyn AnyInstance>> {
    let instance = call_application(|| D::on_setup(setup))?;
    Some(Arc::new(instance))
}
