//! The schemas of the data sources in one session, for readers that do not have them.
//!
//! The schemas are not in a trace buffer, where a ring could overwrite them. When the trace is read
//! next after an instance was set up, the service writes the schema of the instance before all
//! packets of writers. So readers have the schemas before they need them.

use std::sync::Arc;

/// The maximum size of the schemas of a session, in bytes. They are kept until the session ends,
/// also those of data sources that are gone.
const SCHEMAS_MAX_BYTES: usize = 64 << 20;

/// Schemas in the order in which they came, without duplicates.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtensionDescriptors {
    /// The serialized `FileDescriptorSet`s.
    sets: Vec<Arc<[u8]>>,
    /// The number of sets that are already in the trace.
    written: usize,
    /// The size of all sets.
    bytes: usize,
}

impl ExtensionDescriptors {
    /// Returns true if the schema of a data source is known, or if there is room for it.
    pub(super) fn admits(&self, set: &Arc<[u8]>) -> bool {
        self.bytes + set.len() <= SCHEMAS_MAX_BYTES || self.sets.contains(set)
    }

    /// Adds the schema of a recorded data source. Returns false if it is known or empty.
    pub(super) fn add(&mut self, set: &Arc<[u8]>) -> bool {
        let is_new = !set.is_empty() && !self.sets.contains(set);
        if is_new {
            self.sets.push(Arc::clone(set));
            self.bytes += set.len();
        }
        is_new
    }

    /// Returns a copy for another trace, in which all schemas are still to be written.
    pub(super) fn unwritten(&self) -> Self {
        Self {
            sets: self.sets.clone(),
            written: 0,
            bytes: self.bytes,
        }
    }

    /// Returns the schemas that are to be written now.
    pub(super) fn take_new(&mut self) -> Vec<Arc<[u8]>> {
        let new = self.sets[self.written..].to_vec();
        self.written = self.sets.len();
        new
    }
}
