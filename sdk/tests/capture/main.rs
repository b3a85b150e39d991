//! Tests of captures: which threads are captured, queries on the trace, and messages of failed
//! assertions.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod parallel; // parallel captures, and sessions beside them
mod attaching; // attached threads and tasks
mod nesting; // nested captures, and spans that cross their ends
mod ending; // the end of captures, panics, threads that continue
mod custom_data_source; // packets and callbacks of data sources
mod queries; // queries on a trace
mod futures; // spans of futures, and their polls
mod layer; // spans of the `tracing` crate
mod failures; // messages of failed assertions
mod outline; // outlines, for snapshot tests
