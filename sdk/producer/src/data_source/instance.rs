//! Instances of any type of data source, as the SDK calls them.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::{DataSource, Flushing, LocalState, Setup, Starting, Stopping};
use crate::{Instance, InstanceStart};
use tracezero_core::reentry;

/// A [`DataSource`] in one session.
///
/// A panic of the application ends here: whoever calls goes on, and what the callback was given to
/// answer with was dropped, which is an answer. Each call takes a reference, so that the value is
/// dropped in here if that was the last one.
pub(crate) trait AnyInstance: Any + Send + Sync {
    fn start(self: Arc<Self>, starting: Starting);
    fn stop(self: Arc<Self>, stopping: Stopping);
    fn flush(self: Arc<Self>, flushing: Flushing);
    fn clear_incremental_state(self: Arc<Self>);
    /// Takes over a changed configuration, an encoded `DataSourceConfig`.
    fn change(&self, config: &[u8]);
    /// Makes what the calling thread writes with.
    fn of_thread(self: Arc<Self>, start: InstanceStart) -> Box<Instance>;
}

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

    /// Data sources of applications are not told: the service changes track events alone.
    fn change(&self, _: &[u8]) {}

    fn of_thread(self: Arc<Self>, start: InstanceStart) -> Box<Instance> {
        start.with(|progress| LocalState::new(self, progress))
    }
}

/// Makes an instance; `None` if that panicked.
pub(crate) fn set_up<D: DataSource>(setup: &Setup<'_>) -> Option<Arc<dyn AnyInstance>> {
    let instance = call_application(|| D::on_setup(setup))?;
    Some(Arc::new(instance))
}

/// Calls the application, with nothing locked. `None` if it panicked.
fn call_application<R>(callback: impl FnOnce() -> R) -> Option<R> {
    contain(|| reentry::outside(callback))
}

/// Calls the application; `None` if it panicked. Its state is its own affair: it is called again.
pub(crate) fn contain<R>(callback: impl FnOnce() -> R) -> Option<R> {
    panic::catch_unwind(AssertUnwindSafe(callback)).ok()
}
