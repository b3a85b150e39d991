//! The arguments of the program.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use tracezero_lake::Promoted;

use crate::error::QueryError;
use crate::resources;

/// Answers SQL queries over traces, and over lakes of traces
///
/// The inputs are trace files, or one lake: a folder that `tracezero export parquet` has written. Tables are the
/// same: trace, trace_attr, process, thread, track, slice, counter, flow, args, thread_state, loss, stats and
/// finding. Each has the columns trace_id, day and service. `DESCRIBE slice` tells the columns of a table.
///
/// Trace files are exported to a lake in the temporary directory first, which is removed at the end. --cache keeps
/// it. The SQL is that of DataFusion. Queries only read.
#[derive(Debug, Parser)]
#[command(
    name = "tracezero-query",
    version,
    after_help = "\
Percentiles: approx_percentile_cont(dur, 0.99) is fast, percentile_cont(dur, 0.99) is exact and keeps all
values in memory. Slices that are open have the duration -1.

Example: tracezero query \"SELECT name, count(*), approx_percentile_cont(dur, 0.99) AS p99
    FROM slice WHERE dur >= 0 GROUP BY name ORDER BY p99 DESC LIMIT 20\" *.pftrace

Exit status: 0 if there is an answer, 2 if there is none."
)]
pub(crate) struct Args {
    /// The query, or - for the standard input, or @FILE for a file
    sql: String,
    /// Trace files, or a lake; - is a trace from the standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Arguments of slices that get a column of their own in table slice, each with a type: int, real or text
    ///
    /// Argument http.status becomes column a_http_status. Without a type, it is text. The columns of a lake were
    /// chosen when it was exported.
    #[arg(long, value_name = "NAME[:TYPE],..")]
    pub(crate) promote: Option<String>,
    /// A lake that keeps the tables of the trace files
    ///
    /// The next query over the same files does not read them again, unless their size or time of change is
    /// another. The lake can be queried like others, too.
    #[arg(long, value_name = "LAKE")]
    pub(crate) cache: Option<PathBuf>,
    /// The memory that rows may take, in MiB; what is beyond goes to the temporary directory
    ///
    /// The default is three quarters of the memory that is available.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for readers; too wide ones are cut on a terminal
    Table,
    /// Comma-separated values with a head line; NULL is empty, and an empty text is ""
    Csv,
    /// An array of objects, one per line
    Json,
}

/// What is queried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Lake(PathBuf),
    Traces(Vec<PathBuf>),
}

impl Args {
    /// Tells what is queried.
    ///
    /// # Errors
    ///
    /// If a file does not exist, or options do not fit to it.
    pub(crate) fn input(&self) -> Result<Input, QueryError> {
        let lake = self.inputs.iter().find(|path| path.is_dir());
        let Some(lake) = lake else {
            for path in self.inputs.iter().filter(|path| *path != Path::new("-")) {
                fs::metadata(path).map_err(|source| QueryError::File {
                    path: path.clone(),
                    source,
                })?;
            }
            if self.sql == "-" && self.inputs.iter().any(|path| path == Path::new("-")) {
                let message = "the query and a trace cannot both be the standard input";
                return Err(QueryError::Usage(message.to_owned()));
            }
            return Ok(Input::Traces(self.inputs.clone()));
        };
        let name = lake.display();
        let message = match (&self.inputs[..], &self.promote, &self.cache) {
            ([_], None, None) => return Ok(Input::Lake(lake.clone())),
            ([_], Some(_), _) => format!(
                "--promote is for trace files: the columns of lake {name} were chosen when it was exported"
            ),
            ([_], None, Some(_)) => format!("--cache is for trace files, but {name} is a folder"),
            _ => {
                format!("folder {name} must be the only input; several inputs must be trace files")
            }
        };
        Err(QueryError::Usage(message))
    }

    /// Returns the arguments that get a column.
    ///
    /// # Errors
    ///
    /// If the list is wrong.
    pub(crate) fn promoted(&self) -> Result<Promoted, QueryError> {
        let list = self.promote.as_deref().unwrap_or_default();
        Promoted::parse(list).map_err(|error| QueryError::Usage(error.to_string()))
    }

    /// Returns the memory that rows may take. `None` if there is no limit.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let given = self.memory.map(|mib| mib.saturating_mul(1 << 20));
        given.or_else(resources::default_memory_bytes)
    }

    /// Returns the text of the query.
    ///
    /// # Errors
    ///
    /// If it is in a file that cannot be read.
    pub(crate) fn sql(&self) -> Result<String, QueryError> {
        let read = |path: &str, text: io::Result<String>| {
            text.map_err(|source| QueryError::File {
                path: path.into(),
                source,
            })
        };
        match self.sql.strip_prefix('@') {
            Some(path) => read(path, fs::read_to_string(path)),
            None if self.sql == "-" => {
                let mut text = String::new();
                let result = io::stdin().lock().read_to_string(&mut text);
                read("-", result.map(|_| text))
            }
            None => Ok(self.sql.clone()),
        }
    }
}
