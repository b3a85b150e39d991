//! Flight recorders: what is in their files, how many there are, and who waits for whom.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod files; // where snapshots go, and how many there may be
mod panics; // threads that panic
mod processes; // processes that abort, exit and get signals
mod snapshots; // what is in a file
mod storms; // many requests, and disks that hang
mod trace; // what the tests look for in a trace
mod wrong; // what is refused at the start
