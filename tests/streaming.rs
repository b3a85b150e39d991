//! Traces that are streamed into files, pipes and devices, by real sessions.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use support::{Folder, alone, is_whole, wait_until};
use tracezero::protos::TraceDecoder;
use tracezero::protos::trace_packet::Data;
use tracezero::testing::Trace;
use tracezero::{
    BufferConfig, BufferExhaustedPolicy, DataSource, DataSourceConfig, Error, Flushing, Report,
    SessionState, Setup, TraceConfig, data_source,
};

struct Numbered;
data_source!(Numbered, "com.example.numbered");

/// A time longer than any step of these tests.
const LONG: Duration = Duration::from_secs(60);

fn config(policy: BufferExhaustedPolicy) -> TraceConfig {
    let data_source = DataSourceConfig::new("com.example.numbered").exhausted_policy(policy);
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256))
        .add_data_source(data_source)
        .file_write_period(Duration::from_millis(100))
}

fn dropping() -> TraceConfig {
    config(BufferExhaustedPolicy::Drop)
}

/// Writes a packet of about 1 KiB.
fn write(number: u64) {
    Numbered::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_counter(number);
                event.set_str(&"x".repeat(1000));
            });
        });
    });
}

/// Returns the numbers of the packets of a trace, in its order.
fn numbers(trace: &[u8]) -> Vec<u64> {
    Trace::read(trace).unwrap().assert_well_formed();
    support::numbers(trace)
}

fn check_account(report: &Report) {
    let accounted = report.packets_read + report.losses.begun_packets();
    assert_eq!(report.packets_begun, accounted, "{report}");
}

#[test]
fn full_disk_ends_session_and_threads_go_on() {
    let _guard = alone();
    let session = dropping().record_to_file("/dev/full").unwrap();
    write(0);
    assert!(session.control().wait(LONG), "the first write fails");
    assert_eq!(session.control().state(), SessionState::Ended);
    (0..10_000).for_each(write);
    let Err(Error::File {
        path,
        source,
        report: Some(report),
    }) = session.finish()
    else {
        panic!("writing to a full disk succeeded");
    };
    assert_eq!(path, Path::new("/dev/full"));
    assert_eq!(source.kind(), ErrorKind::StorageFull);
    assert_eq!((report.bytes, report.packets_read), (0, 0));
    assert_eq!(
        report.losses.total(),
        report.losses.write_failed,
        "{report}"
    );
    check_account(&report);
}

#[test]
fn closed_pipe_ends_session_and_read_bytes_are_a_trace() {
    const READ_BYTES: usize = 100_000;
    let _guard = alone();
    let (mut reader, writer) = io::pipe().unwrap();
    let session = dropping().record_to_file(path_of(&writer)).unwrap();
    drop(writer);
    let reads = thread::spawn(move || {
        let mut bytes = vec![0; READ_BYTES];
        reader.read_exact(&mut bytes).unwrap();
        bytes
    });
    let mut number = 0;
    while session.control().state() != SessionState::Ended {
        write(number);
        number += 1;
    }
    (0..10_000).for_each(write);
    let Err(Error::File { source, .. }) = session.finish() else {
        panic!("writing to a closed pipe succeeded");
    };
    assert_eq!(source.kind(), ErrorKind::BrokenPipe);
    let read = reads.join().unwrap();
    // All packets except the one that was cut off.
    let whole: Vec<_> = TraceDecoder::new(&read)
        .packet()
        .map_while(Result::ok)
        .filter_map(|packet| packet.for_testing().unwrap())
        .collect();
    assert!(whole.len() > 10, "{} packets", whole.len());
}

#[test]
fn stalling_writer_waits_for_slow_reader_and_loses_nothing() {
    const PACKETS: u64 = 4000;
    let _guard = alone();
    let (mut reader, writer) = io::pipe().unwrap();
    let session = config(BufferExhaustedPolicy::Stall)
        .sync_after_write()
        .record_to_file(path_of(&writer))
        .unwrap();
    drop(writer);
    let writes = thread::spawn(|| (0..PACKETS).for_each(write));
    thread::sleep(Duration::from_millis(300));
    assert!(!writes.is_finished(), "16 times the ring, and nobody reads");
    let reads = thread::spawn(move || {
        let mut trace = Vec::new();
        reader.read_to_end(&mut trace).unwrap();
        trace
    });
    writes.join().unwrap();
    let report = session.finish().unwrap();
    let trace = reads.join().unwrap();
    assert_eq!(numbers(&trace), (0..PACKETS).collect::<Vec<_>>());
    assert_eq!((report.packets_read, report.losses.total()), (PACKETS, 0));
    assert_eq!(report.bytes, trace.len() as u64);
}

#[test]
fn packet_ending_in_idle_chunk_is_not_overwritten() {
    let _guard = alone();
    let folder = Folder::empty();
    let file = folder.file("idle");
    let session = config(BufferExhaustedPolicy::Stall)
        .file_write_period(Duration::from_secs(60))
        .record_to_file(&file)
        .unwrap();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let (wrote, has_written) = std::sync::mpsc::channel();
    let idle = thread::spawn(move || {
        // Fills more than one chunk, but less than two.
        (0..5).for_each(write);
        wrote.send(()).unwrap();
        // An error means that the other thread is done.
        let _ = is_done.recv();
    });
    has_written.recv().unwrap();
    (5..4000).for_each(write);
    drop(done);
    idle.join().unwrap();
    let report = session.finish().unwrap();
    assert_eq!(
        (report.packets_read, report.losses.total()),
        (4000, 0),
        "{report}"
    );
    let mut numbers = numbers(&fs::read(&file).unwrap());
    numbers.sort_unstable();
    assert_eq!(numbers, (0..4000).collect::<Vec<_>>());
}

#[test]
fn non_stalling_writer_overwrites_unread_packets_and_counts() {
    const PACKETS: u64 = 4000;
    let _guard = alone();
    let (mut reader, writer) = io::pipe().unwrap();
    let session = dropping().record_to_file(path_of(&writer)).unwrap();
    drop(writer);
    (0..PACKETS).for_each(write);
    let reads = thread::spawn(move || {
        let mut trace = Vec::new();
        reader.read_to_end(&mut trace).unwrap();
        trace
    });
    let report = session.finish().unwrap();
    let trace = reads.join().unwrap();
    check_account(&report);
    assert!(report.losses.overwritten > 0, "{report}");
    assert_eq!(numbers(&trace).len() as u64, report.packets_read);
    assert_eq!(numbers(&trace).last(), Some(&(PACKETS - 1)));
}

#[test]
fn packets_longer_than_the_ring_do_not_stall_forever() {
    let _guard = alone();
    let folder = Folder::empty();
    let file = folder.file("long-packets");
    let session = config(BufferExhaustedPolicy::Stall)
        .record_to_file(&file)
        .unwrap();
    for len in [100_000, 200_000, 400_000, 1000] {
        Numbered::trace(|cx| {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_counter(len);
                    event.set_str(&"x".repeat(len as usize));
                });
            });
        });
    }
    let report = session.finish().unwrap();
    check_account(&report);
    let numbers = numbers(&fs::read(&file).unwrap());
    assert_eq!(numbers.first(), Some(&100_000));
    assert_eq!(numbers.last(), Some(&1000));
}

#[test]
fn a_file_ends_at_its_limit_and_what_is_not_in_it_is_counted() {
    const LIMIT_BYTES: u64 = 100_000;
    let _guard = alone();
    let folder = Folder::empty();
    let file = folder.file("limit");
    let session = config(BufferExhaustedPolicy::Stall)
        .max_file_size_bytes(LIMIT_BYTES)
        .record_to_file(&file)
        .unwrap();
    let control = session.control().clone();
    let mut number = 0;
    while control.state() != SessionState::Ended {
        write(number);
        number += 1;
    }
    let report = session.finish().unwrap();
    let trace = fs::read(&file).unwrap();
    assert!((trace.len() as u64) < LIMIT_BYTES && trace.len() as u64 > LIMIT_BYTES - 2000);
    assert_eq!(report.bytes, trace.len() as u64);
    let numbers = numbers(&trace);
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(report.packets_read, numbers.len() as u64);
    check_account(&report);
    assert!(report.losses.file_full > 0, "{report}");
    assert_eq!(report.losses.total(), report.losses.file_full, "{report}");
}

#[test]
fn an_output_path_is_never_overwritten() {
    let _guard = alone();
    let folder = Folder::empty();
    let file = folder.file("output-path");
    let record = || {
        let path = file.to_str().unwrap();
        dropping().write_into_file().output_path(path).record()
    };
    let session = record().unwrap();
    write(7);
    session.finish().unwrap();
    let trace = fs::read(&file).unwrap();
    assert_eq!(numbers(&trace), [7]);
    let Err(Error::File { path, source, .. }) = record() else {
        panic!("the file was there");
    };
    assert_eq!(path, file);
    assert_eq!(source.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&file).unwrap(), trace);
}

#[test]
fn each_write_can_be_made_to_reach_the_disk() {
    let _guard = alone();
    let folder = Folder::empty();
    let file = folder.file("synced");
    let session = dropping().sync_after_write().record_to_file(&file).unwrap();
    write(1);
    wait_until(|| {
        // Without this flush, the packet may not be committed, or not written yet.
        assert!(session.control().flush());
        let trace = fs::read(&file).unwrap();
        is_whole(&trace) && support::numbers(&trace).contains(&1)
    });
    write(2);
    session.finish().unwrap();
    assert_eq!(numbers(&fs::read(&file).unwrap()), [1, 2]);
}

#[test]
fn snapshot_of_file_session_has_everything_so_far() {
    let _guard = alone();
    let folder = Folder::empty();
    let (file, copy) = (folder.file("source"), folder.file("copy"));
    let session = config(BufferExhaustedPolicy::Stall)
        .record_to_file(&file)
        .unwrap();
    let control = session.control().clone();
    assert!(control.snapshot().is_err(), "it needs a file");
    (0..2000).for_each(write);
    control.save_snapshot(&copy).unwrap();
    (2000..2100).for_each(write);
    session.finish().unwrap();
    let everything: Vec<u64> = (0..2100).collect();
    assert_eq!(numbers(&fs::read(&copy).unwrap()), everything[..2000]);
    assert_eq!(numbers(&fs::read(&file).unwrap()), everything);

    fs::remove_file(&copy).unwrap();
    assert!(control.save_snapshot(&copy).is_err(), "it has finished");
    assert!(!copy.exists());

    let in_memory = dropping().record_in_memory().unwrap();
    write(1);
    in_memory.control().save_snapshot(&copy).unwrap();
    assert_eq!(numbers(&fs::read(&copy).unwrap()), [1]);
}

#[test]
fn packets_imitating_the_service_are_skipped_and_counted() {
    let _guard = alone();
    let session = dropping().record_in_memory().unwrap();
    write(1);
    for _ in 0..3 {
        Numbered::trace(|cx| {
            cx.packet(|packet| {
                packet.set_trusted_packet_sequence_id(1);
                packet.for_testing(|event| {
                    event.set_counter(99);
                });
            });
        });
    }
    write(2);
    let (trace, report) = session.finish();
    assert_eq!(numbers(&trace), [1, 2]);
    check_account(&report);
    assert_eq!((report.losses.invalid, report.losses.total()), (3, 3));
    let dropped: Vec<_> = TraceDecoder::new(&trace)
        .packet()
        .map(Result::unwrap)
        .filter(|packet| packet.for_testing().unwrap().is_some())
        .map(|packet| packet.previous_packet_dropped().unwrap())
        .collect();
    assert_eq!(dropped, [None, Some(1)]);
    let invalid = TraceDecoder::new(&trace)
        .packet()
        .filter_map(|packet| match packet.unwrap().data().unwrap() {
            Some(Data::TraceStats(stats)) => stats.invalid_packets().unwrap(),
            _ => None,
        })
        .last();
    assert_eq!(invalid, Some(3));
}

/// Records into a pipe that is read only after `record` has returned.
fn record_before_reading(config: TraceConfig, record: impl FnOnce()) -> (Vec<u64>, Report) {
    let (mut reader, writer) = io::pipe().unwrap();
    let session = config.record_to_file(path_of(&writer)).unwrap();
    drop(writer);
    record();
    let reads = thread::spawn(move || {
        let mut trace = Vec::new();
        reader.read_to_end(&mut trace).unwrap();
        trace
    });
    let report = session.finish().unwrap();
    check_account(&report);
    (numbers(&reads.join().unwrap()), report)
}

fn growing_to(limit_mib: u32) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256).grow_to(limit_mib * 1024))
        .add_data_source(DataSourceConfig::new("com.example.numbered"))
        .file_write_period(Duration::from_millis(100))
}

#[test]
fn a_buffer_grows_while_its_file_stands_still() {
    let _guard = alone();
    // The packets have about 20 MiB.
    let count = 20_000;
    let (numbers, report) = record_before_reading(growing_to(32), || (0..count).for_each(write));
    assert!(numbers.iter().copied().eq(0..count), "{report}");
    assert_eq!(report.losses.total(), 0, "{report}");
    assert!(report.memory.waited.is_zero(), "{report}");
    assert_eq!(report.memory.limit_bytes, 32 << 20);
    let peak_mib = report.memory.peak_bytes >> 20;
    assert!((20..=24).contains(&peak_mib), "{peak_mib} MiB");
}

#[test]
fn writers_wait_for_a_file_beyond_the_limit_and_lose_nothing() {
    let _guard = alone();
    let (mut reader, writer) = io::pipe().unwrap();
    let session = growing_to(4).record_to_file(path_of(&writer)).unwrap();
    drop(writer);
    let writes = thread::spawn(|| (0..10_000).for_each(write));
    // The writes cannot end before the pipe is read.
    thread::sleep(Duration::from_millis(100));
    assert!(!writes.is_finished());
    let reads = thread::spawn(move || {
        let mut trace = Vec::new();
        reader.read_to_end(&mut trace).unwrap();
        trace
    });
    writes.join().unwrap();
    let report = session.finish().unwrap();
    assert_eq!(report.losses.total(), 0, "{report}");
    assert!(numbers(&reads.join().unwrap()).into_iter().eq(0..10_000));
}

#[test]
fn writers_drop_after_wait_limit_and_report_suggests_a_fix() {
    let _guard = alone();
    let limit = Duration::from_millis(10);
    let config = growing_to(4).wait_limit(limit);
    let (numbers, report) = record_before_reading(config, || (0..10_000).for_each(write));
    let dropped = report.losses.dropped;
    assert!(dropped > 0 && report.losses.total() == dropped, "{report}");
    assert_eq!(numbers.len() as u64, 10_000 - dropped);
    assert!(report.memory.waited >= limit, "{report}");
    let text = report.to_string();
    for knob in [
        "BufferConfig::grow_to",
        "4096 KiB",
        "TraceConfig::wait_limit",
    ] {
        assert!(text.contains(knob), "{text}");
    }
}

/// A data source that writes many packets when it is flushed.
struct Dump;

impl DataSource for Dump {
    const NAME: &'static str = "com.example.dump";
    type ThreadState = ();
    type IncrementalState = ();
    tracezero::data_source_state!(Dump);

    fn on_setup(_: &Setup<'_>) -> Self {
        Self
    }

    fn on_flush(&self, _: Flushing) {
        (0..2_000).for_each(write);
    }
}

/// The thread that writes the file may itself wait for the callback.
#[test]
fn a_callback_does_not_wait_for_the_file() {
    let _guard = alone();
    // Reaches both trace points first. If the callback reached a data source first, the session
    // would start it only after the callback.
    Dump::trace(|_| ());
    Numbered::trace(|_| ());
    let folder = Folder::empty();
    let file = folder.file("callback");
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256))
        .record_all()
        .wait_limit(LONG)
        .record_to_file(&file)
        .unwrap();
    let report = session.finish().unwrap();
    check_account(&report);
    assert!(report.data_packets > 0, "{report}");
    assert!(report.memory.waited.is_zero(), "{report}");
}

/// Returns a path by which the writing end of a pipe can be opened.
fn path_of(writer: &io::PipeWriter) -> PathBuf {
    format!("/proc/self/fd/{}", writer.as_raw_fd()).into()
}
