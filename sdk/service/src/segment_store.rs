//! The owner's place for segments.

use std::fmt;
use std::io;

use super::packet_framer::ReadCounts;
use super::sequence_account::SequenceAccount;

/// The place for the files of segments. The service calls it without a lock, from the thread that
/// writes the files.
pub trait SegmentStore: Send + Sync + fmt::Debug {
    /// Makes room for more bytes in the files that are open. Returns false if that is impossible:
    /// packets are then left out.
    fn make_room(&self, bytes: u64) -> bool;

    /// Makes room on a disk that is full, as `error` says. Returns false if there is nothing to
    /// remove: packets are then left out.
    fn make_room_on_disk(&self, error: &io::Error) -> bool;

    /// Tells that a segment has ended, the oldest one first. Its file is closed.
    fn segment_ended(&self, ended: EndedSegment);
}

/// A segment that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct EndedSegment {
    /// The size of the file.
    pub bytes: u64,
    /// The number of packets of writers in the segment.
    pub counts: ReadCounts,
    /// The accounts of the packets of this segment alone.
    pub sequences: Vec<SequenceAccount>,
    /// The error of writing the file, unless the caller of [`Service::write_into_file`](crate::Service::write_into_file) gets it. The
    /// file then lacks its end.
    pub outcome: io::Result<()>,
}
