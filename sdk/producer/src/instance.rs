//! Instances: a data source in one session, and the writer and state of each thread for it.
#![allow(unsafe_code)] // What a thread keeps has the type that its data source says.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::answers::{Flushing, Starting, Stopping};
use crate::arbiter::Arbiter;
use crate::trace_writer::TraceWriter;
use tracezero_core::commit::RingProgress;
use tracezero_core::coordination::BufferExhaustedPolicy;
use tracezero_core::ids::BufferId;

/// Why what a thread keeps for an instance has the type it is taken for.
const SAME_TYPE: &str = "instances of a data source are reached through its own state alone";

/// A data source in one session.
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

/// The writer and the state of a thread for one data source in one session.
#[derive(Debug)]
pub struct Instance<L: ?Sized = dyn Any> {
    /// The slot of the session.
    pub slot: usize,
    /// The generation that began with the session.
    pub generation: u64,
    /// The writer of its packets.
    pub writer: TraceWriter,
    /// The state of the data source for this thread, which its instances have made.
    pub local: L,
}

impl Instance {
    /// Returns the writer, and what the data source keeps for this thread.
    #[inline]
    pub(crate) fn split<L: Any>(&mut self) -> (&mut TraceWriter, &mut L) {
        let local = self.local.downcast_mut();
        (&mut self.writer, local.expect(SAME_TYPE))
    }

    /// Returns what the data source keeps for this thread.
    #[inline]
    pub(crate) fn local<L: Any>(&self) -> &L {
        self.local.downcast_ref().expect(SAME_TYPE)
    }

    /// The instance with the type of what the data source keeps, without a look at it.
    ///
    /// # Safety
    ///
    /// The instances of the data source must make an `L` for each thread.
    #[inline(always)]
    pub(super) unsafe fn as_type_unchecked<L: Any>(&mut self) -> &mut Instance<L> {
        debug_assert!(self.local.is::<L>());
        let instance: *mut Self = self;
        // SAFETY: it was made as an `Instance<L>`, by the caller, and is borrowed as long as the result
        // lives.
        unsafe { &mut *instance.cast::<Instance<L>>() }
    }
}

/// All of an [`Instance`] but what its data source keeps.
#[derive(Debug)]
pub(crate) struct InstanceStart {
    pub(crate) slot: usize,
    pub(crate) target: Target,
}

/// Where a data source writes to in a session that records it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) arbiter: Arc<Arbiter>,
    /// The generation that began with the instance.
    pub(crate) generation: u64,
    pub(crate) buffer_id: BufferId,
    pub(crate) progress: Arc<RingProgress>,
    pub(crate) exhausted_policy: BufferExhaustedPolicy,
    pub(crate) stall_limit: Duration,
}

impl InstanceStart {
    /// Makes the instance; `local` makes what the data source keeps. The packets go to the buffer whose
    /// progress it gets.
    pub(crate) fn with<L: Any>(self, local: impl FnOnce(Arc<RingProgress>) -> L) -> Box<Instance> {
        let Self { slot, target } = self;
        let writer = TraceWriter::new(&target.arbiter, target.buffer_id, target.exhausted_policy)
            .with_stall_limit(target.stall_limit);
        Box::new(Instance {
            slot,
            generation: target.generation,
            writer,
            local: local(target.progress),
        })
    }
}
