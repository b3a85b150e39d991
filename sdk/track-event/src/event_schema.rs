//! The declared schemas of fields that extend `TrackEvent`.

use std::sync::Arc;

use parking_lot::Mutex;

/// Serialized `FileDescriptorSet`s, without duplicates.
static DECLARED: Mutex<Vec<&'static [u8]>> = Mutex::new(Vec::new());

/// Adds a schema. Returns true if it is new.
pub(crate) fn add_event_schema(descriptors: &'static [u8]) -> bool {
    let mut declared = DECLARED.lock();
    let is_new = !descriptors.is_empty() && !declared.contains(&descriptors);
    if is_new {
        declared.push(descriptors);
    }
    is_new
}

/// Returns all schemas as one `FileDescriptorSet`: concatenated sets are one set.
pub(crate) fn declared_event_schemas() -> Arc<[u8]> {
    DECLARED.lock().concat().into()
}
