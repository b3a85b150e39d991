//! The state of a type of data source.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::active_slots::{ActiveSlots, SLOTS_STRIDE};
use crate::instance::AnyInstance;
use crate::setup::Setup;
use crate::switches::Switches;
use tracezero_core::coordination::{DataSourceDescriptor, NAME_MAX_BYTES};

/// False under `cfg(tracezero_off)`: the compiler then removes all code that depends on it.
pub const ENABLED: bool = !cfg!(tracezero_off);

/// A value of `first_place` that is beyond the end of every thread's table. A multiple of
/// [`SLOTS_STRIDE`], like all values of `first_place`.
const NO_PLACE: usize = usize::MAX - (SLOTS_STRIDE - 1);

/// A function that creates an instance; it returns `None` if the application panics.
pub(super) type SetUp = fn(&Setup<'_>) -> Option<Arc<dyn AnyInstance>>;

/// The SDK's state for a type of data source: one `static` per type, which
/// `data_source!` creates.
pub struct DataSourceState {
    name: &'static str,
    /// True once a thread has registered the data source, and has waited until the sessions that
    /// record it have started it. Changed with the registry locked.
    pub(super) is_settled: AtomicBool,
    /// A serialized `FileDescriptorSet`; may be empty.
    descriptors: &'static [u8],
    /// A serialized `VmProgram`; may be empty.
    protovm_program: &'static [u8],
    /// Called before the data source is registered.
    pub(super) before_registration: fn(),
    pub(super) set_up: SetUp,
    /// `None` if the data source has no switches inside, so that it is recorded as a whole.
    pub(super) switches: Option<&'static dyn Switches>,
    pub(super) active: ActiveSlots,
    /// The index of this data source's first entry in every thread's table of writers. The data
    /// source has [`SLOTS_STRIDE`] entries, and the index is a multiple of this number.
    /// [`NO_PLACE`] until the data source is registered.
    first_place: AtomicUsize,
}

impl DataSourceState {
    /// Creates the state of a data source of the SDK, which is registered before any trace point
    /// runs.
    pub(super) const fn of_sdk(
        name: &'static str,
        set_up: SetUp,
        switches: &'static dyn Switches,
    ) -> Self {
        Self {
            // Trace points need not wait until the sessions have started the data source.
            is_settled: AtomicBool::new(true),
            switches: Some(switches),
            ..Self::new(name, &[], set_up)
        }
    }

    pub(super) const fn new(name: &'static str, descriptors: &'static [u8], set_up: SetUp) -> Self {
        // `data_source!` calls this function at compile time, so a wrong name does not compile. At
        // run time, a trace point could not report the error.
        assert!(
            !name.is_empty() && name.len() <= NAME_MAX_BYTES,
            "the name of a data source must have 1 to 256 bytes"
        );
        Self {
            name,
            is_settled: AtomicBool::new(false),
            descriptors,
            protovm_program: &[],
            before_registration: || {},
            set_up,
            switches: None,
            active: ActiveSlots::unregistered(),
            first_place: AtomicUsize::new(NO_PLACE),
        }
    }

    /// Sets what the application adds to the name and the schema.
    pub(super) const fn with(
        self,
        protovm_program: &'static [u8],
        before_registration: fn(),
    ) -> Self {
        Self {
            protovm_program,
            before_registration,
            ..self
        }
    }

    /// Returns the name that configurations use.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the schema of the packets, a serialized `FileDescriptorSet`; may be empty.
    pub(super) const fn descriptors(&self) -> &'static [u8] {
        self.descriptors
    }

    /// Returns the index of the entry for this data source and `slot` in a thread's table of
    /// writers.
    #[inline(always)]
    pub(crate) fn instance_index(&self, slot: usize) -> usize {
        // Relaxed: the place was stored before the mask that led here (see `Registry::add`).
        self.first_place.load(Ordering::Relaxed) | slot
    }

    /// Sets the data source's position in the registry. Called with the registry locked.
    pub(super) fn set_position(&self, position: usize) {
        // Relaxed: the mask that is stored later, with release, publishes it.
        self.first_place
            .store(position * SLOTS_STRIDE, Ordering::Relaxed);
    }

    pub(super) fn descriptor(&self) -> DataSourceDescriptor {
        let mut descriptor = DataSourceDescriptor {
            name: self.name.to_owned(),
            // Relaxed: the registry is locked, or was locked after the position was stored.
            id: (self.first_place.load(Ordering::Relaxed) / SLOTS_STRIDE) as u64 + 1,
            notifies_start: true,
            // The service waits for this report. So its last scrape also finds the packets that
            // were written just before the stop.
            notifies_stop: true,
            needs_no_flush: false,
            clears_incremental_state: true,
            extension_descriptors: Arc::from(self.descriptors),
            protovm_program: Arc::from(self.protovm_program),
            categories: Vec::new(),
            encoded: Arc::default(),
        };
        if let Some(switches) = self.switches {
            switches.describe(&mut descriptor);
        }
        descriptor
    }
}

impl fmt::Debug for DataSourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataSourceState")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic;

    use super::*;

    #[test]
    fn names_have_1_to_256_bytes() {
        // The name of a data source must be `'static`, so its bytes are in a `static`.
        static LONGEST: [u8; 257] = [b'n'; 257];
        let is_accepted = |bytes| {
            let name = std::str::from_utf8(&LONGEST[..bytes]).expect("letters");
            let made =
                panic::catch_unwind(|| DataSourceState::new(name, &[], |_| None).name().len());
            made.is_ok_and(|len| len == bytes)
        };
        assert_eq!(
            [0, 1, 256, 257].map(is_accepted),
            [false, true, true, false]
        );
    }
}
