//! Recorders for tests, and the content of their files.

use std::collections::HashSet;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use support::alone;
use tracezero::protos::TraceDecoder;
use tracezero::protos::trace_packet::{Data, SequenceFlags};
use tracezero::reader::{Finding, Level, check};
use tracezero::{FlightRecorder, FlightRecorderBuilder, instant};

/// A timeout that is reached only if saving hangs.
pub const SAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// An empty folder, and the lock that keeps other tests of the process from recording.
pub struct Folder {
    folder: support::Folder,
    _alone: MutexGuard<'static, ()>,
}

impl Folder {
    pub fn alone() -> Self {
        Self {
            _alone: alone(),
            folder: support::Folder::empty(),
        }
    }

    /// Returns a recorder with a ring of 256 KiB. It takes every requested snapshot, however slow
    /// the machine is.
    pub fn recorder(&self) -> FlightRecorderBuilder {
        FlightRecorder::builder()
            .ring_kib(256)
            .min_interval(Duration::ZERO)
            .save_timeout(SAVE_TIMEOUT)
            .directory(self.path())
    }

    /// Reads the only trace in the folder.
    pub fn only_trace(&self) -> Trace {
        let files = self.entries();
        assert_eq!(files.len(), 1, "{files:?}");
        Trace::of(&self.file(&files[0]))
    }
}

/// Repeats `work` until it took less than `limit`: if a thread was delayed, the result means
/// nothing.
pub fn within<R>(limit: Duration, mut work: impl FnMut() -> R) -> R {
    loop {
        let started = Instant::now();
        let result = work();
        if started.elapsed() < limit {
            return result;
        }
    }
}

impl Deref for Folder {
    type Target = support::Folder;

    fn deref(&self) -> &support::Folder {
        &self.folder
    }
}

/// Records a numbered event. Its name is written into the packet, so it needs no incremental state.
pub fn record(number: u64) {
    instant!("test", format!("event {number}"));
}

/// The content of a file.
pub struct Trace {
    /// The names of the events whose names were made at run time, in the order of the file.
    pub names: Vec<String>,
    /// The number of packets that need incremental state, on sequences that were not cleared
    /// before.
    pub unreadable: usize,
    /// The number of packets that report a loss before them.
    pub losses: usize,
    pub configs: usize,
    pub stats: usize,
    /// The two halves of each UUID.
    pub uuids: Vec<(Option<i64>, Option<i64>)>,
    /// The texts of arguments.
    pub texts: Vec<String>,
}

impl Trace {
    /// Reads a file. Panics if it is not a complete trace.
    pub fn of(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let mut errors = Vec::new();
        let note = |finding: &Finding| {
            if finding.level == Level::Error {
                errors.push(finding.to_string());
            }
        };
        check(&bytes[..], note).unwrap();
        assert_eq!(errors, [""; 0], "{}", path.display());
        let mut trace = Self {
            names: Vec::new(),
            unreadable: 0,
            losses: 0,
            configs: 0,
            stats: 0,
            uuids: Vec::new(),
            texts: Vec::new(),
        };
        let mut started = HashSet::new();
        let mut introduced = HashSet::new();
        for packet in TraceDecoder::new(&bytes).packet() {
            let packet = packet.unwrap();
            let sequence = packet.trusted_packet_sequence_id().unwrap().unwrap();
            if packet.trusted_uid().unwrap().is_some() {
                introduced.insert(sequence);
            }
            assert!(introduced.contains(&sequence), "{sequence}: of whom?");
            if packet.previous_packet_dropped().unwrap().unwrap_or(0) != 0 {
                started.remove(&sequence);
                trace.losses += 1;
            }
            let flags = packet.sequence_flags().unwrap().unwrap_or(0) as i32;
            if flags & SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 != 0 {
                started.insert(sequence);
            }
            if flags & SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 != 0
                && !started.contains(&sequence)
            {
                trace.unreadable += 1;
                continue;
            }
            match packet.data().unwrap() {
                Some(Data::TraceConfig(_)) => trace.configs += 1,
                Some(Data::TraceStats(_)) => trace.stats += 1,
                Some(Data::TraceUuid(uuid)) => {
                    trace.uuids.push((uuid.msb().unwrap(), uuid.lsb().unwrap()));
                }
                Some(Data::TrackEvent(event)) => {
                    let name = event.name().unwrap().map(str::to_owned);
                    trace.names.extend(name);
                    for annotation in event.debug_annotations() {
                        let text = annotation.unwrap().string_value().unwrap();
                        trace.texts.extend(text.map(str::to_owned));
                    }
                }
                _ => {}
            }
        }
        trace
    }

    /// Returns the numbers of the events that `record` made, in the order of the file.
    pub fn numbers(&self) -> Vec<u64> {
        let numbers = self.names.iter().filter_map(|it| it.strip_prefix("event "));
        numbers.map(|number| number.parse().unwrap()).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|other| other == name)
    }
}
