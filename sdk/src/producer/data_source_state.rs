//! What is kept for a type of data source.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::active_slots::{ActiveSlots, SLOTS_STRIDE};
use super::data_sources::register_unless_nested;
use crate::coordination::DataSourceDescriptor;
use crate::data_source::{self, AnyInstance, DataSource, Setup};
use crate::track_event::{DeclaredCategories, ENABLED, TRACK_EVENT, declared_event_schemas};

/// Makes an instance, unless that panics.
type SetUp = fn(&Setup<'_>) -> Option<Arc<dyn AnyInstance>>;

/// What the SDK keeps for a type of data source: one `static` each, made by
/// [`data_source!`](crate::data_source).
pub struct DataSourceState {
    name: &'static str,
    /// Whether all sessions that want it have started it once. Changed with the registry locked.
    pub(super) is_settled: AtomicBool,
    /// A serialized `FileDescriptorSet`, or empty.
    descriptors: &'static [u8],
    /// Makes an instance; `None` for data sources without a type of their own.
    pub(super) set_up: Option<SetUp>,
    pub(super) active: ActiveSlots,
    /// Position in the registry; meaningful once registered.
    pub(super) index: AtomicUsize,
}

impl DataSourceState {
    /// The state of a type of data source.
    #[must_use]
    pub const fn of<D: DataSource>() -> Self {
        Self {
            is_settled: AtomicBool::new(false),
            descriptors: D::DESCRIPTORS,
            set_up: Some(data_source::set_up::<D>),
            ..Self::new(D::NAME)
        }
    }

    /// The state of the data source `name`, which has no type of its own.
    #[must_use]
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            // No trace point waits for it.
            is_settled: AtomicBool::new(true),
            descriptors: &[],
            set_up: None,
            active: ActiveSlots::unregistered(),
            index: AtomicUsize::new(0),
        }
    }

    /// The name that configurations know it by.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// The slots that record this data source.
    #[inline(always)]
    pub(crate) fn active_slots(&'static self) -> u32 {
        if !ENABLED {
            return 0;
        }
        self.active.load(|| register_unless_nested(self))
    }

    /// Position of what a thread keeps for this data source and `slot`.
    #[inline(always)]
    pub(crate) fn instance_index(&self, slot: usize) -> usize {
        // Relaxed: the index was stored before the mask that led here (see `register`).
        self.index.load(Ordering::Relaxed) * SLOTS_STRIDE + slot
    }

    pub(super) fn descriptor(&self) -> DataSourceDescriptor {
        let is_track_event = std::ptr::eq(self, &raw const TRACK_EVENT);
        let (categories, extension_descriptors) = if is_track_event {
            (
                DeclaredCategories::lock().descriptors(),
                declared_event_schemas(),
            )
        } else {
            (Vec::new(), Arc::from(self.descriptors))
        };
        DataSourceDescriptor {
            name: self.name.to_owned(),
            // Relaxed: the registry is locked, or was since the index was stored.
            id: self.index.load(Ordering::Relaxed) as u64 + 1,
            notifies_start: true,
            // Also so that what was written until then is scraped.
            notifies_stop: true,
            needs_no_flush: false,
            clears_incremental_state: true,
            extension_descriptors,
            categories,
        }
    }
}

impl fmt::Debug for DataSourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataSourceState")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
