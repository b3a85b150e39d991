//! A file that a test has a trace written into.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::harness::ReadTrace;
use crate::TraceOutput;

/// A file of its own for each test, removed with this.
pub(super) struct TraceFile {
    path: PathBuf,
}

impl TraceFile {
    pub(super) fn new() -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a number that nobody else has, ordered with nothing.
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let name = format!("tracezero-scenario-{}-{number}", std::process::id());
        Self {
            path: std::env::temp_dir().join(name),
        }
    }

    /// The file, created.
    pub(super) fn output(&self) -> TraceOutput {
        TraceOutput::new(File::create_new(&self.path).unwrap().into())
    }

    /// What is in the file by now.
    pub(super) fn read(&self) -> ReadTrace {
        ReadTrace::of(fs::read(&self.path).unwrap())
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // A test that failed early has not created it.
        let _ = fs::remove_file(&self.path);
    }
}
