//! Data sources of applications: callbacks, states, and threads that trace meanwhile.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

#[path = "data_sources/probe.rs"]
mod probe; // a data source that calls functions of the test

#[path = "data_sources/answers.rs"]
mod answers; // callbacks that answer later
#[path = "data_sources/callbacks.rs"]
mod callbacks; // which callbacks are called, and when
#[path = "data_sources/descriptors.rs"]
mod descriptors; // schemas in the trace
#[path = "data_sources/panics.rs"]
mod panics; // callbacks that panic
#[path = "data_sources/states.rs"]
mod states; // states of instances, threads and sequences
#[path = "data_sources/threads.rs"]
mod threads; // starts and stops while threads trace
