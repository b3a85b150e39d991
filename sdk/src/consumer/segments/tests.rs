//! Simulates a day of a session that records into segments. The test gives the time, and makes the
//! passes that a thread makes in a real session. Events and files are real.

use std::collections::HashSet;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use support::Folder;
use tracezero_core::ids::SessionId;
use tracezero_reader::{ArgValue, EventKind, Level, Record, TraceReader, check};
use tracezero_service::{SequenceAccount, SessionOwner, SessionRequest};

use super::files::Moment;
use super::{Rotation, Segment, SegmentFiles, Segments};
use crate::config::{TraceConfig, TrackEventConfig};
use crate::runtime::Runtime;
use crate::{BufferConfig, DataSourceConfig, Track, begin, counter, end, instant, span};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const TOTAL_BYTES: u64 = 4 << 20;
const SEGMENT_BYTES: u64 = 256 << 10;
const SEGMENT_DURATION: Duration = Duration::from_secs(600);

/// A session whose passes the test makes, at times that the test gives.
struct Simulated {
    runtime: &'static Runtime,
    id: SessionId,
    files: Arc<SegmentFiles>,
    rotation: Rotation,
    uptime: Arc<Mutex<Duration>>,
}

struct Owner;

impl SessionOwner for Owner {}

impl Simulated {
    fn start(folder: &Path, settings: &Segments) -> Self {
        // Other tests of this process record other categories.
        let events = TrackEventConfig::new().disable("*").enable("day");
        let mut config = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(1024))
            .add_data_source(DataSourceConfig::new("track_event").track_event(&events))
            .file_write_period(DAY);
        config.local.segment_bytes = Some(settings.bytes());
        let runtime = Runtime::of_process(None, None).unwrap();
        let id = runtime
            .service()
            .enable(SessionRequest {
                recording: Arc::new(config.recording().unwrap()),
                uid: 0,
                owner: Arc::new(Owner),
                writes_into_file: true,
                wake: Some(Arc::new(|| ())),
                crash_files: None,
            })
            .unwrap();
        let uptime = Arc::new(Mutex::new(Duration::ZERO));
        let of_clock = Arc::clone(&uptime);
        let clock = move || {
            let uptime = *of_clock.lock();
            Moment {
                time: UNIX_EPOCH + 20_000 * DAY + uptime,
                uptime,
            }
        };
        let files = SegmentFiles::with_clock(folder, settings, Arc::new(clock)).unwrap();
        let output = files.begin().unwrap();
        runtime.service().attach_output(id, output);
        let rotation = Rotation::new(id, Arc::clone(&files), settings);
        Self {
            runtime,
            id,
            files,
            rotation,
            uptime,
        }
    }

    fn uptime(&self) -> Duration {
        *self.uptime.lock()
    }

    /// Lets time pass, and then makes the passes that are due.
    fn pass_after(&mut self, time: Duration) {
        *self.uptime.lock() += time;
        let service = self.runtime.service();
        service.collect_before_next_write(self.id);
        loop {
            service.write_into_file(self.id).unwrap();
            if !self.rotation.after_pass(&service) {
                return;
            }
        }
    }

    /// Ends the session. Returns the packets that it began, and those that it lost.
    fn end(self) -> (u64, u64) {
        let service = self.runtime.service();
        service.disable(self.id);
        service.write_into_file(self.id).unwrap();
        let sequences = service.stats(self.id).unwrap().sequences;
        service.free(self.id);
        drop(self.rotation);
        let begun = sequences.iter().map(|it| it.begun).sum();
        (begun, sequences.iter().map(SequenceAccount::lost).sum())
    }
}

/// A small, deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What the segments of a session contain together.
#[derive(Default)]
struct Contents {
    segments: u64,
    /// The numbers of the instants.
    numbers: HashSet<u64>,
    twice: u64,
    packets_begun: u64,
    lost: u64,
    faults: Vec<String>,
    /// Segments that did not begin with the lists of their open slices.
    begins: u64,
    ends: u64,
}

impl Contents {
    /// Adds a segment, and checks it by itself.
    fn add(&mut self, segment: &Segment) {
        let trace = fs::read(segment.path()).unwrap();
        assert_eq!(trace.len() as u64, segment.bytes());
        self.segments += 1;
        let path = segment.path().display();
        let checked = check(&trace[..], |finding| {
            if finding.level == Level::Error {
                self.faults.push(format!("{path}: {finding}"));
            }
        });
        let events = checked.unwrap().events;
        let report = segment.report().unwrap();
        assert_eq!(report.events, events, "{path}");
        self.packets_begun += report.packets_begun;
        self.lost += report.losses.total();
        let mut reader = TraceReader::new(&trace[..]);
        while let Some(record) = reader.next().unwrap() {
            match record {
                Record::Event(event) => {
                    self.begins += u64::from(event.head.kind == EventKind::SliceBegin);
                    self.ends += u64::from(event.head.kind == EventKind::SliceEnd);
                    if let Some(ArgValue::Uint(number)) = event.args().find("number") {
                        self.twice += u64::from(!self.numbers.insert(number));
                    }
                }
                Record::Loss(loss) => self.faults.push(format!("{path}: {loss:?}")),
                Record::Skipped(skipped) => self.faults.push(format!("{path}: {skipped:?}")),
                _ => {}
            }
        }
    }
}

/// A thread that records when it is asked to, and is idle otherwise.
struct Worker {
    asks: mpsc::Sender<Vec<u64>>,
    done: mpsc::Receiver<()>,
    thread: thread::JoinHandle<()>,
}

impl Worker {
    fn start() -> Self {
        let (asks, asked) = mpsc::channel::<Vec<u64>>();
        let (tells, done) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut outer = None;
            for numbers in asked {
                // Spans that are open at cuts, some of them for hours.
                outer = match outer {
                    None => Some(span!("day", "outer")),
                    open if numbers.len() % 3 == 0 => {
                        drop(open);
                        None
                    }
                    open => open,
                };
                for number in numbers {
                    let _span = span!("day", "inner");
                    instant!("day", "step", number);
                    counter!("day", "steps", number);
                }
                tells.send(()).unwrap();
            }
        });
        Self { asks, done, thread }
    }

    fn record(&self, numbers: Vec<u64>) {
        self.asks.send(numbers).unwrap();
        self.done.recv().unwrap();
    }
}

fn size_of_files(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().map_or(0, |it| it.len()))
        .sum()
}

#[test]
fn a_day_of_segments_loses_nothing_and_keeps_its_budget() {
    let folder = Folder::empty();
    let contents = Arc::new(Mutex::new(Contents::default()));
    let (tells, seen) = mpsc::channel();
    let of_hook = Arc::clone(&contents);
    let settings = Segments::new()
        .segment_bytes(SEGMENT_BYTES)
        .segment_duration(SEGMENT_DURATION)
        .total_bytes(TOTAL_BYTES)
        .on_complete(move |segment| {
            of_hook.lock().add(segment);
            tells.send(()).unwrap();
        });
    let mut simulated = Simulated::start(folder.path(), &settings);
    let workers: Vec<Worker> = (0..3).map(|_| Worker::start()).collect();
    let mut random = Random(0x1234_5678_9abc);
    let mut next_number = 0;
    let mut numbers = |count: u64| {
        let first = next_number;
        next_number += count;
        (first..next_number).collect::<Vec<_>>()
    };
    let mut completed = 0;
    let mut open_tracks = Vec::new();
    while simulated.uptime() < DAY {
        for (index, worker) in workers.iter().enumerate() {
            // The last one records once in an hour or so.
            let bound = if index == 2 { 200 } else { 2 };
            if random.below(bound) == 0 {
                worker.record(numbers(random.below(200)));
            }
        }
        if random.below(20) == 0 {
            let track = Track::new("request");
            begin!("day", "request", track: &track);
            open_tracks.push(track);
        }
        if open_tracks.len() > 5 {
            let track = open_tracks.remove(0);
            end!("day", track: &track);
        }
        let pause = Duration::from_millis(200 + random.below(30_000));
        simulated.pass_after(pause);
        assert!(size_of_files(folder.path()) <= TOTAL_BYTES);
        // In a real session the function has time enough.
        let now_completed = simulated.files.counts().completed;
        for _ in mem::replace(&mut completed, now_completed)..now_completed {
            seen.recv().unwrap();
        }
        assert!(size_of_files(folder.path()) <= TOTAL_BYTES);
    }
    for worker in workers {
        drop(worker.asks);
        worker.thread.join().unwrap();
    }
    let files = Arc::clone(&simulated.files);
    let (begun, lost) = simulated.end();
    let contents = contents.lock();
    assert_eq!(contents.faults, Vec::<String>::new());
    assert_eq!((contents.twice, lost, contents.lost), (0, 0, 0));
    assert_eq!(contents.numbers.len() as u64, next_number);
    assert_eq!(contents.packets_begun, begun);
    let counts = files.counts();
    assert_eq!(
        (contents.segments, 0),
        (counts.completed, counts.removed_unseen)
    );
    assert!(counts.completed > 140, "{counts:?}");
    assert!(counts.removed > 100, "{counts:?}");
    assert!(contents.ends > 1000 && contents.begins >= contents.ends);
    let left: Vec<PathBuf> = fs::read_dir(folder.path())
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    assert!(
        left.iter()
            .all(|it| it.extension().is_some_and(|it| it == "pftrace"))
    );
}
