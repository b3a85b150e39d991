//! The schemas of the data sources in one session, for readers that do not have them.
//!
//! The service writes them, before the packets of the first reading after an instance was set up:
//! a ring that overwrites its oldest packets does not lose them, and readers have them before they
//! are needed.

use std::sync::Arc;

/// Schemas in the order in which they came, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtensionDescriptors {
    /// Serialized `FileDescriptorSet`s.
    sets: Vec<Arc<[u8]>>,
    /// How many of them are in the trace.
    written: usize,
}

impl ExtensionDescriptors {
    /// A data source with this schema is recorded; an empty one is none.
    pub(super) fn add(&mut self, set: &Arc<[u8]>) {
        if !set.is_empty() && !self.sets.contains(set) {
            self.sets.push(Arc::clone(set));
        }
    }

    /// The same for another trace.
    pub(super) fn unwritten(&self) -> Self {
        Self {
            sets: self.sets.clone(),
            written: 0,
        }
    }

    /// Those that are to be written now.
    pub(super) fn take_new(&mut self) -> Vec<Arc<[u8]>> {
        let new = self.sets[self.written..].to_vec();
        self.written = self.sets.len();
        new
    }
}
