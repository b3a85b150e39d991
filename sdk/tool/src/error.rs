//! Errors that end a command.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tracezero_consumer::ConsumerError;
use tracezero_crash::RecoverError;
use tracezero_host::DaemonError;

/// The reason why a command failed. Faults that it finds in a trace are not errors.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ToolError {
    /// An input cannot be opened.
    Open { path: PathBuf, source: io::Error },
    /// An input cannot be read, or is not a trace.
    Read { path: PathBuf, message: String },
    /// A file cannot be written.
    Write { path: PathBuf, source: io::Error },
    /// The standard output cannot be written.
    Output(io::Error),
    /// Crash files cannot be recovered.
    Recover(RecoverError),
    /// Another program cannot take the place of this one.
    Execute { program: PathBuf, source: io::Error },
    /// The tracing daemon refuses, or cannot be reached.
    Consumer(ConsumerError),
    /// The system does not say whether the recorded program goes on.
    Program { source: io::Error },
    /// The daemon cannot start or go on.
    Daemon(DaemonError),
    /// The arguments are wrong, or do not fit together.
    Usage(String),
}

impl ToolError {
    /// Returns true if the reader of the output has gone, as with `| head`. This is not a failure.
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
            Self::Recover(source) => source.fmt(f),
            Self::Execute { program, source } => {
                write!(f, "{} cannot be run: {source}", program.display())
            }
            Self::Consumer(source) => source.fmt(f),
            Self::Program { source } => {
                write!(f, "the end of the program cannot be waited for: {source}")
            }
            Self::Daemon(source) => source.fmt(f),
            Self::Usage(message) => write!(f, "{message}"),
        }
    }
}

impl std::error::Error for ToolError {}

/// Returns an error with its causes.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
