//! The atomics of the shared memory: the standard library's, or loom's in model tests.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU16, AtomicU32, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
