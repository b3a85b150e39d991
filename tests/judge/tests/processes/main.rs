//! Processes that fork or end while they record.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod crash_files; // forks beside crash files
mod endings; // every way to end, in a table
mod exits; // the file after each way to exit
mod flight_recorders; // forked children and the flight recorder of their parent
mod forks; // forked children record nothing
mod own_process; // children by `fork`, and this executable as another process
mod recorder; // a program that records until it ends
mod signals; // signals that end a process
