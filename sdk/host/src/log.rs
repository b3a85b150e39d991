//! The log of a daemon.

use std::fmt;
use std::sync::Arc;

/// What a daemon tells whoever runs it, line by line. A peer cannot flood the log: what it does
/// wrong is told once for each connection.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// Creates a log that passes its lines to `write`, without a line end.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    pub(crate) fn line(&self, line: fmt::Arguments<'_>) {
        (self.0)(&line.to_string());
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}
