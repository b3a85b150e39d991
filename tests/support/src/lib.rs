//! Helpers for tests of several packages. They know nothing of what a test is about.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.
#![allow(clippy::missing_panics_doc)] // For the same reason, anything may panic.

mod allocations; // an allocator that counts
mod alone; // one test at a time
mod folder; // files that are gone when the test is over
#[cfg(feature = "traces")]
mod packets; // packets of a trace
#[cfg(feature = "traces")]
pub mod trace_buffer; // chunks for one, and what is read back
mod waiting; // for what other threads and processes bring about

pub use allocations::{Counting, allocations_of};
pub use alone::alone;
pub use folder::Folder;
#[cfg(feature = "traces")]
pub use packets::{is_whole, numbers};
pub use waiting::{wait_for, wait_until};
