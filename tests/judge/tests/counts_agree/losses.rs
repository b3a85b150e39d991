//! Counts agree on traces with losses: rings that lap, and packets that are dropped, discarded,
//! invalid or unfinished.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::alone;
use tracezero::protos::trace_packet::SequenceFlags;
use tracezero::{
    BufferConfig, BufferExhaustedPolicy, CounterTrack, DataSource as _, DataSourceConfig, Flow,
    InMemorySession, TraceConfig, Track, counter, data_source, instant, span,
};

use crate::agreement::agreed;

struct Packets;
data_source!(Packets, "com.example.packets");

#[test]
fn counts_agree_on_rings_that_overwrote_names() {
    let _guard = alone();
    // Each thread often writes its definitions again. So it depends on chance whether the ring
    // overwrites definitions that a packet in the ring still needs. This may take several attempts.
    for _ in 0..20 {
        let undecodable = [(8, 1), (32, 1), (64, 3), (256, 4)].map(undecodable_in_lapped_ring);
        if undecodable.iter().sum::<u64>() > 0 {
            return;
        }
    }
    panic!("nothing was lost that others build on");
}

fn undecodable_in_lapped_ring((size_kb, threads): (u32, u32)) -> u64 {
    let session = ring(size_kb).record_in_memory().unwrap();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..4_000).for_each(record));
        }
    });
    let (trace, report) = session.finish();
    assert!(report.losses.overwritten > 0, "{report}");
    let name = format!("lapped {size_kb} {threads}");
    agreed(&name, &trace, Some(&report)).undecodable
}

/// Records an event of each form.
fn record(number: i64) {
    let flow = Flow::new();
    let track = Track::new("requests").unique_child("request");
    let _outer = span!("rounds", "outer", number, text = "some text");
    let _request = span!("net", "request", number, track: &track, flow: &flow);
    instant!("rounds", format!("pass {number}"), number, last_flow: &flow);
    counter!("rounds", "number", number);
    counter!("rounds", &CounterTrack::under(&track, "bytes"), number);
}

fn ring(size_kb: u32) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(size_kb))
        .record_all()
}

#[test]
fn counts_agree_on_full_discard_buffer() {
    let _guard = alone();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(64))
        .record_all()
        .record_in_memory()
        .unwrap();
    (0..10_000).for_each(record);
    let (trace, report) = session.finish();
    assert!(report.losses.discarded > 0, "{report}");
    agreed("discarded", &trace, Some(&report));
}

#[test]
fn counts_agree_on_streamed_ring_without_waiting_writers() {
    let _guard = alone();
    for (name, config) in [
        (
            "overwritten",
            TraceConfig::empty()
                .add_buffer(BufferConfig::ring(64))
                .add_data_source(
                    DataSourceConfig::new("track_event")
                        .exhausted_policy(BufferExhaustedPolicy::Drop),
                ),
        ),
        (
            "refused",
            TraceConfig::empty()
                .add_buffer(BufferConfig::ring(64).grow_to(256))
                .record_all()
                .never_wait(),
        ),
    ] {
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let session = config
            .file_write_period(Duration::from_millis(1))
            .record_to_file(path)
            .unwrap();
        drop(writer);
        // Nobody reads the pipe meanwhile, and these events need more room than all buffers have.
        let text = "long ".repeat(400);
        for number in 0..4_000 {
            record(number);
            instant!("counts", "long", text = text.as_str());
        }
        let reads = thread::spawn(move || {
            let mut trace = Vec::new();
            reader.read_to_end(&mut trace).map(|_| trace)
        });
        (0..100).for_each(record);
        let report = session.finish().unwrap();
        let trace = reads.join().unwrap().unwrap();
        assert!(report.losses.total() > 0, "{name}: {report}");
        agreed(name, &trace, Some(&report));
    }
}

#[test]
fn counts_agree_on_malformed_packets() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    for number in 0..30 {
        Packets::trace(|cx| {
            // Only the service may write this field.
            cx.packet(|packet| {
                packet.set_trusted_packet_sequence_id(7);
            });
            cx.packet(|packet| {
                // After the loss, packets that need incremental state cannot be read until it is
                // cleared.
                packet.set_sequence_flags(match number % 3 {
                    0 => SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32,
                    _ => SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u32,
                });
                packet.for_testing(|event| {
                    event.set_seq_value(number);
                });
            });
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    event.set_seq_value(number);
                });
            });
        });
        instant!("counts", "beside them", number);
    }
    let (trace, report) = session.finish();
    assert_eq!(report.losses.invalid, 30, "{report}");
    let judged = agreed("invalid", &trace, Some(&report));
    assert_eq!(
        (judged.events, judged.data_packets, judged.undecodable),
        (30, 40, 20)
    );
}

#[test]
fn counts_agree_on_unfinished_packets() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let (begun, is_begun) = mpsc::channel();
    let (finish, is_to_finish) = mpsc::channel::<()>();
    let writer = thread::spawn(move || {
        instant!("counts", "before");
        Packets::trace(|cx| {
            cx.packet(|packet| {
                packet.for_testing(|event| {
                    // Longer than several chunks.
                    event.set_str(&"long ".repeat(4_000));
                    begun.send(()).unwrap();
                    is_to_finish.recv().unwrap();
                });
            });
        });
    });
    is_begun.recv().unwrap();
    instant!("counts", "meanwhile");
    let (trace, report) = session.finish();
    finish.send(()).unwrap();
    writer.join().unwrap();
    assert_eq!(report.losses.unfinished, 1, "{report}");
    let judged = agreed("unfinished", &trace, Some(&report));
    assert_eq!((judged.events, judged.data_packets), (2, 0));
}
