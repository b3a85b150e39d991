use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use support::wait_until;

use super::harness::{Call, ReadTrace, World, write};
use super::trace_file::TraceFile;
use crate::service_packets::SYNC_MARKER;
use crate::{CloneSource, FileEnd, State, TraceOutput};
use tracezero::{BufferConfig, BuiltinDataSources, DataSourceConfig, TraceConfig, WriteFlushMode};
use tracezero_core::protos::TraceStatsDecoder;
use tracezero_core::protos::trace_packet::Data;
use tracezero_core::protos::trace_stats::FinalFlushOutcome;

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(512))
        .add_data_source(DataSourceConfig::new("ds"))
        .write_into_file()
        .file_write_period(Duration::from_millis(100))
}

fn last_stats(trace: &ReadTrace) -> TraceStatsDecoder<'_> {
    let of = |data| match data {
        Data::TraceStats(stats) => Some(stats),
        _ => None,
    };
    trace.data().into_iter().filter_map(of).next_back().unwrap()
}

/// Returns how many of the calls are flushes.
fn flushes(calls: &[Call]) -> usize {
    let is_flush = |call: &&Call| matches!(call, Call::Flush(..));
    calls.iter().filter(is_flush).count()
}

#[test]
fn file_is_flushed_before_each_write_or_every_5_s() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let file = TraceFile::new();
    let enabled = config().write_flush_mode(WriteFlushMode::Enabled);
    let session = world.file_session(enabled, file.output());
    producer.calls();
    for _ in 0..5 {
        world.advance_ms(100);
        assert_eq!(flushes(&producer.calls()), 1);
    }
    drop(session);

    let file = TraceFile::new();
    world.advance_ms(9500);
    let auto = config().file_write_period(Duration::from_secs(1));
    let _session = world.file_session(auto, file.output());
    producer.calls();
    for expected in [0, 1, 0, 1] {
        let ms = if expected == 0 { 4999 } else { 1 };
        world.advance_ms(ms);
        assert_eq!(flushes(&producer.calls()), expected);
    }
}

#[test]
fn flush_before_rare_writes_can_be_disabled() {
    for (mode, written) in [
        (WriteFlushMode::Auto, &["not committed"][..]),
        (WriteFlushMode::Disabled, &[]),
    ] {
        let world = World::new();
        let producer = world.producer("p");
        producer.register("ds");
        let file = TraceFile::new();
        let config = config()
            .file_write_period(Duration::from_secs(10))
            .write_flush_mode(mode);
        let session = world.file_session(config, file.output());
        let mut writer = producer.writer("ds");
        write(&mut writer, "not committed");
        world.advance_ms(10_000);
        session.writes().unwrap();
        assert_eq!(file.read().texts(), written, "{mode:?}");
        // When the session ends, the service scrapes in both modes.
        session.disable();
        session.writes().unwrap();
        assert_eq!(file.read().texts(), ["not committed"], "{mode:?}");
    }
}

#[test]
fn file_ends_before_the_packet_that_reaches_its_limit() {
    const LIMIT_BYTES: u64 = 4096;
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let file = TraceFile::new();
    let config = config().max_file_size_bytes(LIMIT_BYTES);
    let session = world.file_session(config, file.output());
    let mut writer = producer.writer("ds");
    for number in 0..9 {
        write(&mut writer, &format!("small {number}"));
    }
    write(&mut writer, &"x".repeat(LIMIT_BYTES as usize));
    write(&mut writer, "after it");
    writer.flush();
    assert_eq!(session.state(), Some(State::Started));
    world.advance_ms(100);
    session.writes().unwrap();
    assert_eq!(session.state(), Some(State::Disabled));
    let trace = file.read();
    let texts = trace.texts();
    assert_eq!(texts.len(), 9);
    assert_eq!(texts[8], "small 8");
    assert!((trace.bytes.len() as u64) < LIMIT_BYTES);
    // The service writes nine packets before the data: clocks, marker, configuration, uuid, begin,
    // provenance, system, events. It writes one more packet at the end.
    assert_eq!(trace.packets().len(), 9 + 10);
    let counts = world.service.read_counts(session.id);
    assert_eq!((counts.packets, counts.data_packets), (9, 9));
    assert_eq!(
        world.service.file_size(session.id),
        (trace.bytes.len() as u64, Some(FileEnd::Full))
    );
}

#[test]
fn statistics_at_the_end_of_a_file_are_complete() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let file = TraceFile::new();
    let session = world.file_session(config(), file.output());
    world.advance_ms(100);
    session.writes().unwrap();
    assert_eq!(chunks_written(&file.read()), 0);
    let mut writer = producer.writer("ds");
    write(&mut writer, "late");
    drop(writer);
    session.disable();
    session.writes().unwrap();
    assert_eq!(chunks_written(&file.read()), 1);

    fn chunks_written(trace: &ReadTrace) -> u64 {
        let buffers = last_stats(trace).buffer_stats();
        let written = buffers.map(|stats| stats.unwrap().chunks_written().unwrap().unwrap());
        written.sum()
    }
}

#[test]
fn clone_of_a_file_holds_everything_so_far() {
    for writes_before in [false, true] {
        let world = World::new();
        let producer = world.producer("p");
        producer.register("ds");
        let (file, clone_file) = (TraceFile::new(), TraceFile::new());
        let session = world.file_session(config(), file.output());
        let mut writer = producer.writer("ds");
        write(&mut writer, "one");
        if writes_before {
            writer.flush();
            world.advance_ms(100);
            session.writes().unwrap();
        }
        write(&mut writer, "two");
        let source = CloneSource::Id(session.id);
        let pending = world.begin_clone_into(source, 0, None, Some(clone_file.output()));
        // The clone is pending until the next write into the file. Only then, the service clones
        // the buffers.
        assert!(!pending.is_done());
        session.writes().unwrap();
        write(&mut writer, "three");
        writer.flush();
        world.advance_ms(100);
        session.writes().unwrap();
        let clone = pending.finish().unwrap();
        clone.writes_once().unwrap();
        assert_eq!(clone_file.read().texts(), ["one", "two"]);
        let stats = clone.stats();
        let [account] = &stats.sequences[..] else {
            panic!("{stats:?}");
        };
        assert_eq!((account.read, account.removed), (2, 0), "{account}");
        assert_eq!(clone.read().events(), [""; 0]);
        drop(clone);

        session.disable();
        session.writes().unwrap();
        assert_eq!(file.read().texts(), ["one", "two", "three"]);
    }
}

#[test]
fn clone_of_a_file_has_the_clone_events() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let (file, clone_file) = (TraceFile::new(), TraceFile::new());
    let session = world.file_session(config(), file.output());
    let source = CloneSource::Id(session.id);
    let pending = world.begin_clone_into(source, 0, None, Some(clone_file.output()));
    session.writes().unwrap();
    pending.finish().unwrap().writes_once().unwrap();
    let trace = clone_file.read();
    let events = trace.events();
    for event in [
        "tracing_started",
        "all_data_sources_started",
        "clone_started",
        "flush_started",
        "buffer_cloned",
    ] {
        assert!(events.contains(&event), "{event} in {events:?}");
    }
    assert!(
        trace
            .data()
            .iter()
            .any(|data| matches!(data, Data::TraceConfig(_)))
    );
    assert_eq!(
        last_stats(&trace).final_flush_outcome().unwrap(),
        Some(FinalFlushOutcome::FINAL_FLUSH_SUCCEEDED)
    );
}

#[test]
fn sequences_keep_their_numbers_in_a_clone_of_a_file() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let (file, clone_file) = (TraceFile::new(), TraceFile::new());
    let session = world.file_session(config(), file.output());
    let mut writers = [producer.writer("ds"), producer.writer("ds")];
    for writer in &mut writers {
        write(writer, "before");
        writer.flush();
    }
    world.advance_ms(100);
    session.writes().unwrap();
    // The packet "after" is not yet in the file when the service clones it, but only in the cloned
    // buffers. It must have the same sequence id as the packet of its writer in the file.
    let source = CloneSource::Id(session.id);
    let pending = world.begin_clone_into(source, 0, None, Some(clone_file.output()));
    write(&mut writers[1], "after");
    writers[1].flush();
    session.writes().unwrap();
    pending.finish().unwrap().writes_once().unwrap();
    let trace = clone_file.read();
    let of_events: Vec<u32> = trace
        .packets()
        .iter()
        .filter(|packet| packet.for_testing().unwrap().is_some())
        .map(|packet| packet.trusted_packet_sequence_id().unwrap().unwrap())
        .collect();
    assert_eq!(of_events, [2, 3, 3]);
}

#[test]
fn a_file_is_cloned_into_a_file_and_only_while_it_is_written() {
    let world = World::new();
    let file = TraceFile::new();
    let session = world.file_session(config(), file.output());
    let source = || CloneSource::Id(session.id);
    let refused = |output| {
        let pending = world.begin_clone_into(source(), 0, None, output);
        pending.finish().map(drop).unwrap_err().to_string()
    };
    assert_eq!(
        refused(None),
        "cannot clone the session: it writes into a file; clone it into a file, too"
    );
    let waiting_file = TraceFile::new();
    let waiting = world.begin_clone_into(source(), 0, None, Some(waiting_file.output()));
    session.disable();
    session.writes().unwrap();
    // The last write into the file, at the end of the session, has completed the clone.
    waiting.finish().unwrap().writes_once().unwrap();
    assert!(waiting_file.read().events().contains(&"buffer_cloned"));
    assert_eq!(
        refused(Some(TraceFile::new().output())),
        "cannot clone the session: its trace file is complete; copy the file"
    );
}

#[test]
fn file_can_be_read_from_each_sync_marker() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let file = TraceFile::new();
    let builtin = BuiltinDataSources::new().snapshot_interval(Duration::from_millis(100));
    let config = config().builtin_data_sources(builtin);
    let session = world.file_session(config, file.output());
    let mut writer = producer.writer("ds");
    for number in 0..8 {
        write(&mut writer, &format!("{number}"));
        writer.flush();
        world.advance_ms(100);
        session.writes().unwrap();
    }
    session.disable();
    session.writes().unwrap();
    let trace = file.read();
    let marker_ends: Vec<usize> = (SYNC_MARKER.len()..trace.bytes.len())
        .filter(|&end| trace.bytes[..end].ends_with(&SYNC_MARKER))
        .collect();
    assert!(marker_ends.len() >= 5, "{} markers", marker_ends.len());
    let starts = [0].into_iter().chain(marker_ends.iter().copied());
    let ends = marker_ends.iter().copied().chain([trace.bytes.len()]);
    let pieces = starts
        .zip(ends)
        .map(|(start, end)| &trace.bytes[start..end]);
    let mut packets = 0;
    let mut texts = Vec::new();
    for piece in pieces {
        let piece = ReadTrace::of(piece.to_vec());
        packets += piece.packets().len();
        texts.extend(piece.texts());
    }
    assert_eq!(packets, trace.packets().len());
    assert_eq!(texts, trace.texts());
    assert_eq!(texts.len(), 8);
}

#[test]
fn busy_buffer_does_not_starve_the_next_one() {
    const ROUNDS_MAX: usize = 50;
    let world = World::new();
    let producer = world.producer("p");
    producer.register("busy");
    producer.register("quiet");
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024))
        .add_buffer(BufferConfig::ring(64))
        .add_data_source(DataSourceConfig::new("busy"))
        .add_data_source(DataSourceConfig::new("quiet").target_index(1))
        .write_into_file();
    // A full pipe blocks the service until the test reads from the pipe. So the test decides how
    // much the service can write.
    let (mut pipe, end) = std::io::pipe().unwrap();
    let session = world.file_session(
        config,
        TraceOutput::new(File::from(OwnedFd::from(end)).into()),
    );
    write(&mut producer.writer("quiet"), "seldom");
    let mut busy = producer.writer("busy");
    let mut write_much = move || (0..128).for_each(|_| write(&mut busy, &"x".repeat(1000)));
    write_much();
    thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut trace = Vec::new();
            let mut part = vec![0; 64 * 1024];
            let mut rounds = 0;
            while let len @ 1.. = pipe.read(&mut part).unwrap() {
                trace.extend_from_slice(&part[..len]);
                if rounds < ROUNDS_MAX && !trace.windows(6).any(|text| text == b"seldom") {
                    write_much();
                    rounds += 1;
                }
            }
            rounds
        });
        session.writes_once().unwrap();
        drop(session);
        assert!(reading.join().unwrap() < ROUNDS_MAX);
    });
}

#[test]
fn statistics_do_not_wait_for_a_disk() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    // A pipe that nobody reads is like a disk that hangs.
    let (mut pipe, end) = std::io::pipe().unwrap();
    let output = TraceOutput::new(File::from(OwnedFd::from(end)).into());
    let session = world.file_session(config(), output);
    let mut writer = producer.writer("ds");
    (0..200).for_each(|_| write(&mut writer, &"x".repeat(1000)));
    writer.flush();
    let (service, id) = (Arc::clone(&world.service), session.id);
    let writing = thread::spawn(move || {
        session.writes_once().unwrap();
        drop(session);
    });
    let (answer, answered) = mpsc::channel();
    thread::spawn(move || {
        wait_until(|| service.read_counts(id).packets > 0);
        // The thread `writing` has read packets. So this thread is about to write them, or waits
        // because the pipe is full. The next two calls must not wait for it.
        answer.send(service.stats(id).is_some()).unwrap();
        answer.send(service.file_size(id).0 == 0).unwrap();
    });
    for _ in 0..2 {
        assert_eq!(answered.recv_timeout(Duration::from_secs(10)), Ok(true));
    }
    pipe.read_to_end(&mut Vec::new()).unwrap();
    writing.join().unwrap();
}
