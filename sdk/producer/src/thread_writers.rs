//! The writers of each thread: one for every data source and session that records it.

#[cfg_attr(not(feature = "testing"), path = "thread_writers/no_attachments.rs")]
mod attachments; // which capture the thread writes to

use std::cell::RefCell;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use self::attachments::Attachments;
#[cfg(feature = "testing")]
pub(super) use self::attachments::capture_without_instance;
pub use self::attachments::{
    Attached, CAPTURES, attach, captured_in, current_capture, is_capture, is_in_other_capture,
    unattached_count,
};
use crate::active_slots::{CAPTURE_SLOT, generation};
use crate::application::contain;
use crate::data_source_state::DataSourceState;
use crate::instance::{Instance, InstanceStart};
use crate::realm::Realm;
use crate::registry;
use tracezero_core::forked_child;
use tracezero_core::reentry;

thread_local! {
    static WRITERS: RefCell<ThreadWriters> = const { RefCell::new(ThreadWriters::new()) };
}

/// Trace points that were reached while their thread was tracing already, or was ending.
static NESTED: AtomicU64 = AtomicU64::new(0);

struct ThreadWriters {
    /// The generation that `instances` belongs to.
    generation: u64,
    /// By [`DataSourceState::instance_index`]: each was made for the data source whose place it has.
    instances: Vec<Option<Box<Instance>>>,
    attachments: Attachments,
}

/// Calls `trace` for every slot of `mask`. Does nothing but count where this thread is tracing
/// already: a trace point inside a trace point, in a formatter or an allocator for instance. And
/// where it is inside of the tracer otherwise.
///
/// To record such a trace point would take a second writer per thread. The report counts it instead:
/// `Losses::nested`.
#[inline]
pub fn with_instances(
    data_source: &'static DataSourceState,
    mask: u32,
    mut trace: impl FnMut(&mut Instance),
) {
    if reentry::is_inside() {
        return note_nested();
    }
    let traced = WRITERS.try_with(|writers| {
        let Ok(mut writers) = writers.try_borrow_mut() else {
            return false;
        };
        let generation = generation();
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

/// Whether this thread is tracing, or inside of the tracer otherwise: a trace point that it reaches
/// is counted, and may not wait for any lock.
#[must_use]
pub fn is_nested() -> bool {
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
pub fn nested_count() -> u64 {
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
            self.create_instance(data_source, slot);
        }
        self.instances.get_mut(index)?.as_deref_mut()
    }

    /// Makes the instance of a slot, if its session records the data source.
    #[cold]
    fn create_instance(&mut self, data_source: &'static DataSourceState, slot: usize) {
        let realm = if slot == CAPTURE_SLOT {
            current_capture()
        } else {
            Some(Realm::PROCESS)
        };
        if realm.is_none() {
            attachments::note_unattached();
        }
        let target = realm.and_then(|realm| registry::target(realm, data_source, slot));
        let Some((maker, target)) = target else {
            return;
        };
        let instance = maker.of_thread(InstanceStart { slot, target });
        // The data source is registered: there is a target.
        let index = data_source.instance_index(slot);
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
        self.leave_ended_captures();
        self.generation = generation;
    }

    /// In a forked child, leaves the writers as they are: their chunks are the parent's.
    fn leave_to_parent(&mut self) {
        if forked_child::is_quiet() {
            mem::forget(mem::take(&mut self.instances));
            self.attachments.leave_to_parent();
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
        self.attachments.drop_all();
    }
}
