//! The schemas of the data sources in one session, for readers that do not have them.
//!
//! The schemas are not in a trace buffer, where a ring could overwrite them. When the trace is read
//! next after an instance was set up, the service writes the schema of the instance before all
//! packets of writers. So readers have the schemas before they need them.

use std::sync::Arc;

/// Schemas in the order in which they came, without duplicates.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtensionDescriptors {
    /// The serialized `FileDescriptorSet`s.
    sets: Vec<Arc<[u8]>>,
    /// The number of sets that are already in the trace.
    written: usize,
}

impl ExtensionDescriptors {
    /// Adds the schema of a recorded data source. Returns false if it is known or empty.
    pub(super) fn add(&mut self, set: &Arc<[u8]>) -> bool {
        let is_new = !set.is_empty() && !self.sets.contains(set);
        if is_new {
            self.sets.push(Arc::clone(set));
        }
        is_new
    }

    /// Returns a copy for another trace, in which all schemas are still to be written.
    pub(super) fn unwritten(&self) -> Self {
        Self {
            sets: self.sets.clone(),
            written: 0,
        }
    }

    /// Returns the schemas that are to be written now.
    pub(super) fn take_new(&mut self) -> Vec<Arc<[u8]>> {
        let new = self.sets[self.written..].to_vec();
        self.written = self.sets.len();
        new
    }
}
