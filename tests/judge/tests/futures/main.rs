//! Futures with spans, judged: the slice of a life, the slices of its polls, and the flow between.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod endless; // futures that are never done
mod executor; // futures that are polled by hand, on threads by name
mod recording; // what a session says of futures
mod wandering; // tasks that are on several threads

mod lives; // one session, one future
mod nested; // futures in the polls of others
mod sessions; // which come and go while a future lives
mod tokio; // many tasks on many threads
