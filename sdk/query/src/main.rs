//! The program `tracezero-query`: answers SQL queries over traces, and over lakes of traces.
//!
//! It is a program of its own since its engine weighs more than all of the command `tracezero`, which runs it as
//! `tracezero query`.

mod args; // what the user asks for
mod error; // errors that end the program
mod signals; // signals that ask the program to end
mod answer; // from inputs to printed rows
// From traces to rows.
mod traces; // exports trace files to a lake
mod cache; // trace files that a lake has
mod tables; // a lake's tables, as the engine sees them
mod resources; // what a query may take of the machine
mod depth; // limits how deeply a query is nested
mod engine; // runs a query
// From rows to text.
mod progress; // how far the program is
mod output; // prints rows

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime;

use crate::args::Args;
use crate::error::QueryError;

/// The size of the stack of each thread, for expressions of the maximum depth. Memory that a stack does not need is
/// not used.
const STACK_BYTES: usize = 64 << 20;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        // As a shell reports a program that a signal has ended.
        Err(QueryError::Interrupted(signal)) => ExitCode::from(128 + signal),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<(), QueryError> {
    // The query is read before signals are, so that they end a wait for the standard input.
    let request = answer::Request::new(args)?;
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(QueryError::Runtime)?;
    let result = runtime.block_on(answer::answer(request));
    // After a signal, a query may still wait for its output.
    runtime.shutdown_background();
    result
}
