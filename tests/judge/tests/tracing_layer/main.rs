//! The events that the layer for the crate `tracing` records.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

#[path = "../futures/endless.rs"]
mod endless; // futures that never end
#[path = "../futures/executor.rs"]
mod executor; // polls futures by hand, on named threads
mod recording; // recording a session and judging it
#[path = "../futures/wandering.rs"]
mod wandering; // tasks that run on several threads

mod choices; // filters, categories, levels, other layers
mod events; // events, counters, `log` records
mod async_spans; // spans that are entered more than once
mod order; // spans that are exited in any order
mod spans; // spans that are entered once
mod tokio; // many tasks on many threads
