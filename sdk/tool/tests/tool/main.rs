//! Each command as a process, on traces that are made here.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod cat; // packets as text
mod check; // whether traces are right
mod damaged; // files that are no traces, or no whole ones
mod flamegraph; // where time goes
mod help; // what the tool says of itself
mod merge; // several traces to one
mod outline; // what happened, without times and ids
mod output; // where commands do not write
mod packing; // compressed packets
mod process; // the tool as a process
mod summary; // a trace in tables
mod traces; // what it is tried on
mod view; // a page to look at
mod whole; // recordings that were cut off
