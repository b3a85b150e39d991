//! Tests on captured traces: who is captured, what can be asked of a trace, and what a failed test says.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod parallel; // captures at once, and sessions beside them
mod attaching; // threads and tasks that take part
mod nesting; // captures inside of captures, spans across their borders
mod ending; // ends, panics and threads that go on
mod custom_data_source; // packets with a schema of one's own, and callbacks
mod queries; // what can be asked
mod layer; // spans of the `tracing` crate
mod failures; // messages
mod outline; // snapshots
