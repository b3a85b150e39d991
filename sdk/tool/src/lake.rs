//! Looks after lakes: folders of tables that traces were exported to.

use std::path::PathBuf;

use tracezero_lake::{Lake, Table};

use crate::Outcome;
use crate::error::ToolError;
use crate::export::lake_error;
use crate::units::{bytes, plural};

/// Looks after a lake that `export parquet` has written
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example: tracezero lake compact lake")]
pub(crate) enum Command {
    Compact(CompactArgs),
}

/// Joins small files of a lake
///
/// Each trace has a file per table, and engines take much longer to open a file than to read few rows. This joins
/// the files of each table, day and service that have the same columns, into files of up to 128 MiB. No row is
/// lost or doubled, even if the command is killed: the next command that opens the lake completes the change.
///
/// Do not query the lake at the same time: a query may find rows twice, or not at all. Traces whose files were
/// joined are not exported again, and cannot be replaced.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tracezero lake compact lake")]
pub(crate) struct CompactArgs {
    /// The folder of the lake
    lake: PathBuf,
}

pub(crate) fn run(command: &Command) -> Result<Outcome, ToolError> {
    let Command::Compact(CompactArgs { lake: path }) = command;
    let failed = |error| lake_error(path, error);
    // Completes an export that was killed, which may only then have created the tables.
    let lake = match path.is_dir() {
        true => Some(Lake::open(path).map_err(failed)?),
        false => None,
    };
    let has_tables = path.join(Table::Trace.name()).is_dir();
    let Some(mut lake) = lake.filter(|_| has_tables) else {
        let message = format!(
            "{} is not the folder of a lake: it has no table trace",
            path.display()
        );
        return Err(ToolError::Usage(message));
    };
    let compacted = lake.compact().map_err(failed)?;
    match compacted.files_before {
        0 => eprintln!("no small files to join"),
        before => eprintln!(
            "{} of {} joined into {} of {}",
            plural(before, "file"),
            bytes(compacted.bytes_before),
            plural(compacted.files_after, "file"),
            bytes(compacted.bytes_after),
        ),
    }
    Ok(Outcome::Fine)
}
