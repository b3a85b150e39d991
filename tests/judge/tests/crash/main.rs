//! Processes that are killed while they record with crash files, and the traces recovered of them.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod ends; // other ends than kills
mod flight_recorder; // a flight recorder that is killed
mod kills; // kills at random moments
mod leftovers; // folders of processes that live, end, fork or were killed
mod live; // copies of what a living process records
mod no_room; // directories that cannot have crash files
mod program; // the program that is killed
mod recovered; // what must hold for a recovered trace
