//! Data sources of the SDK itself. Threads find what they keep for one without a look at its type,
//! which would be a tenth of an event.
#![allow(unsafe_code)] // The type of what a thread keeps is that of the data source.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::answers::{Flushing, Starting, Stopping};
use crate::data_source_state::{DataSourceState, ENABLED};
use crate::instance::{AnyInstance, Instance, InstanceStart};
use crate::setup::Setup;
use crate::switches::{Recording, Switches};
use crate::thread_writers::with_instances;
use tracezero_core::commit::RingProgress;

/// A data source of the SDK in one session.
pub trait OwnInstance: Send + Sync + 'static {
    /// The state that each thread keeps for the instance.
    type Local: Any;

    /// Makes the instance of a session.
    fn new(setup: &Setup<'_>) -> Self;

    /// Takes over a changed configuration, an encoded `DataSourceConfig`.
    fn change(&self, config: &[u8]);

    /// Makes what the calling thread keeps. The packets go to the buffer of `progress`.
    fn local(&self, progress: Arc<RingProgress>) -> Self::Local;
}

/// A data source of the SDK: one `static` each.
pub struct OwnDataSource<I> {
    /// Its instances are of type `Own<I>`, by [`OwnDataSource::new`].
    state: DataSourceState,
    /// Invariant in `I`: `state` was made for this very type.
    instance: PhantomData<fn(I) -> I>,
}

/// An instance as the producer knows it.
struct Own<I>(I);

impl<I: OwnInstance> OwnDataSource<I> {
    /// The data source that configurations call `name`.
    pub const fn new(name: &'static str, switches: &'static dyn Switches) -> Self {
        let set_up = |setup: &Setup<'_>| -> Option<Arc<dyn AnyInstance>> {
            Some(Arc::new(Own(I::new(setup))))
        };
        Self {
            state: DataSourceState::of_sdk(name, set_up, switches),
            instance: PhantomData,
        }
    }

    /// The data source as any other one.
    pub const fn state(&'static self) -> &'static DataSourceState {
        &self.state
    }

    /// The slots that record this data source. It is registered before any does.
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

    /// Calls `trace` for every slot of `mask`. Does nothing but count where this thread is tracing already, or inside of
    /// the tracer otherwise.
    #[inline(always)]
    pub fn trace(&'static self, mask: u32, mut trace: impl FnMut(&mut Instance<I::Local>)) {
        with_instances(&self.state, mask, |instance| {
            // SAFETY: the instances of this data source are of type `Own<I>`, by the invariant of
            // `state`: these make an `I::Local` for each thread.
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
    /// Returns the slots of which `chooses` says so, for a data source with these instances.
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

    /// Threads see by the progress of their buffer that their state is to be cleared.
    fn clear_incremental_state(self: Arc<Self>) {}

    fn change(&self, config: &[u8]) {
        self.0.change(config);
    }

    fn of_thread(self: Arc<Self>, start: InstanceStart) -> Box<Instance> {
        start.with(|progress| self.0.local(progress))
    }
}
