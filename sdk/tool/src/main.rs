//! The command `tracezero`: looks into traces, checks, converts and merges them.
//!
//! Every command reads its trace once, packet by packet, so that files may be of any size.

mod cat; // packets as text
mod check; // whether traces are right
mod compress; // packets into compressed ones, and back
mod error; // what keeps a command from doing its work
mod flamegraph; // where time goes
mod input; // traces that are read
mod merge; // several traces to one
mod outline; // what happened, without times and ids
mod output; // what is written
mod packets; // the packets of a trace, with what is said about damage
mod schema; // what messages and fields are called
mod summary; // a trace in tables
mod table; // text in columns
mod trace_file; // packets that are written
mod tracks; // what to call tracks
mod units; // numbers with units
mod view; // a page to look at a trace

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks into Perfetto traces, checks, converts and merges them.
///
/// Traces are read packet by packet, so files may be of any size; `-` is the standard input.
/// What is damaged in a file is named on the standard error, and the rest is read.
#[derive(Debug, Parser)]
#[command(
    name = "tracezero",
    version,
    after_help = "Exit status: 0 if all is well, 1 if something is wrong with a trace, 2 if it could \
                  not be read at all or the command was called wrongly."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Summary(summary::Args),
    Check(check::Args),
    Outline(outline::Args),
    Flamegraph(flamegraph::Args),
    Cat(cat::Args),
    Merge(merge::Args),
    Compress(compress::CompressArgs),
    Decompress(compress::DecompressArgs),
    View(view::Args),
}

/// What a command has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// Something is wrong with the trace.
    Findings,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Summary(args) => summary::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Outline(args) => outline::run(&args),
        Command::Flamegraph(args) => flamegraph::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Compress(args) => compress::compress(&args),
        Command::Decompress(args) => compress::decompress(&args),
        Command::View(args) => view::run(&args),
    };
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
