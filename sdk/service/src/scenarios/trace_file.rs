//! A file that a test writes a trace into.

use std::fs::File;

use support::Folder;

use super::harness::ReadTrace;
use crate::TraceOutput;

/// A file for one test. It is removed when this is dropped.
pub(super) struct TraceFile {
    folder: Folder,
}

impl TraceFile {
    pub(super) fn new() -> Self {
        Self {
            folder: Folder::empty(),
        }
    }

    /// Creates the file.
    pub(super) fn output(&self) -> TraceOutput {
        TraceOutput::new(File::create_new(self.folder.file("trace")).unwrap().into())
    }

    /// Reads what is in the file now.
    pub(super) fn read(&self) -> ReadTrace {
        ReadTrace::of(self.bytes())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.folder.read("trace")
    }
}
