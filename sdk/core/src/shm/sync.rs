//! The atomics of the shared memory: the standard library's, or loom's in model tests, or watched
//! ones in fuzz targets.

#[cfg(fuzzing)]
pub(super) use super::watched_sync::{AtomicU8, AtomicU16, AtomicU32, Ordering};
#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU16, AtomicU32, Ordering};
#[cfg(not(any(loom, fuzzing)))]
pub(super) use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
