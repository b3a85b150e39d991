//! The command `tracezero`: records programs, checks, converts, merges and recovers traces, and inspects
//! processes.
//!
//! Commands read traces packet by packet, so files may be of any size. `merge`, and `view` with
//! `--from` or `--to`, read a trace twice; the others read it once.

mod by_name; // rows by name and category
mod cat; // prints packets as text
mod check; // checks traces
mod compress; // compresses packets, and unpacks them
mod daemon; // serves other processes
mod diff; // compares traces
mod error; // errors that end a command
mod export; // exports traces as tables
mod flamegraph; // draws where time goes
mod lake; // looks after lakes
mod input; // reads a file or the standard input
mod inspect; // prints what a process is in the middle of
mod kernel_account; // what a trace has of the kernel
mod merge; // merges traces
mod outline; // prints what happened, without times and ids
mod output; // writes the standard output and files
mod packets; // reads packets and reports damage
mod probes; // offers the kernel's half to the machine's daemon
mod query; // answers SQL queries, by another program
mod record; // records a program or the machine
mod recover; // makes traces of crash files
mod schema; // names of messages and fields
mod shell; // completions and manual pages
mod signals; // signals that ask this command to end
mod snapshot; // writes what a session has so far
mod stacks; // nested spans as trees of names
mod states; // states of overwritten packets
mod status; // prints what the daemon has
mod stop; // ends a detached session
mod summary; // prints tables of a trace
mod table; // formats text in columns
mod thread_states; // joins spans with states of threads
mod trace_file; // writes packets to a trace file
mod tracks; // names of tracks
mod trigger; // activates triggers of sessions
mod units; // formats numbers with units
mod view; // writes an HTML page that shows a trace
mod why; // tells what a span waited for

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::ToolError;

/// Records programs, inspects, checks, converts, merges and recovers Perfetto traces, and looks into
/// processes.
///
/// Traces are read packet by packet, so files may be of any size; `-` is the standard input. Damage
/// in a file is reported on the standard error, and the rest of the file is read.
#[derive(Debug, Parser)]
#[command(
    name = "tracezero",
    version,
    after_help = "Exit status: 0 if all is well, 1 if something is wrong with a trace, 2 if it could \
                  not be read at all or the command was called wrongly. `record` has further ones."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Summary(summary::Args),
    Diff(diff::Args),
    Why(why::Args),
    Check(check::Args),
    Outline(outline::Args),
    Flamegraph(flamegraph::Args),
    Cat(cat::Args),
    #[command(subcommand)]
    Export(export::Command),
    #[command(subcommand)]
    Lake(lake::Command),
    Query(query::Args),
    Merge(merge::Args),
    Compress(compress::CompressArgs),
    Decompress(compress::DecompressArgs),
    View(view::Args),
    Recover(recover::Args),
    Inspect(inspect::Args),
    Record(record::Args),
    Probes(probes::Args),
    Status(status::Args),
    Snapshot(snapshot::Args),
    Stop(stop::Args),
    Trigger(trigger::Args),
    Daemon(daemon::Args),
    Completions(shell::CompletionsArgs),
    Manual(shell::ManualArgs),
}

/// The result of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// The trace has faults.
    Findings,
    /// The command ends with this exit status.
    Status(u8),
}

fn main() -> ExitCode {
    let outcome = match daemon::is_called_traced() {
        true => daemon::run_as_traced(),
        false => run(Cli::parse().command),
    };
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Ok(Outcome::Status(status)) => ExitCode::from(status),
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<Outcome, ToolError> {
    match command {
        Command::Summary(args) => summary::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Outline(args) => outline::run(&args),
        Command::Flamegraph(args) => flamegraph::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Export(command) => export::run(&command),
        Command::Lake(command) => lake::run(&command),
        Command::Query(args) => query::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Compress(args) => compress::compress(&args),
        Command::Decompress(args) => compress::decompress(&args),
        Command::View(args) => view::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Probes(args) => probes::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Trigger(args) => trigger::run(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Manual(args) => shell::manual(&args),
    }
}
