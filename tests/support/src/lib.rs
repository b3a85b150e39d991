//! Helpers that the tests of several packages share.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.
#![allow(clippy::missing_panics_doc)] // For the same reason, anything may panic.

#[cfg(feature = "traces")]
mod account; // the outcomes of packets
mod allocations; // an allocator that counts
mod alone; // one test at a time
#[cfg(feature = "traces")]
pub mod crash_files; // the files of a killed process
mod folder; // temporary folders
#[cfg(feature = "kernel")]
pub mod kernel_trace; // traces with the kernel's half
#[cfg(feature = "traces")]
mod ignoring_producer; // a producer that records nothing
mod not_run; // tests that cannot run on this machine
#[cfg(feature = "traces")]
mod packets; // packets of a trace, decoded
mod resident; // the memory of processes
mod tracefs; // tests that control the kernel's tracer
#[cfg(feature = "traces")]
pub mod trace_buffer; // helpers for tests of trace buffers
mod waiting; // waiting for other threads and processes

#[cfg(feature = "traces")]
pub use account::Account;
pub use allocations::{Counting, allocations_of};
pub use alone::alone;
pub use folder::Folder;
#[cfg(feature = "traces")]
pub use ignoring_producer::IgnoringProducer;
pub use not_run::not_run;
#[cfg(feature = "traces")]
pub use packets::{is_whole, not_started, numbers, packets_of};
pub use resident::resident_bytes;
pub use tracefs::with_tracefs;
pub use waiting::{wait_for, wait_until};
