//! Data sources of the SDK itself. A thread reaches its state for a data source of the SDK without
//! checking the type of that state. The check would take a tenth of the time of an event.
#![allow(unsafe_code)] // A thread's state has the type that its data source declares.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::answers::{Flushing, Starting, Stopping};
use crate::data_source_state::{DataSourceState, ENABLED};
use crate::instance::{AnyInstance, Instance, InstanceStart, LocalStart};
use crate::setup::Setup;
use crate::switches::{Recording, Switches};
use crate::thread_writers::with_instances;

/// An instance of a data source of the SDK: the data source in one session.
pub trait OwnInstance: Send + Sync + 'static {
    /// The type of each thread's state for the instance.
    type Local: Any;

    /// Creates the instance of a session.
    fn new(setup: &Setup<'_>) -> Self;

    /// Applies a changed configuration, an encoded `DataSourceConfig`.
    fn change(&self, config: &[u8]);

    /// Creates the calling thread's state.
    fn local(&self, start: LocalStart) -> Self::Local;
}

/// A data source of the SDK, a `static`.
pub struct OwnDataSource<I> {
    /// All its instances are of type `Own<I>`; [`OwnDataSource::new`] sees to that.
    state: DataSourceState,
    /// Makes this struct invariant in `I`, because `state` was created for this very type.
    instance: PhantomData<fn(I) -> I>,
}

/// The instance as the producer sees it.
struct Own<I>(I);

impl<I: OwnInstance> OwnDataSource<I> {
    /// Creates the data source; `name` is its name in configurations.
    pub const fn new(name: &'static str, switches: &'static dyn Switches) -> Self {
        let set_up = |setup: &Setup<'_>| -> Option<Arc<dyn AnyInstance>> {
            Some(Arc::new(Own(I::new(setup))))
        };
        Self {
            state: DataSourceState::of_sdk(name, set_up, switches),
            instance: PhantomData,
        }
    }

    /// Returns the state that every data source has.
    pub const fn state(&'static self) -> &'static DataSourceState {
        &self.state
    }

    /// Returns the slots that record this data source. The data source is registered before any
    /// slot records it.
    #[inline(always)]
    pub fn active_slots(&'static self) -> u32 {
        self.active_of(u32::MAX >> 1)
    }

    /// Returns the slots among `slots` that record this data source.
    #[inline(always)]
    pub fn active_of(&'static self, slots: u32) -> u32 {
        if !ENABLED {
            return 0;
        }
        self.state.active.load_of(slots)
    }

    /// Calls `trace` for every slot of `mask`. Only counts the event as nested if this thread is
    /// already inside of a trace point, or of the tracer.
    #[inline(always)]
    pub fn trace(&'static self, mask: u32, mut trace: impl FnMut(&mut Instance<I::Local>)) {
        with_instances(&self.state, mask, |instance| {
            // SAFETY: the instances of this data source are of type `Own<I>`, by the invariant of
            // `state`. They create an `I::Local` for each thread.
            trace(unsafe { instance.as_type_unchecked() });
        });
    }
}

impl<I> fmt::Debug for OwnDataSource<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Recording<'_> {
    /// Returns the slots whose instances `chooses` accepts. The data source's instances must be of
    /// type `I`.
    pub fn slots_chosen<I: OwnInstance>(&self, chooses: impl Fn(&I) -> bool) -> u32 {
        self.slots(|Own(instance)| chooses(instance))
    }
}

impl<I: OwnInstance> AnyInstance for Own<I> {
    fn start(self: Arc<Self>, starting: Starting) {
        drop(starting);
    }

    fn stop(self: Arc<Self>, stopping: Stopping) {
        drop(stopping);
    }

    fn flush(self: Arc<Self>, flushing: Flushing) {
        drop(flushing);
    }

    /// Does nothing: threads notice by the progress of their buffer that their state must be
    /// cleared.
    fn clear_incremental_state(self: Arc<Self>) {}

    fn change(&self, config: &[u8]) {
        self.0.change(config);
    }

    fn of_thread(self: Arc<Self>, start: InstanceStart) -> Box<Instance> {
        start.with(|start| self.0.local(start))
    }
}
