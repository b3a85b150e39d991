//! Errors of exports.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use tracezero_reader::ReadError;

/// An export, or another change of a lake, that failed. The lake is as it was before.
#[derive(Debug)]
#[non_exhaustive]
pub enum LakeError {
    /// The trace could not be read.
    Read(ReadError),
    /// A file or folder of the lake could not be read or written.
    File {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file of the lake is not what an export writes.
    Parquet {
        /// The path of the file.
        path: PathBuf,
        /// The error of the library.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The trace is in a file of the lake that has several traces, with other promoted columns or under
    /// another name of its service.
    Compacted {
        /// The id of the trace.
        trace_id: String,
    },
    /// Two promoted arguments would have the same column.
    SameColumn {
        /// The name of the column.
        column: String,
    },
    /// An argument to promote has a type that does not exist.
    UnknownType {
        /// The name of the argument.
        argument: String,
        /// The type.
        given: String,
    },
}

impl LakeError {
    /// Returns a function that makes an error about the file at `path`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File {
            path: path.clone(),
            source,
        }
    }

    /// Returns a function that makes an error of the library about the file at `path`.
    pub(crate) fn in_parquet(path: &Path) -> impl Fn(ParquetError) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Parquet {
            path: path.clone(),
            source: Box::new(source),
        }
    }
}

impl From<ReadError> for LakeError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl fmt::Display for LakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Parquet { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Compacted { trace_id } => write!(
                f,
                "trace {trace_id} was exported with other promoted arguments or another service, and \
                 `lake compact` has joined it with other traces; export it with the same ones, or to \
                 another lake"
            ),
            Self::SameColumn { column } => write!(
                f,
                "two promoted arguments would both be the column {column}; promote one of them"
            ),
            Self::UnknownType { argument, given } => write!(
                f,
                "argument {argument} cannot be promoted as {given}; the types are int, real and text"
            ),
        }
    }
}

impl Error for LakeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::File { source, .. } => Some(source),
            Self::Parquet { source, .. } => Some(source.as_ref()),
            Self::Compacted { .. } | Self::SameColumn { .. } | Self::UnknownType { .. } => None,
        }
    }
}
