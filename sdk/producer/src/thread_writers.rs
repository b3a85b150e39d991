//! Each thread's table of writers: one for each data source and session that records it.

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
use crate::registry;
use tracezero_core::forked_child;
use tracezero_core::reentry;

thread_local! {
    static WRITERS: RefCell<ThreadWriters> = const { RefCell::new(ThreadWriters::new()) };
}

/// The number of trace points that were dropped because their thread was already in a trace point
/// or in the tracer, or was ending.
static NESTED: AtomicU64 = AtomicU64::new(0);

struct ThreadWriters {
    /// The generation at which `instances` was last brought up to date.
    generation: u64,
    /// Indexed by [`DataSourceState::instance_index`]: each entry belongs to the data source with
    /// that index.
    instances: Vec<Option<Box<Instance>>>,
    attachments: Attachments,
}

/// Calls `trace` for every slot of `mask`. Only counts the event as nested if the thread is already
/// inside of a trace point, for example in a formatter or an allocator, or inside of the tracer.
///
/// Recording nested trace points would take a second writer per thread. The report states their
/// number: `Losses::nested`.
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

/// Returns true if this thread is inside of a trace point or of the tracer, and counts that. A
/// trace point must not record or wait for any lock then.
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
    // Relaxed: this is only a count, and orders no other memory.
    NESTED.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of trace points that were dropped because they were nested in others.
pub fn nested_count() -> u64 {
    // Relaxed: as in `note_nested`.
    NESTED.load(Ordering::Relaxed)
}

/// Commits what this thread has written for sessions that have stopped.
pub(crate) fn leave_ended_sessions() {
    let generation = generation();
    // A thread that is inside of a trace point, or ending, commits later by itself.
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

    /// Creates this thread's instance for a slot, if its session records the data source.
    #[cold]
    fn create_instance(&mut self, data_source: &'static DataSourceState, slot: usize) {
        let capture = current_capture();
        if slot == CAPTURE_SLOT && capture.is_none() {
            attachments::note_unattached();
        }
        let Some((maker, target)) = registry::target(capture, data_source, slot) else {
            return;
        };
        let instance = maker.of_thread(InstanceStart { slot, target });
        // The data source has an index: it is registered, or there would be no target.
        let index = data_source.instance_index(slot);
        if self.instances.len() <= index {
            self.instances.resize_with(index + 1, || None);
        }
        self.instances[index] = Some(instance);
    }

    /// Drops the writers of sessions that have ended; dropping a writer commits its chunk.
    #[cold]
    fn leave_ended_sessions(&mut self, generation: u64) {
        self.leave_to_parent();
        for instance in &mut self.instances {
            let ended = instance
                .as_ref()
                .is_some_and(|it| !registry::is_current(it.generation));
            if ended {
                // This also drops the application's thread state.
                contain(|| *instance = None);
            }
        }
        self.leave_ended_captures();
        self.generation = generation;
    }

    /// In a forked child, forgets the writers without dropping them: their chunks belong to the
    /// parent.
    fn leave_to_parent(&mut self) {
        if forked_child::is_disabled() {
            mem::forget(mem::take(&mut self.instances));
            self.attachments.leave_to_parent();
        }
    }
}

impl Drop for ThreadWriters {
    fn drop(&mut self) {
        self.leave_to_parent();
        // This also drops the application's thread state. A panic in a thread-local's destructor
        // would abort the process.
        for instance in &mut self.instances {
            contain(|| *instance = None);
        }
        self.attachments.drop_all();
    }
}
