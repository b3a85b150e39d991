//! Spans of futures: the slice of the whole future, the slices of its polls, and the flow that
//! joins them.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod endless; // futures that never end
mod executor; // polls futures by hand, on named threads
mod recording; // recording a session and judging it
mod wandering; // tasks that run on several threads

mod one_future; // one session, one future
mod nested; // nested futures
mod sessions; // sessions that start and end during a future
mod tokio; // many tasks on many threads
