//! Runs each command as a process, on traces that are made here.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod cat;
mod check;
mod daemon; // where it listens, who may connect, how it ends
mod damaged; // files that are not traces, or are damaged
mod diff; // traces of two sides
mod export; // tables of traces, and lakes
mod flamegraph;
mod help; // --help, --version and exit statuses
mod inspect; // processes that are stuck
mod kernel_half; // traces with both halves
mod merge;
mod merge_machines; // traces of several machines
mod merge_overlaps; // files with the same packets
mod notify; // the daemon tells that it listens
mod outline;
mod output; // files that commands must not overwrite
mod packing; // compress and decompress
mod process; // runs the tool
mod recover; // crash files of an aborted process
mod query; // the program that it runs
mod serving; // daemons for tests
mod summary;
mod traces; // the traces that the tests use
mod units; // units of the service manager
mod view;
mod whole; // recordings that were cut off
mod why;
