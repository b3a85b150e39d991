//! Switches inside of a data source, such as those of categories; each instance turns on some of
//! them.

use std::any::Any;
use std::fmt;

use crate::active_slots::CAPTURE_SLOT;
use crate::instance::AnyInstance;
use tracezero_core::coordination::DataSourceDescriptor;

/// The switches of a data source. Each has a mask of the slots that record something.
pub trait Switches: Sync {
    /// Adds to the descriptor what sessions can choose from.
    fn describe(&self, descriptor: &mut DataSourceDescriptor);

    /// Updates all switches. Called with the registry locked.
    fn update(&self, recording: &Recording<'_>);
}

/// The instances of one data source that record.
pub struct Recording<'r> {
    /// The slot and the instance; the instance is `None` until it is set up.
    instances: Vec<(usize, Option<&'r dyn AnyInstance>)>,
}

impl<'r> Recording<'r> {
    pub(super) fn new(
        instances: impl Iterator<Item = (usize, Option<&'r dyn AnyInstance>)>,
    ) -> Self {
        Self {
            instances: instances.collect(),
        }
    }

    pub(super) fn all_slots(&self) -> u32 {
        let slots = self.instances.iter().map(|(slot, _)| 1 << slot);
        slots.fold(0, |all, slot| all | slot)
    }

    /// Returns the slots whose instances are of type `I` and are accepted by `chooses`, and always
    /// the slot of captures.
    pub(super) fn slots<I: Any>(&self, chooses: impl Fn(&I) -> bool) -> u32 {
        self.instances
            .iter()
            .filter(|(slot, instance)| {
                let instance = instance.map(|instance| -> &dyn Any { instance });
                let instance = instance.and_then(|instance| instance.downcast_ref());
                // All captures share the slot, so a capture records everything.
                *slot == CAPTURE_SLOT || instance.is_some_and(&chooses)
            })
            .fold(0, |slots, (slot, _)| slots | 1 << slot)
    }
}

impl fmt::Debug for Recording<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}
