//! Runs the program as a process, over traces that are recorded here and over lakes of them.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod cache; // lakes that keep the tables of trace files
mod columns; // lakes whose files have different columns
mod errors; // what is wrong, and what there is instead
mod formats; // table, CSV and JSON
mod memory; // queries that take much memory
mod process; // runs the program
mod queries; // queries that trace files and lakes answer alike
mod same_rows; // trace files and lakes have the same rows
mod signals; // programs that are asked to end
mod traces; // the traces that the tests use
