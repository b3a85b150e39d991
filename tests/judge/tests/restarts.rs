//! After any loss, a sequence clears its incremental state, so later packets can be read. A foreign
//! reader finds as many events as the report says.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

#[path = "sources/numbers.rs"]
mod numbers; // a data source with incremental state

use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use judge::{ExtraSchema, Options, Verdict, judge_with};
use perfetto_protos::trace_packet::trace_packet::SequenceFlags;
use support::{alone, wait_until};
use tracezero::{
    BufferConfig, BufferExhaustedPolicy, DataSource as _, DataSourceConfig, Report, TraceConfig,
    instant, span,
};

use numbers::Numbers;

/// The number of events that no buffer of these tests can hold.
const FLOOD: u64 = 50_000;
/// The number of events that follow when the file is read again. They fit into every buffer.
const AFTER: u64 = 2_000;
/// The maximal number of unreadable events after a loss.
const UNREADABLE_MAX: u64 = 1_000;

#[test]
fn events_behind_an_overrun_of_a_streamed_ring_are_readable() {
    let _guard = alone();
    let source = DataSourceConfig::new("track_event").exhausted_policy(BufferExhaustedPolicy::Drop);
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256))
        .add_data_source(source);
    let (verdict, report) = recorded_while_the_file_stands_still(config);
    assert!(report.losses.overwritten > 0, "{report}");
    assert_that_the_rest_is_readable(&verdict, &report);
}

#[test]
fn events_behind_a_wait_that_was_too_long_are_readable() {
    let _guard = alone();
    let limit = Duration::from_millis(20);
    let (verdict, report) = recorded_while_the_file_stands_still(streaming().wait_limit(limit));
    assert!(report.losses.dropped > 0, "{report}");
    assert!(report.memory.waited >= limit, "{report}");
    assert_that_the_rest_is_readable(&verdict, &report);
}

#[test]
fn events_behind_a_drop_of_writers_that_never_wait_are_readable() {
    let _guard = alone();
    let (verdict, report) = recorded_while_the_file_stands_still(streaming().never_wait());
    assert!(report.losses.dropped > 0, "{report}");
    assert!(report.memory.waited.is_zero(), "{report}");
    assert_that_the_rest_is_readable(&verdict, &report);
    // A dropped event counts as one packet, even if the sequence would have started its incremental
    // state again with this event, which takes further packets.
    let missing = FLOOD + AFTER - report.events - report.losses.undecodable;
    let beside_events = report.losses.dropped.abs_diff(missing);
    assert!(beside_events < 10, "{missing} events are missing: {report}");
}

#[test]
fn packets_after_an_invalid_one_restart_incremental_state() {
    let _guard = alone();
    let (mut reader, writer) = io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let session = TraceConfig::default()
        .file_write_period(Duration::from_millis(1))
        .record_to_file(path)
        .unwrap();
    drop(writer);
    assert_eq!(Numbers::write(), 0);
    assert_eq!(Numbers::write(), 1);
    // Only the service may write this field.
    Numbers::trace(|cx| {
        cx.incremental_packet(|packet, _| {
            packet.set_trusted_packet_sequence_id(7);
        });
    });
    // The service finds the invalid packet when it writes the file.
    while Numbers::write() != 0 {
        assert!(session.control().flush());
    }
    assert_eq!(Numbers::write(), 1);
    let reads = thread::spawn(move || {
        let mut trace = Vec::new();
        reader.read_to_end(&mut trace).map(|_| trace)
    });
    let report = session.finish().unwrap();
    assert_eq!(
        (report.losses.invalid, report.losses.dropped),
        (1, 0),
        "{report}"
    );
    let trace = reads.join().unwrap().unwrap();
    let verdict = judged(&trace);
    let starts = verdict.packets.iter().filter(|packet| {
        let starts = SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED as u32;
        packet.has_for_testing() && packet.sequence_flags() & starts != 0
    });
    assert_eq!(starts.count(), 2);
}

#[test]
fn rings_make_at_most_two_percent_of_events_unreadable() {
    let _guard = alone();
    for (size_kb, threads) in [(256, 1), (256, 4), (1024, 8)] {
        let config = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(size_kb))
            .record_all();
        let session = config.record_in_memory().unwrap();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for number in 0..u64::from(size_kb) * 150 / threads {
                        let _span = span!("ring", "lapping", number, text = "some text");
                    }
                });
            }
        });
        let (trace, report) = session.finish();
        let verdict = judged(&trace);
        assert_counts_agree(&verdict, &report);
        let undecodable = report.losses.undecodable;
        assert!(
            undecodable * 50 <= report.packets_read + undecodable,
            "{size_kb} KiB, {threads} threads: {report}"
        );
    }
}

/// Returns a configuration with a buffer that grows to 4 MiB.
fn streaming() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256).grow_to(4096))
        .record_all()
}

/// Floods a session whose file is a pipe that is not read, then reads the pipe and writes more
/// events.
fn recorded_while_the_file_stands_still(config: TraceConfig) -> (Verdict, Report) {
    let (mut reader, writer) = io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let session = config
        .file_write_period(Duration::from_millis(1))
        .record_to_file(path)
        .unwrap();
    drop(writer);
    for number in 0..FLOOD {
        instant!(
            "restarts",
            "flood",
            number,
            text = "0123456789 0123456789 0123456789 0123456789"
        );
    }
    let reads = thread::spawn(move || {
        let mut trace = Vec::new();
        reader.read_to_end(&mut trace).map(|_| trace)
    });
    // Only packets that their writers have not committed are left then.
    wait_until(|| {
        let accounts = session.control().stats().sequences;
        accounts.iter().all(|account| account.buffered <= 10)
    });
    for number in 0..AFTER {
        instant!("restarts", "after", number);
    }
    let report = session.finish().unwrap();
    let trace = reads.join().unwrap().unwrap();
    (judged(&trace), report)
}

fn judged(trace: &[u8]) -> Verdict {
    let options = Options {
        allow_unreadable_after_loss: true,
        allow_open_spans: true,
        ..Options::default()
    };
    judge_with(trace, &ExtraSchema::new(), options)
        .unwrap_or_else(|problems| panic!("{:#?}", &problems[..problems.len().min(10)]))
}

fn assert_that_the_rest_is_readable(verdict: &Verdict, report: &Report) {
    let after = verdict.events_named("after").count() as u64;
    assert!(
        after >= AFTER - UNREADABLE_MAX,
        "{after} of {AFTER}: {report}"
    );
    assert_counts_agree(verdict, report);
}

/// Asserts that the report and the judge count the same.
fn assert_counts_agree(verdict: &Verdict, report: &Report) {
    assert_eq!(report.events, verdict.events.len() as u64, "{report}");
    let unreadable = verdict.unreadable_packets as u64;
    assert_eq!(report.losses.undecodable, unreadable, "{report}");
}
