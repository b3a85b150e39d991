//! `tracezero merge` of files that have the same packets.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::Value as Json;
use support::{Folder, alone};
use tracezero::reader::{EventHead, Record, TraceReader};
use tracezero::{
    BufferConfig, DataSourceConfig, FlightRecorder, TraceConfig, Track, TrackEventConfig, instant,
    span,
};

use crate::process::{Run, run, run_with_input};

/// The number of threads that record.
const THREADS: usize = 3;

/// The events of each track, in the order of the file: their times, kinds, names and arguments.
type Events = BTreeMap<u64, Vec<String>>;

fn merge(files: &Folder, inputs: &[&Path], options: &[&str]) -> (Run, Vec<u8>) {
    let out = files.file("merged");
    let mut args = vec!["merge", "-o", out.to_str().unwrap()];
    args.extend(inputs.iter().map(|path| path.to_str().unwrap()));
    args.extend(options);
    let run = run(&args);
    assert_eq!(run.status, 0, "{run:?}");
    (run, files.read("merged"))
}

fn events(trace: &[u8]) -> Events {
    let mut reader = TraceReader::new(trace);
    let mut events = Events::new();
    while let Some(record) = reader.next().unwrap() {
        match record {
            Record::Event(event) => {
                let uuid = event.tracks().track(event.head.track).uuid;
                let args: Vec<String> = event.args().map(|arg| format!("{arg:?}")).collect();
                let EventHead {
                    timestamp_ns, kind, ..
                } = event.head;
                let text = format!("{timestamp_ns} {kind:?} {} {args:?}", event.name());
                events.entry(uuid).or_default().push(text);
            }
            Record::Skipped(skipped) => panic!("{skipped:?}"),
            _ => {}
        }
    }
    events
}

/// Names are new from time to time, so that packets build on definitions in earlier ones.
fn record_on(thread: usize, numbers: Range<u64>) {
    let track = Track::new("lane").child(format!("lane {thread}"));
    for number in numbers {
        let _outer = span!("test", "outer", number, thread);
        let _inner = span!("test", "inner");
        instant!("test", "of lane", track: &track, number);
        if number % 100 == 0 {
            instant!("test", format!("name {number}"));
        }
    }
}

/// The threads of a test: they live as long as the test, and record when they are told.
struct Threads {
    senders: Vec<std::sync::mpsc::Sender<Range<u64>>>,
    done: std::sync::mpsc::Receiver<()>,
}

impl Threads {
    fn start() -> Self {
        let (finished, done) = std::sync::mpsc::channel();
        let senders = (0..THREADS).map(|thread| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let finished = finished.clone();
            thread::spawn(move || {
                for numbers in receiver {
                    record_on(thread, numbers);
                    finished.send(()).unwrap();
                }
            });
            sender
        });
        Self {
            senders: senders.collect(),
            done,
        }
    }

    fn record(&self, numbers: Range<u64>) {
        for sender in &self.senders {
            sender.send(numbers.clone()).unwrap();
        }
        for _ in &self.senders {
            self.done.recv().unwrap();
        }
    }
}

fn recorder(files: &Folder, ring_kib: u32) -> FlightRecorder {
    FlightRecorder::builder()
        .ring_kib(ring_kib)
        .min_interval(Duration::ZERO)
        .max_files(100)
        .directory(files.path())
        .start()
        .unwrap()
}

fn save(recorder: &FlightRecorder, name: &str) -> PathBuf {
    recorder.snapshot(name).save().unwrap()
}

/// Reads the events of files, and expects that a trace with all of their packets has each event
/// once, in order. `all` are the events of a session that has recorded everything.
#[track_caller]
fn expect_union(all: &Events, files: &[PathBuf], merged: &[u8]) {
    let merged = events(merged);
    let files: Vec<Events> = files
        .iter()
        .map(|file| events(&std::fs::read(file).unwrap()))
        .collect();
    let mut count = 0;
    for (track, all) in all {
        let of_files = files.iter().filter_map(|file| file.get(track));
        let wanted: HashSet<&String> = of_files.flatten().collect();
        let expected: Vec<&String> = all.iter().filter(|event| wanted.contains(event)).collect();
        let found: Vec<&String> = merged.get(track).into_iter().flatten().collect();
        assert!(
            expected == found,
            "{} of {} events",
            found.len(),
            expected.len()
        );
        count += found.len();
    }
    assert!(count > 1000, "{count}");
}

#[track_caller]
fn check_is_clean(trace: &[u8]) {
    let check = run_with_input(&["check", "--strict", "-"], trace);
    assert_eq!(check.status, 0, "{check:?}");
}

#[test]
fn overlapping_snapshots_have_each_event_once() {
    let _alone = alone();
    let files = Folder::empty();
    let session = TraceConfig::default()
        .record_to_file(files.file("all"))
        .unwrap();
    let recorder = recorder(&files, 256);
    let threads = Threads::start();
    let mut snapshots = Vec::new();
    for round in 0..6 {
        threads.record(round * 300..(round + 1) * 300);
        snapshots.push(save(&recorder, &format!("round {round}")));
    }
    drop(recorder);
    session.finish().unwrap();
    let all = events(&files.read("all"));
    // The ring does not hold everything.
    let last = events(&std::fs::read(&snapshots[5]).unwrap());
    assert!(last.values().map(Vec::len).sum::<usize>() < 25_000);

    for _ in 0..2 {
        let paths: Vec<&Path> = snapshots.iter().map(PathBuf::as_path).collect();
        let (run, merged) = merge(&files, &paths, &[]);
        check_is_clean(&merged);
        expect_union(&all, &snapshots, &merged);
        assert_eq!(
            run.stderr.matches(" and are written once\n").count(),
            5,
            "{run:?}"
        );
        // The order of the files does not matter.
        snapshots.reverse();
    }
    let pairs = [[0, 1], [2, 1], [1, 4], [5, 0]];
    for pair in pairs.map(|pair| pair.map(|index| snapshots[index].clone())) {
        let (_, merged) = merge(&files, &[&pair[0], &pair[1]], &[]);
        expect_union(&all, &pair, &merged);
    }
}

#[test]
fn snapshot_of_a_session_is_part_of_its_trace() {
    let _alone = alone();
    let files = Folder::empty();
    let session = TraceConfig::default().record_in_memory().unwrap();
    let threads = Threads::start();
    threads.record(0..200);
    session.control().save_snapshot(files.file("part")).unwrap();
    threads.record(200..400);
    let whole = session.finish().0;
    files.write("whole", &whole);
    let [whole_path, part] = ["whole", "part"].map(|name| files.file(name));
    for inputs in [[&whole_path, &part], [&part, &whole_path]] {
        let (run, merged) = merge(&files, &[inputs[0], inputs[1]], &[]);
        assert_eq!(events(&merged), events(&whole), "{run:?}");
    }
}

#[test]
fn file_that_is_named_twice_is_written_once() {
    let _alone = alone();
    let files = Folder::empty();
    let session = TraceConfig::default().record_in_memory().unwrap();
    Threads::start().record(0..100);
    let trace = session.finish().0;
    let file = files.write("one", &trace);
    let (run, merged) = merge(&files, &[&file, &file, &file], &[]);
    assert_eq!(events(&merged), events(&trace), "{run:?}");
    let (_, merged) = merge(&files, &[&file, &file], &["--keep-duplicates"]);
    let count = |trace: &[u8]| events(trace).values().map(Vec::len).sum::<usize>();
    assert_eq!(count(&merged), 2 * count(&trace));
}

#[test]
fn snapshots_without_common_packets_are_joined_with_a_gap() {
    let _alone = alone();
    let files = Folder::empty();
    let session = TraceConfig::default()
        .record_to_file(files.file("all"))
        .unwrap();
    let recorder = recorder(&files, 64);
    let threads = Threads::start();
    let snapshots = [0, 10_000].map(|first| {
        threads.record(first..first + 2_000);
        save(&recorder, &format!("from {first}"))
    });
    drop(recorder);
    session.finish().unwrap();
    let (run, merged) = merge(&files, &[&snapshots[0], &snapshots[1]], &[]);
    assert!(!run.stderr.contains("written once"), "{run:?}");
    expect_union(&events(&files.read("all")), &snapshots, &merged);
}

#[test]
fn span_over_both_snapshots_is_one_span() {
    let _alone = alone();
    let files = Folder::empty();
    let recorder = recorder(&files, 256);
    let span = span!("test", "long");
    record_on(0, 0..100);
    let first = save(&recorder, "first");
    record_on(0, 100..200);
    drop(span);
    record_on(0, 200..300);
    let second = save(&recorder, "second");
    drop(recorder);
    for inputs in [[&first, &second], [&second, &first]] {
        let (_, merged) = merge(&files, &[inputs[0], inputs[1]], &[]);
        let summary = run_with_input(&["summary", "--json", "-"], &merged).fine();
        let summary: Json = serde_json::from_slice(&summary.stdout).unwrap();
        let spans = summary["spans"].as_array().unwrap();
        let count = |name: &str| {
            let span = spans.iter().find(|span| span["name"] == name).unwrap();
            span["count"].as_u64().unwrap()
        };
        assert_eq!((count("long"), count("outer")), (1, 300));
        check_is_clean(&merged);
    }
}

#[test]
fn recordings_that_differ_stay_whole_and_are_told() {
    let _alone = alone();
    let files = Folder::empty();
    let some = TrackEventConfig::new().disable("more");
    let some = DataSourceConfig::new("track_event").track_event(&some);
    let some = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(4096))
        .add_data_source(some);
    let sessions = [TraceConfig::default(), some].map(|it| it.record_in_memory().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..200 {
                let _both = span!("test", "both", number);
                if number >= 100 {
                    instant!("more", "in one of them", number);
                }
            }
        });
    });
    let traces = sessions.map(|session| session.finish().0);
    let paths = [0, 1].map(|index| files.write(format!("{index}"), &traces[index]));
    for inputs in [[0, 1], [1, 0]] {
        let (run, merged) = merge(&files, &inputs.map(|index| paths[index].as_path()), &[]);
        let expected = format!(
            " are two recordings of the process {} at the same time; what both have recorded is there \
             twice\n",
            std::process::id()
        );
        assert!(run.stderr.contains(&expected), "{run:?}");
        let count = |trace: &[u8]| events(trace).values().map(Vec::len).sum::<usize>();
        assert_eq!(count(&merged), count(&traces[0]) + count(&traces[1]));
    }
}
