//! Exports traces, and reads the tables with the library's own reader. `tests/judge` reads them with an engine.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod compaction; // files that are joined
mod kernel; // the kernel's half
mod damage; // traces that are cut or damaged
mod repetition; // traces that are exported again
mod rows; // what tables have of a trace
mod table; // reads tables
