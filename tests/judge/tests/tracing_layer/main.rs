//! What the `tracing` layer records, judged.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

#[path = "../futures/endless.rs"]
mod endless; // futures that are never done
#[path = "../futures/executor.rs"]
mod executor; // futures that are polled by hand, on threads by name
mod recording; // what a session says of `tracing`
#[path = "../futures/wandering.rs"]
mod wandering; // tasks that are on several threads

mod choices; // filters, categories, levels, other layers
mod events; // events, counters, `log` records
mod lives; // spans that are entered more than once
mod order; // spans that are left in any order
mod spans; // spans that are entered once
mod tokio; // many tasks on many threads
