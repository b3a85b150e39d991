//! Flight recorders: the content and number of their files, and who waits for them.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod files; // the files of snapshots
mod panics; // threads that panic
mod processes; // processes that abort, exit or get signals
mod snapshots; // the content of a file
mod storms; // many requests, and blocked disks
mod trace; // helpers: recorders, and the content of a trace
mod wrong; // errors at the start
