//! The recordings in a trace, and how each ended.
//!
//! This SDK marks the begin and the end of each recording with a packet. Other producers do not, so
//! nothing is reported for their recordings. The service writes the end mark last
//! (`Service::write_into_file`, `Service::read`). So a recording was cut off if the trace has its
//! begin mark but not its end mark. `tests/judge/tests/processes/endings.rs` checks this.

use std::fmt;

use tracezero_core::protos::sequences::RecordingBoundaryDecoder;
use tracezero_core::protos::sequences::recording_boundary::Kind;

/// The number of the packet field that marks the begin or the end of a recording.
pub(super) const RECORDING_BOUNDARY: u32 = 1991;

/// The maximum number of recordings that are stored; further ones are ignored. A merged trace has
/// several.
const RECORDINGS_MAX: usize = 1000;

/// A recording of this SDK in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    id: u64,
    begin_ns: u64,
    /// The time and kind of the end mark, once it was read.
    end: Option<(u64, Kind)>,
}

/// Tells how a recording ended: completely, early, or cut off. Read the whole trace first. Until
/// the reader has read the recording's end mark, the recording counts as [`CutOff`](Self::CutOff).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingEnd {
    /// The recording is complete, apart from losses that the trace reports.
    Whole,
    /// The file reached its maximum size.
    FileFull {
        /// The duration of the recording until then, in nanoseconds.
        after_ns: u64,
    },
    /// Writing the file failed.
    WriteFailed {
        /// The duration of the recording until then, in nanoseconds.
        after_ns: u64,
    },
    /// The process was killed, and the trace was made from its crash files.
    Recovered {
        /// The duration of the recording up to the latest time in the trace, in nanoseconds.
        after_ns: u64,
    },
    /// The end is missing: the process was killed or aborted, or the file was truncated.
    CutOff {
        /// The duration of the recording up to the latest time in the trace, in nanoseconds.
        after_ns: u64,
    },
}

impl RecordingEnd {
    /// Returns true if the recording ended early because of an error. A file that reached its
    /// maximum size is not an error: the application asked for the limit.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::WriteFailed { .. } | Self::CutOff { .. })
    }
}

/// Formats as one line, such as `recording was cut off after 2.31 s`.
impl fmt::Display for RecordingEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |after_ns: &u64| *after_ns as f64 / 1e9;
        match self {
            Self::Whole => f.write_str("recording is complete"),
            Self::FileFull { after_ns } => write!(
                f,
                "recording ended after {:.2} s: the file reached its size limit",
                seconds(after_ns)
            ),
            Self::WriteFailed { after_ns } => write!(
                f,
                "recording ended after {:.2} s: writing to the file failed",
                seconds(after_ns)
            ),
            Self::Recovered { after_ns } => write!(
                f,
                "recording was recovered: the process was killed after {:.2} s",
                seconds(after_ns)
            ),
            Self::CutOff { after_ns } => {
                write!(f, "recording was cut off after {:.2} s", seconds(after_ns))
            }
        }
    }
}

/// The recordings of a trace, as far as it has been read.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    /// The recordings, in the order in which their begin marks were read.
    recordings: Vec<Recording>,
    /// The latest time in the trace.
    last_ns: u64,
}

impl Recordings {
    /// Notes the time of a packet.
    #[inline]
    pub(super) fn note_time(&mut self, timestamp_ns: u64) {
        self.last_ns = self.last_ns.max(timestamp_ns);
    }

    /// Adds a begin or end mark. A malformed one is ignored.
    pub(super) fn add(&mut self, payload: &[u8], timestamp_ns: u64) {
        let boundary = RecordingBoundaryDecoder::new(payload);
        let (Ok(Some(id)), Ok(Some(kind))) = (boundary.recording_id(), boundary.kind()) else {
            return;
        };
        let has_room = self.recordings.len() < RECORDINGS_MAX;
        let known = self.recordings.iter_mut().find(|it| it.id == id);
        match (kind, known) {
            // A snapshot of a session with a file is a copy of the file, followed by the packets of
            // a clone. The clone has the same id, and writes a begin mark of its own.
            (Kind::BEGIN, Some(known)) => known.end = None,
            (Kind::BEGIN, None) if has_room => {
                self.recordings.push(Recording {
                    id,
                    begin_ns: timestamp_ns,
                    end: None,
                });
            }
            // A recovery may come much later, so its own time says nothing.
            (Kind::END_RECOVERED, Some(known)) => known.end = Some((self.last_ns, kind)),
            (Kind::END | Kind::END_FILE_FULL | Kind::END_WRITE_FAILED, Some(known)) => {
                known.end = Some((timestamp_ns, kind));
            }
            _ => {}
        }
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = RecordingEnd> {
        self.recordings.iter().map(|recording| {
            let until = |time_ns: u64| time_ns.saturating_sub(recording.begin_ns);
            match recording.end {
                None => RecordingEnd::CutOff {
                    after_ns: until(self.last_ns),
                },
                Some((end_ns, Kind::END_FILE_FULL)) => RecordingEnd::FileFull {
                    after_ns: until(end_ns),
                },
                Some((end_ns, Kind::END_RECOVERED)) => RecordingEnd::Recovered {
                    after_ns: until(end_ns),
                },
                Some((end_ns, Kind::END_WRITE_FAILED)) => RecordingEnd::WriteFailed {
                    after_ns: until(end_ns),
                },
                Some(_) => RecordingEnd::Whole,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use protozero::HeapBuffered;

    use super::*;
    use tracezero_core::protos::sequences::RecordingBoundary;

    fn boundary(id: u64, kind: Kind) -> Vec<u8> {
        let mut buffer = HeapBuffered::<RecordingBoundary<'_>>::new();
        {
            let mut out = buffer.message();
            out.set_recording_id(id);
            out.set_kind(kind);
        }
        buffer.to_vec()
    }

    #[test]
    fn merged_recordings_end_separately() {
        let mut recordings = Recordings::default();
        recordings.add(&boundary(1, Kind::BEGIN), 100);
        recordings.add(&boundary(2, Kind::BEGIN), 1_000);
        recordings.add(&boundary(3, Kind::BEGIN), 1_000);
        recordings.add(&boundary(2, Kind::END), 2_000);
        recordings.add(&boundary(3, Kind::END_WRITE_FAILED), 3_000);
        recordings.note_time(2_310_000_100);
        let ends: Vec<_> = recordings.ends().collect();
        let texts: Vec<_> = ends.iter().map(ToString::to_string).collect();
        assert_eq!(texts[0], "recording was cut off after 2.31 s");
        assert_eq!(ends[1], RecordingEnd::Whole);
        assert_eq!(ends[2], RecordingEnd::WriteFailed { after_ns: 2_000 });
    }

    #[test]
    fn repeated_begin_mark_needs_an_end_behind_it() {
        let mut recordings = Recordings::default();
        recordings.add(&boundary(1, Kind::BEGIN), 100);
        recordings.add(&boundary(1, Kind::BEGIN), 200);
        assert!(recordings.ends().all(|end| end.is_error()));
        recordings.add(&boundary(1, Kind::END), 300);
        assert!(recordings.ends().all(|end| end == RecordingEnd::Whole));
    }

    #[test]
    fn traces_without_begin_marks_have_no_recordings() {
        let mut recordings = Recordings::default();
        recordings.note_time(1_000);
        recordings.add(&boundary(1, Kind::END), 300);
        recordings.add(b"\xff", 300);
        assert_eq!(recordings.ends().count(), 0);
    }
}
