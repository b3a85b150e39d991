//! Answers SQL queries, by another program.
//!
//! The engine weighs more than all of this command. So it is in the program `tracezero-query`, which users install if
//! they want it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::error::ToolError;

const PROGRAM: &str = "tracezero-query";

/// Answers SQL queries over traces, and over lakes of traces
///
/// The inputs are trace files, or one lake: a folder that `export parquet` has written. Tables are the same: trace,
/// trace_attr, process, thread, track, slice, counter, flow, args, thread_state, loss, stats and finding. Each has
/// the columns trace_id, day and service. `DESCRIBE slice` tells the columns of a table.
///
/// This runs the program tracezero-query, which is beside this command or on PATH. It is installed apart, because
/// its engine, DataFusion, takes minutes to build: `cargo install tracezero-query`, or `cargo install --path
/// sdk/query` in a copy of the repository.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example: tracezero query \"SELECT name, count(*), approx_percentile_cont(dur, 0.99) AS p99
    FROM slice WHERE dur >= 0 GROUP BY name ORDER BY p99 DESC LIMIT 20\" *.pftrace

`tracezero-query --help` tells more.")]
pub(crate) struct Args {
    /// The query, or - for the standard input, or @FILE for a file
    sql: OsString,
    /// Trace files, or a lake; - is a trace from the standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// How rows are printed
    #[arg(long, value_parser = ["table", "csv", "json"], default_value = "table")]
    format: String,
    /// Arguments of slices that get a column of their own in table slice, each with a type: int, real or text
    #[arg(long, value_name = "NAME[:TYPE],..")]
    promote: Option<String>,
    /// A lake that keeps the tables of the trace files, so that the next query is faster
    #[arg(long, value_name = "LAKE")]
    cache: Option<PathBuf>,
    /// The memory that rows may take, in MiB; what is beyond goes to the temporary directory
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, ToolError> {
    let own_path = env::current_exe().unwrap_or_default();
    let beside = own_path.with_file_name(PROGRAM);
    let program = match beside.is_file() {
        true => beside,
        false => PROGRAM.into(),
    };
    // Returns only if that fails.
    let source = command(&program, args).exec();
    Err(match source.kind() {
        io::ErrorKind::NotFound => ToolError::Usage(format!(
            "the program {PROGRAM} is not installed; install it with `cargo install {PROGRAM}`, or with \
             `cargo install --path sdk/query` in a copy of the repository"
        )),
        _ => ToolError::Execute { program, source },
    })
}

/// Returns the program with the same arguments.
fn command(program: &Path, args: &Args) -> Command {
    let mut command = Command::new(program);
    command.arg("--format").arg(&args.format);
    if let Some(promote) = &args.promote {
        command.arg("--promote").arg(promote);
    }
    if let Some(cache) = &args.cache {
        command.arg("--cache").arg(cache);
    }
    if let Some(memory) = args.memory {
        command.arg("--memory").arg(memory.to_string());
    }
    command.arg("--").arg(&args.sql).args(&args.inputs);
    command
}
