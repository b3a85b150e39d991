//! Counts agree on several sessions at once, several buffers, snapshots, flight recorders and
//! forks.

use std::fs;
use std::thread;
use std::time::Duration;

use support::alone;
use tracezero::{
    BufferConfig, DataSource as _, DataSourceConfig, FlightRecorder, InMemorySession, Session,
    TraceConfig, TrackEventConfig, counter, data_source, instant, span,
};

use crate::agreement::{agreed, agreed_on_file, scratch};
use crate::own_process::fork;

struct Packets;
data_source!(Packets, "com.example.packets_of_sessions");

fn record(number: u32) {
    let _span = span!("server", "span", number);
    instant!("database", "instant", number);
    counter!("server", "counter", number);
    Packets::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_seq_value(number);
            });
        });
    });
}

#[test]
fn counts_agree_on_two_sessions_with_different_filters() {
    let _guard = alone();
    let of_category = |category: &str| {
        let events = TrackEventConfig::new().disable("*").enable(category);
        TraceConfig::empty()
            .add_buffer(BufferConfig::ring(1024))
            .add_data_source(DataSourceConfig::new("track_event").track_event(&events))
            .record_in_memory()
            .unwrap()
    };
    let server = of_category("server");
    (0..10).for_each(record);
    let database = of_category("database");
    (10..50).for_each(record);
    let all = InMemorySession::start().unwrap();
    for (name, session, events, data_packets) in [
        ("server", server, 50 * 3, 0),
        ("database", database, 40 + 50, 0),
        ("all", all, 100 * 4, 100),
    ] {
        let (trace, report) = session.finish();
        let judged = agreed(name, &trace, Some(&report));
        assert_eq!((judged.events, judged.data_packets), (events, data_packets));
        (0..50).for_each(record);
    }
}

#[test]
fn counts_agree_on_several_named_buffers() {
    let _guard = alone();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(64).named("start-up"))
        .add_buffer(BufferConfig::ring(16).named("newest"))
        .add_buffer(BufferConfig::ring(1024).named("packets"))
        .add_data_source(DataSourceConfig::new("track_event").target_name("start-up"))
        .add_data_source(DataSourceConfig::new("track_event").target_name("newest"))
        .add_data_source(
            DataSourceConfig::new("com.example.packets_of_sessions").target_name("packets"),
        )
        .record_in_memory()
        .unwrap();
    (0..5_000).for_each(record);
    let (trace, report) = session.finish();
    let losses = report.losses;
    assert!(losses.overwritten > 0 && losses.discarded > 0, "{report}");
    let judged = agreed("buffers", &trace, Some(&report));
    assert!(judged.data_packets > 1_000, "{judged:?}");
}

#[test]
fn counts_agree_on_snapshots_and_their_session() {
    let _guard = alone();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(32))
        .record_all()
        .record_in_memory()
        .unwrap();
    for round in 0..4 {
        (0..400).for_each(record);
        let open = span!("server", "open at the snapshot");
        let snapshot = session.control().snapshot().unwrap();
        drop(open);
        let judged = agreed(&format!("snapshot {round}"), snapshot.trace(), None);
        assert_eq!(snapshot.events(), judged.events);
    }
    let (trace, report) = session.finish();
    agreed("with snapshots", &trace, Some(&report));
}

#[test]
fn counts_agree_on_destructive_snapshots() {
    let _guard = alone();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256).transfer_on_clone())
        .record_all()
        .record_in_memory()
        .unwrap();
    for round in 0..3 {
        (0..100).for_each(record);
        let snapshot = session.control().snapshot().unwrap();
        let judged = agreed(&format!("transferred {round}"), snapshot.trace(), None);
        assert_eq!(snapshot.events(), judged.events);
    }
    (0..100).for_each(record);
    let (trace, report) = session.finish();
    assert!(report.packets_removed > 0);
    agreed("transferred, the rest", &trace, Some(&report));
}

#[test]
fn counts_agree_on_snapshot_of_file_session() {
    let _guard = alone();
    let (file, copy) = (scratch("streamed.pftrace"), scratch("copied.pftrace"));
    let session = Session::record_to_file(&file).unwrap();
    (0..100).for_each(record);
    session.control().save_snapshot(&copy).unwrap();
    (0..100).for_each(record);
    let report = session.finish().unwrap();
    assert_eq!(agreed_on_file(&copy, None).events, 400);
    assert_eq!(agreed_on_file(&file, Some(&report)).events, 800);
    fs::remove_file(file).unwrap();
    fs::remove_file(copy).unwrap();
}

#[test]
fn counts_agree_on_flight_recorder_files() {
    let _guard = alone();
    let recorder = FlightRecorder::builder()
        .ring_kib(64)
        .min_interval(Duration::ZERO)
        .directory(scratch("flight"))
        .start()
        .unwrap();
    let minute = Duration::from_secs(60);
    let window = recorder
        .around("window", minute, minute)
        .save_in_background();
    for round in 0..3 {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..1_000).for_each(record));
            }
        });
        let open = span!("server", "open at the snapshot");
        let file = recorder.snapshot(&format!("round {round}")).save().unwrap();
        drop(open);
        let judged = agreed_on_file(&file, None);
        assert!(judged.events > 100, "{judged:?}");
    }
    drop(recorder);
    agreed_on_file(&window.wait().unwrap(), None);
    fs::remove_dir_all(scratch("flight")).unwrap();
}

#[test]
fn counts_agree_on_process_that_forked() {
    let _guard = alone();
    let file = scratch("forked.pftrace");
    let mut session = Some(Session::record_to_file(&file).unwrap());
    record(1);
    let open = span!("server", "across the fork");
    fork(|| {
        (0..10).for_each(record);
        thread::spawn(|| record(11)).join().unwrap();
        drop(session.take());
    })
    .wait();
    drop(open);
    record(2);
    let report = session.take().unwrap().finish().unwrap();
    let judged = agreed_on_file(&file, Some(&report));
    assert_eq!((judged.events, judged.data_packets), (4 + 2 + 4, 2));
    fs::remove_file(file).unwrap();
}
