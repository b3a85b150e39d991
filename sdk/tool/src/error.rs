//! What keeps a command from doing its work.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a command gave up. What it found in a trace is no error.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ToolError {
    /// An input cannot be opened.
    Open { path: PathBuf, source: io::Error },
    /// An input cannot be read, or is no trace.
    Read { path: PathBuf, message: String },
    /// A file cannot be written.
    Write { path: PathBuf, source: io::Error },
    /// The standard output cannot be written.
    Output(io::Error),
    /// The arguments do not go together.
    Usage(String),
}

impl ToolError {
    /// Whether nobody reads the output any more, as behind `| head`: no failure.
    pub(crate) fn is_closed_output(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => {
                write!(f, "{} cannot be opened: {source}", path.display())
            }
            Self::Read { path, message } => write!(f, "{}: {message}", path.display()),
            Self::Write { path, source } => {
                write!(f, "{} cannot be written: {source}", path.display())
            }
            Self::Output(source) => write!(f, "the output cannot be written: {source}"),
            Self::Usage(message) => write!(f, "{message}"),
        }
    }
}

impl std::error::Error for ToolError {}
