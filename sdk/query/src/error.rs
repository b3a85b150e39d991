//! Errors that end the program.

use std::fmt;
use std::io;
use std::path::PathBuf;

use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use tracezero_lake::{LakeError, Table};

use crate::depth::MAX_DEPTH;

/// The reason why there is no answer.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum QueryError {
    /// The arguments are wrong, or do not fit together.
    Usage(String),
    /// A file cannot be opened, read or written.
    File { path: PathBuf, source: io::Error },
    /// A trace cannot be exported.
    Trace { path: PathBuf, source: LakeError },
    /// A folder is no lake.
    NotALake(PathBuf),
    /// A lake has no traces.
    EmptyLake(PathBuf),
    /// A file of a lake is no table.
    Table {
        path: PathBuf,
        source: DataFusionError,
    },
    /// The query names a table that does not exist.
    UnknownTable(String),
    /// The query is nested too deeply.
    TooDeep,
    /// The query would change something.
    NotARead(String),
    /// The engine refuses the query, or fails.
    Engine(DataFusionError),
    /// The system gives no threads or signals.
    Runtime(io::Error),
    /// The standard output cannot be written.
    Output(io::Error),
    /// A part of the program has panicked, and has said so.
    Panicked,
    /// A signal with this number asked the program to end.
    Interrupted(u8),
}

impl QueryError {
    /// Returns true if the reader of the output has gone, as with `| head`. This is not a failure.
    pub(crate) fn is_closed_output(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        Self::Engine(error)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => f.write_str(message),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Trace { path, source } => match source {
                // These name the file that has failed.
                LakeError::File { .. } | LakeError::Parquet { .. } => source.fmt(f),
                _ => write!(f, "{}: {source}", path.display()),
            },
            Self::NotALake(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path} is a folder but no lake, since it has no table `trace`; name trace files, or make a lake \
                     of them with `tracezero export parquet TRACES.. -o LAKE`"
                )
            }
            Self::EmptyLake(path) => {
                let path = path.display();
                write!(
                    f,
                    "lake {path} has no traces; add some with `tracezero export parquet TRACES.. -o {path}`"
                )
            }
            Self::Table { path, source } => {
                write!(f, "{}: ", path.display())?;
                write_engine_error(f, source.find_root())
            }
            Self::UnknownTable(name) => {
                let mut tables = Table::ALL.map(Table::name);
                tables.sort_unstable();
                write!(
                    f,
                    "there is no table {name}; tables are {}",
                    tables.join(", ")
                )
            }
            Self::TooDeep => write!(
                f,
                "the query has an expression of more than {MAX_DEPTH} levels; instead of many ORs, write IN (..)"
            ),
            Self::NotARead(message) => write!(f, "queries only read: {message}"),
            Self::Engine(error) => write_engine_error(f, error.find_root()),
            Self::Runtime(source) => write!(f, "the query cannot be started: {source}"),
            Self::Output(source) => write!(f, "the output cannot be written: {source}"),
            Self::Panicked => {
                f.write_str("the query has failed in a way that must not happen; please report it")
            }
            Self::Interrupted(signal) => write!(f, "ended by signal {signal}"),
        }
    }
}

impl std::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } | Self::Runtime(source) | Self::Output(source) => {
                Some(source)
            }
            Self::Trace { source, .. } => Some(source),
            Self::Table { source, .. } | Self::Engine(source) => Some(source),
            _ => None,
        }
    }
}

/// Writes an error without the engine's names for its stages, which tell a user nothing.
fn write_engine_error(f: &mut fmt::Formatter<'_>, error: &DataFusionError) -> fmt::Result {
    match error {
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
                write!(f, "the query is not SQL: {message}")
            }
            ParserError::RecursionLimitExceeded => f.write_str("the query is nested too deeply"),
        },
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound {
                field,
                valid_fields,
            } => {
                write!(f, "there is no column {}", field.quoted_flat_name())?;
                let columns = valid_fields.iter().map(Column::quoted_flat_name);
                match columns.collect::<Vec<_>>() {
                    columns if columns.is_empty() => f.write_str(" here"),
                    columns => write!(f, "; columns are {}", columns.join(", ")),
                }
            }
            error => write!(f, "{error}"),
        },
        DataFusionError::Plan(message) => f.write_str(message),
        DataFusionError::ResourcesExhausted(message) => {
            write!(
                f,
                "the query needs more memory than it may take; --memory raises the limit: {message}"
            )
        }
        error => f.write_str(&error.strip_backtrace()),
    }
}
