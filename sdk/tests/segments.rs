//! Sessions that record into segments, as applications use them.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use support::{Folder, alone, wait_until};
use tracezero::reader::{ArgValue, Level, Record, TraceReader, check};
use tracezero::{
    CounterTrack, Error, FlightError, FlightRecorder, Segment, Segments, Session, TraceConfig,
    TraceFuture as _, Track, async_span, counter, instant, span,
};
use tracezero_core::protos::TracePacketDecoder;
use tracezero_core::protos::sequences::TracePacketDecoderExt as _;

const TOTAL_BYTES: u64 = 1 << 20;

/// A period so short that segments end soon.
const SHORT: Duration = Duration::from_millis(1);

fn small() -> Segments {
    Segments::new()
        .segment_bytes(256 << 10)
        .total_bytes(TOTAL_BYTES)
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
    paths.sort();
    paths
}

fn size_of(folder: &Path) -> u64 {
    let sizes = files_in(folder).into_iter().map(fs::metadata);
    sizes.map(|it| it.map_or(0, |it| it.len())).sum()
}

/// Returns the numbers of the instants in a trace, which has no errors.
fn numbers(path: &Path) -> Vec<u64> {
    let trace = fs::read(path).unwrap();
    let summary = check(&trace[..], |finding| {
        assert_ne!(finding.level, Level::Error, "{}: {finding}", path.display());
    });
    assert_eq!(summary.unwrap().errors, 0);
    let mut numbers = Vec::new();
    let mut reader = TraceReader::new(&trace[..]);
    while let Some(record) = reader.next().unwrap() {
        if let Record::Event(event) = record
            && let Some(ArgValue::Uint(number)) = event.args().find("number")
        {
            numbers.push(number);
        }
    }
    numbers
}

/// Records numbers until this many segments are complete. Returns the next number.
fn record_until(completed: &mpsc::Receiver<()>, segments: usize, mut number: u64) -> u64 {
    let mut count = 0;
    while count < segments {
        for _ in 0..1000 {
            instant!("test", "step", number);
            number += 1;
        }
        count += completed.try_iter().count();
        thread::sleep(SHORT);
    }
    number
}

#[test]
fn segments_can_be_moved_away_and_then_do_not_count() {
    let _alone = alone();
    let (folder, moved) = (Folder::empty(), Folder::empty());
    let (tells, completed) = mpsc::channel();
    let to = moved.path().to_owned();
    let segments = small().on_complete(move |segment| {
        let name = segment.path().file_name().unwrap();
        fs::rename(segment.path(), to.join(name)).unwrap();
        tells.send(()).unwrap();
    });
    let session = Session::record_to_segments(folder.path(), segments).unwrap();
    let recorded = record_until(&completed, 8, 0);
    let report = session.finish().unwrap();
    assert_eq!((report.events, report.losses.total()), (recorded, 0));
    assert_eq!(report.segments.removed, 0);
    assert!(files_in(folder.path()).is_empty());
    let files = files_in(moved.path());
    assert_eq!(report.segments.completed, files.len() as u64);
    // The names sort by time, and each thread's events are in order.
    let all: Vec<u64> = files.iter().flat_map(|path| numbers(path)).collect();
    assert_eq!(all, (0..recorded).collect::<Vec<_>>());
}

#[test]
fn a_segment_in_use_is_removed_last_and_its_user_is_told() {
    let _alone = alone();
    let folder = Folder::empty();
    let (lets, go_on) = mpsc::channel::<()>();
    let go_on = Mutex::new(go_on);
    let seen: Arc<Mutex<Vec<Segment>>> = Arc::default();
    let of_hook = Arc::clone(&seen);
    let segments = small().on_complete(move |segment| {
        of_hook.lock().unwrap().push(segment.clone());
        let _ = go_on.lock().unwrap().recv();
    });
    let session = Session::record_to_segments(folder.path(), segments).unwrap();
    let mut number = 0_u64;
    // The function keeps the first segment until all others were removed many times.
    while seen
        .lock()
        .unwrap()
        .first()
        .is_none_or(|it| !it.is_removed())
    {
        for _ in 0..1000 {
            instant!("test", "step", number);
            number += 1;
        }
        assert!(size_of(folder.path()) <= TOTAL_BYTES);
        thread::sleep(SHORT);
    }
    assert!(!seen.lock().unwrap()[0].path().exists());
    drop(lets);
    let report = session.finish().unwrap();
    assert!(report.segments.removed_unseen > 0, "{report:?}");
    assert_eq!(report.losses.total(), 0, "{report}");
}

#[test]
fn open_segments_of_a_killed_process_are_completed() {
    let _alone = alone();
    let folder = Folder::empty();
    let session = Session::record_to_segments(folder.path(), small()).unwrap();
    instant!("test", "step", number = 1_u64);
    session.finish().unwrap();
    let [path] = &files_in(folder.path())[..] else {
        panic!("one segment");
    };
    // As a process leaves it that is killed in the middle of a write.
    let partial = PathBuf::from(format!("{}.partial", path.display()));
    let mut trace = fs::read(path).unwrap();
    let whole_bytes = trace.len();
    trace.extend([0x0a, 100, 1, 2, 3]);
    fs::write(&partial, trace).unwrap();
    fs::remove_file(path).unwrap();
    fs::write(
        folder.file("segment-20260101T000000Z-1-000001.pftrace.partial"),
        "",
    )
    .unwrap();

    let (tells, told) = mpsc::channel();
    let segments = small().on_complete(move |segment| tells.send(segment.clone()).unwrap());
    let session = Session::record_to_segments(folder.path(), segments).unwrap();
    let leftover = told.recv().unwrap();
    assert_eq!(leftover.path(), fs::canonicalize(path).unwrap());
    assert_eq!(leftover.bytes(), whole_bytes as u64);
    assert!(leftover.report().is_none());
    assert_eq!(numbers(path), [1]);
    session.finish().unwrap();
    assert_eq!(files_in(folder.path()).len(), 2);
}

#[test]
fn a_folder_belongs_to_one_session() {
    let _alone = alone();
    let folder = Folder::empty();
    let session = Session::record_to_segments(folder.path(), small()).unwrap();
    let refused = Session::record_to_segments(folder.path(), small());
    assert!(
        matches!(refused, Err(Error::FileInUse { .. })),
        "{refused:?}"
    );
    drop(session);
    Session::record_to_segments(folder.path(), small())
        .unwrap()
        .finish()
        .unwrap();
}

#[test]
fn settings_for_a_single_file_are_rejected() {
    let folder = Folder::empty();
    for (config, field) in [
        (TraceConfig::default().crash_safe(), "crash_directory"),
        (
            TraceConfig::default().max_file_size_bytes(1 << 20),
            "max_file_size_bytes",
        ),
    ] {
        let error = config
            .record_to_segments(folder.path(), small())
            .unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
    assert!(files_in(folder.path()).is_empty());
}

/// The packets with lists of open slices, the names of tracks, and the numbers of errors of a segment.
fn lists_and_tracks(path: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let trace = fs::read(path).unwrap();
    let mut reader = TraceReader::new(&trace[..]);
    let (mut lists, mut tracks) = (BTreeSet::new(), BTreeSet::new());
    while let Some(record) = reader.next().unwrap() {
        match record {
            Record::Packet(packet) => {
                let packet = TracePacketDecoder::new(packet.packet.bytes());
                let Some(list) = packet.open_slices().unwrap() else {
                    continue;
                };
                for slice in list.slices() {
                    lists.insert(slice.unwrap().name().unwrap().unwrap().to_owned());
                }
            }
            Record::Event(event) => {
                let table = event.tracks();
                let track = table.track(event.head.track);
                tracks.insert(event.names().text(track.name).to_owned());
            }
            _ => {}
        }
    }
    (lists, tracks)
}

#[test]
fn each_segment_lists_what_is_open_and_describes_its_tracks() {
    let _alone = alone();
    let folder = Folder::empty();
    let (tells, completed) = mpsc::channel();
    let segments = small()
        .total_bytes(64 << 20)
        .on_complete(move |_| tells.send(()).unwrap());
    let session = Session::record_to_segments(folder.path(), segments).unwrap();
    let outer = span!("test", "outer");
    let future = std::future::pending::<()>().traced(async_span!("test", "future"));
    let mut future = Box::pin(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    let track = Track::new("lane");
    let on_track = span!("test", "on_track", track: &track);
    let queue = CounterTrack::new("queue");
    let mut count = 0;
    while count < 4 {
        for number in 0..100_u64 {
            counter!("test", &queue, number);
            instant!("test", "step", track: &track, number);
        }
        count += completed.try_iter().count();
        thread::sleep(SHORT);
    }
    drop(on_track);
    drop(future);
    drop(outer);
    session.finish().unwrap();
    let files = files_in(folder.path());
    assert!(files.len() >= 4);
    for path in &files {
        numbers(path);
    }
    for path in &files[1..files.len() - 1] {
        let (lists, tracks) = lists_and_tracks(path);
        for open in ["outer", "future", "on_track"] {
            assert!(lists.contains(open), "{}: {lists:?}", path.display());
        }
        assert!(
            tracks.contains("lane") && tracks.contains("queue"),
            "{tracks:?}"
        );
    }
}

#[test]
fn snapshots_of_a_flight_recorder_keep_a_budget_of_bytes() {
    let _alone = alone();
    /// The recorder keeps packets that were saved, so snapshots become larger.
    const BUDGET_BYTES: u64 = 200_000;
    let folder = Folder::empty();
    let recorder = FlightRecorder::builder()
        .directory(folder.path())
        .min_interval(Duration::ZERO)
        .max_files(1000)
        .total_bytes(BUDGET_BYTES)
        .start()
        .unwrap();
    for number in 0..50_u64 {
        instant!("test", "step", number);
        let path = recorder.snapshot("slow").save().unwrap();
        assert!(numbers(&path).contains(&number));
        assert!(size_of(folder.path()) <= BUDGET_BYTES);
    }
    assert!(files_in(folder.path()).len() > 2);
    for number in 0..50_000_u64 {
        instant!("test", "step", number);
    }
    let error = recorder.snapshot("large").save().unwrap_err();
    assert!(matches!(error, FlightError::TooLarge { .. }), "{error}");
    assert!(files_in(folder.path()).len() > 2);
}

#[test]
fn a_folder_that_is_gone_is_told_and_recording_goes_on() {
    let _alone = alone();
    let folder = Folder::empty();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let of_handler = Arc::clone(&told);
    tracezero::on_error(move |error| of_handler.lock().unwrap().push(error.to_string()));
    let session = Session::record_to_segments(folder.path(), small()).unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let mut number = 0_u64;
    wait_until(|| {
        for _ in 0..1000 {
            instant!("test", "step", number);
            number += 1;
        }
        !told.lock().unwrap().is_empty()
    });
    fs::create_dir_all(folder.path()).unwrap();
    let report = session.finish().unwrap();
    assert_eq!(report.losses.total() - report.losses.file_full, 0);
}
