//! The identity of an instance of a data source.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tells an instance from all others of the process. A thread that works for one instance reaches the
/// instances of all sessions when it traces, and finds its own by the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstanceKey(u64);

impl InstanceKey {
    /// Returns a key that no other instance has.
    pub(crate) fn unique() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the numbers must only be unique.
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}
