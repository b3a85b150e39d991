//! A file that a test has a trace written into.

use std::fs::File;

use support::Folder;

use super::harness::ReadTrace;
use crate::TraceOutput;

/// A file of its own for each test, removed with this.
pub(super) struct TraceFile {
    folder: Folder,
}

impl TraceFile {
    pub(super) fn new() -> Self {
        Self {
            folder: Folder::empty(),
        }
    }

    /// The file, created.
    pub(super) fn output(&self) -> TraceOutput {
        TraceOutput::new(File::create_new(self.folder.file("trace")).unwrap().into())
    }

    /// What is in the file by now.
    pub(super) fn read(&self) -> ReadTrace {
        ReadTrace::of(self.bytes())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.folder.read("trace")
    }
}
