//! A complete segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::report::Report;

/// A complete segment of a recording, a trace of its own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Segment {
    path: PathBuf,
    bytes: u64,
    started: SystemTime,
    ended: SystemTime,
    report: Option<Report>,
    is_removed: Arc<AtomicBool>,
}

impl Segment {
    pub(super) fn new(
        path: PathBuf,
        bytes: u64,
        started: SystemTime,
        ended: SystemTime,
        report: Option<Report>,
    ) -> Self {
        Self {
            path,
            bytes,
            started,
            ended,
            report,
            is_removed: Arc::default(),
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the time when the segment began.
    #[must_use]
    pub const fn started(&self) -> SystemTime {
        self.started
    }

    /// Returns the time when the segment ended. The next one has begun up to ten seconds earlier:
    /// each thread changes at a moment of its own.
    #[must_use]
    pub const fn ended(&self) -> SystemTime {
        self.ended
    }

    /// Returns the report of this segment alone: its events, and the packets that are missing in it.
    /// `None` for a segment that a killed process has left.
    #[must_use]
    pub const fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Returns true if the file was removed because the folder had no room, or because it became too
    /// old.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        // Relaxed: no other memory access depends on it.
        self.is_removed.load(Ordering::Relaxed)
    }

    pub(super) fn note_removed(&self) {
        // Relaxed: see `is_removed`.
        self.is_removed.store(true, Ordering::Relaxed);
    }
}
