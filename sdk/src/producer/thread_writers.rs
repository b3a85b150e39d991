//! The writers of each thread: one for every data source and session that records it.

#[cfg(feature = "testing")]
mod attachments; // which capture the thread writes to

use std::any::Any;
use std::cell::RefCell;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "testing")]
use self::attachments::Attachments;
#[cfg(feature = "testing")]
pub(super) use self::attachments::capture_without_instance;
#[cfg(feature = "testing")]
pub(crate) use self::attachments::{
    Attached, attach, captured_in, current_capture, is_capture, is_in_other_capture,
    unattached_count,
};
use super::active_slots::{CAPTURE_SLOT, generation};
use super::data_source_state::DataSourceState;
use super::realm::Realm;
use super::registry;
use super::trace_writer::TraceWriter;
use crate::data_source::contain;
use crate::forked_child;
use crate::reentry;
use crate::track_event::EventSequence;

thread_local! {
    static WRITERS: RefCell<ThreadWriters> = const { RefCell::new(ThreadWriters::new()) };
}

/// Trace points that were reached while their thread was tracing already, or was ending.
static NESTED: AtomicU64 = AtomicU64::new(0);

/// What a thread writes with for one data source in one session.
pub(crate) struct Instance {
    /// The slot of the session.
    pub(crate) slot: usize,
    /// The generation that began with the session.
    pub(crate) generation: u64,
    pub(crate) writer: TraceWriter,
    /// Used by the track-event macros.
    pub(crate) events: EventSequence,
    /// The `LocalState` of the data source's type, for those that have one.
    pub(crate) local: Option<Box<dyn Any>>,
}

struct ThreadWriters {
    /// The generation that `instances` belongs to.
    generation: u64,
    /// By [`DataSourceState::instance_index`].
    instances: Vec<Option<Box<Instance>>>,
    #[cfg(feature = "testing")]
    attachments: Attachments,
}

/// Calls `trace` for every slot of `mask`. Does nothing but count where this thread is tracing
/// already: a trace point inside a trace point, in a formatter or an allocator for instance. And
/// where it is inside of the tracer otherwise.
#[inline]
pub(crate) fn with_instances(
    data_source: &'static DataSourceState,
    mask: u32,
    mut trace: impl FnMut(&mut Instance),
) {
    if reentry::is_inside() {
        return note_nested();
    }
    let generation = generation();
    let traced = WRITERS.try_with(|writers| {
        let Ok(mut writers) = writers.try_borrow_mut() else {
            return false;
        };
        if writers.generation != generation {
            writers.leave_ended_sessions(generation);
        }
        let mut slots = mask;
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            if let Some(instance) = writers.instance(data_source, slot) {
                trace(instance);
            }
        }
        true
    });
    if !matches!(traced, Ok(true)) {
        note_nested();
    }
}

/// The capture that this thread writes to.
#[cfg(not(feature = "testing"))]
fn current_capture() -> Option<Realm> {
    None
}

/// Whether this thread is tracing, or inside of the tracer otherwise: a trace point that it reaches
/// is counted, and may not wait for any lock.
pub(super) fn is_nested() -> bool {
    let is_tracing = || WRITERS.try_with(|writers| writers.try_borrow_mut().is_err());
    let is_nested = reentry::is_inside() || is_tracing().unwrap_or(false);
    if is_nested {
        note_nested();
    }
    is_nested
}

#[cold]
fn note_nested() {
    // Relaxed: a count, ordered with nothing.
    NESTED.fetch_add(1, Ordering::Relaxed);
}

/// Trace points dropped so far because they were nested in others.
pub(crate) fn nested_count() -> u64 {
    // Relaxed: as in `note_nested`.
    NESTED.load(Ordering::Relaxed)
}

/// Commits what this thread wrote for sessions that have stopped.
pub(crate) fn leave_ended_sessions() {
    let generation = generation();
    // A thread that is tracing, or ending, commits by itself later.
    let _ = WRITERS.try_with(|writers| {
        if let Ok(mut writers) = writers.try_borrow_mut() {
            writers.leave_ended_sessions(generation);
        }
    });
}

impl ThreadWriters {
    const fn new() -> Self {
        Self {
            generation: 0,
            instances: Vec::new(),
            #[cfg(feature = "testing")]
            attachments: Attachments::new(),
        }
    }

    #[inline]
    fn instance(
        &mut self,
        data_source: &'static DataSourceState,
        slot: usize,
    ) -> Option<&mut Instance> {
        let index = data_source.instance_index(slot);
        if !matches!(self.instances.get(index), Some(Some(_))) {
            self.create_instance(data_source, slot, index);
        }
        self.instances.get_mut(index)?.as_deref_mut()
    }

    #[cold]
    fn create_instance(
        &mut self,
        data_source: &'static DataSourceState,
        slot: usize,
        index: usize,
    ) {
        let realm = if slot == CAPTURE_SLOT {
            current_capture()
        } else {
            Some(Realm::PROCESS)
        };
        #[cfg(feature = "testing")]
        if realm.is_none() {
            attachments::note_unattached();
        }
        let target = realm.and_then(|realm| registry::target(realm, data_source, slot));
        let Some(target) = target else {
            return;
        };
        let mut writer =
            TraceWriter::new(&target.arbiter, target.buffer_id, target.exhausted_policy);
        if let Some(limit) = target.stall_limit {
            writer = writer.with_stall_limit(limit);
        }
        let instance = Box::new(Instance {
            slot,
            generation: target.generation,
            writer,
            local: target
                .instance
                .map(|instance| instance.local_state(Arc::clone(&target.progress))),
            events: EventSequence::new(target.progress, target.options),
        });
        self.put(index, instance);
    }

    fn put(&mut self, index: usize, instance: Box<Instance>) {
        if self.instances.len() <= index {
            self.instances.resize_with(index + 1, || None);
        }
        self.instances[index] = Some(instance);
    }

    /// Drops the writers of sessions that have ended, which commits what they hold.
    #[cold]
    fn leave_ended_sessions(&mut self, generation: u64) {
        self.leave_to_parent();
        for instance in &mut self.instances {
            let ended = instance
                .as_ref()
                .is_some_and(|it| !registry::is_current(it.generation));
            if ended {
                // Drops what the application keeps there, too.
                contain(|| *instance = None);
            }
        }
        #[cfg(feature = "testing")]
        self.leave_ended_captures();
        self.generation = generation;
    }

    /// In a forked child, leaves the writers as they are: their chunks are the parent's.
    fn leave_to_parent(&mut self) {
        if forked_child::is_quiet() {
            mem::forget(mem::take(&mut self.instances));
            #[cfg(feature = "testing")]
            mem::forget(mem::take(&mut self.attachments));
        }
    }
}

impl Drop for ThreadWriters {
    fn drop(&mut self) {
        self.leave_to_parent();
        // Drops what the application keeps there, too. The process would not survive a panic in it.
        for instance in &mut self.instances {
            contain(|| *instance = None);
        }
        #[cfg(feature = "testing")]
        self.attachments.drop_all();
    }
}
