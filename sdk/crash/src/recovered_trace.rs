//! A trace that was made of crash files.

use std::path::PathBuf;

use tracezero_service::SequenceAccount;

/// A trace that was recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveredTrace {
    /// The trace file.
    pub path: PathBuf,
    /// The size of the file.
    pub size_bytes: u64,
    /// The number of packets of writers.
    pub packets: u64,
    /// The number of track events.
    pub events: u64,
    /// The account of each sequence: how many packets are in the trace, and why others are not.
    pub sequences: Vec<SequenceAccount>,
    /// The damaged places of the files, each as a text. A kill damages nothing.
    pub damages: Vec<String>,
}

impl RecoveredTrace {
    /// Returns the number of packets that the process began, and that are neither in the trace nor part
    /// of a state that the trace begins with.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        let lost = |account: &SequenceAccount| account.begun - account.read - account.folded;
        self.sequences.iter().map(lost).sum()
    }

    /// Returns the number of packets that are part of a state that the trace begins with.
    #[must_use]
    pub fn folded_packets(&self) -> u64 {
        self.sequences.iter().map(|account| account.folded).sum()
    }
}
