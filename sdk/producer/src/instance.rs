//! Instances: a data source in one session, and each thread's writer and state for it.
#![allow(unsafe_code)] // A thread's state has the type that its data source declares.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::answers::{Flushing, Starting, Stopping};
use crate::arbiter::Arbiter;
use crate::trace_writer::TraceWriter;
use tracezero_core::commit::RingProgress;
use tracezero_core::coordination::BufferExhaustedPolicy;
use tracezero_core::ids::BufferId;

/// The reason why a thread's state for an instance has the expected type.
const SAME_TYPE: &str = "instances of a data source are reached through its own state alone";

/// An instance of any type of data source.
///
/// Implementations catch panics of the application. The guard that the callback got (`Starting` and
/// so on) is then dropped, which answers the service. Each method takes an `Arc`, so that the value
/// is dropped inside of the method if that was the last reference.
pub(crate) trait AnyInstance: Any + Send + Sync {
    fn start(self: Arc<Self>, starting: Starting);
    fn stop(self: Arc<Self>, stopping: Stopping);
    fn flush(self: Arc<Self>, flushing: Flushing);
    fn clear_incremental_state(self: Arc<Self>);
    /// Applies a changed configuration, an encoded `DataSourceConfig`.
    fn change(&self, config: &[u8]);
    /// Creates the calling thread's writer and state.
    fn of_thread(self: Arc<Self>, start: InstanceStart) -> Box<Instance>;
}

/// One thread's writer and state for a data source in one session.
#[derive(Debug)]
pub struct Instance<L: ?Sized = dyn Any> {
    /// The slot of the session.
    pub slot: usize,
    /// The generation that began when the instance started.
    pub generation: u64,
    /// The writer of the thread's packets.
    pub writer: TraceWriter,
    /// The data source's state for this thread.
    pub local: L,
}

impl Instance {
    /// Returns the writer and the data source's state for this thread.
    #[inline]
    pub(crate) fn split<L: Any>(&mut self) -> (&mut TraceWriter, &mut L) {
        let local = self.local.downcast_mut();
        (&mut self.writer, local.expect(SAME_TYPE))
    }

    /// Returns the data source's state for this thread.
    #[inline]
    pub(crate) fn local<L: Any>(&self) -> &L {
        self.local.downcast_ref().expect(SAME_TYPE)
    }

    /// Returns the instance with the type of its state, without checking the type.
    ///
    /// # Safety
    ///
    /// Every instance of the data source must create its state for a thread as an `L`.
    #[inline(always)]
    pub(super) unsafe fn as_type_unchecked<L: Any>(&mut self) -> &mut Instance<L> {
        debug_assert!(self.local.is::<L>());
        let instance: *mut Self = self;
        // SAFETY: the caller promises that this was created as an `Instance<L>`. It is borrowed as
        // long as the result lives.
        unsafe { &mut *instance.cast::<Instance<L>>() }
    }
}

/// The parts of an [`Instance`] other than the data source's state.
#[derive(Debug)]
pub(crate) struct InstanceStart {
    pub(crate) slot: usize,
    pub(crate) target: Target,
}

/// The begin of a thread's state for a data source.
#[derive(Debug)]
pub struct LocalStart {
    /// The slot of the session.
    pub slot: usize,
    /// The generation that began when the instance started.
    pub generation: u64,
    /// The progress of the buffer that the packets go to.
    pub progress: Arc<RingProgress>,
}

/// The destination of a data source's packets in one session.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) arbiter: Arc<Arbiter>,
    /// The generation that began when the instance started.
    pub(crate) generation: u64,
    pub(crate) buffer_id: BufferId,
    pub(crate) progress: Arc<RingProgress>,
    pub(crate) exhausted_policy: BufferExhaustedPolicy,
    pub(crate) stall_limit: Duration,
}

impl InstanceStart {
    /// Creates the instance; `local` creates the data source's state.
    pub(crate) fn with<L: Any>(self, local: impl FnOnce(LocalStart) -> L) -> Box<Instance> {
        let Self { slot, target } = self;
        let start = LocalStart {
            slot,
            generation: target.generation,
            progress: target.progress,
        };
        let writer = TraceWriter::new(&target.arbiter, target.buffer_id, target.exhausted_policy)
            .with_stall_limit(target.stall_limit);
        Box::new(Instance {
            slot,
            generation: target.generation,
            writer,
            local: local(start),
        })
    }
}
