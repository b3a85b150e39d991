//! Processes that fork and processes that end, while they trace.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod endings; // every way to end, in a table
mod exits; // how a process ends, and what is in the file then
mod flight_recorders; // what forked children do about the flight recorder of their parent
mod forks; // what forked children do, and what they leave alone
mod own_process; // children, and this executable as another process
mod recorder; // a program that records until it ends
mod signals; // how a process ends by a signal, and when it does not
