//! With the default sizes of a session, threads that record in tight loops lose nothing: each
//! recorded number is read back once, in order.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::{fs, thread};

use support::{Folder, alone};
use tracezero::protos::track_event::Type;
use tracezero::protos::{TraceDecoder, TracePacketDecoder};
use tracezero::testing::Trace;
use tracezero::{InMemorySession, Report, Session, counter, span};

/// The number of spans of all threads together, for which the default ring has room.
const SPANS: u64 = 240_000;

#[test]
fn one_thread_loses_nothing_in_memory() {
    record_in_memory(1);
}

#[test]
fn two_threads_lose_nothing_in_memory() {
    record_in_memory(2);
}

#[test]
fn eight_threads_lose_nothing_in_memory() {
    record_in_memory(8);
}

#[test]
fn one_thread_loses_nothing_on_its_way_to_a_file() {
    record_to_file(1);
}

#[test]
fn two_threads_lose_nothing_on_their_way_to_a_file() {
    record_to_file(2);
}

#[test]
fn eight_threads_lose_nothing_on_their_way_to_a_file() {
    record_to_file(8);
}

fn record_in_memory(threads: u64) {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    record(threads);
    let (trace, report) = session.finish();
    assert_that_all_are_there(&trace, &report, threads);
}

fn record_to_file(threads: u64) {
    let _guard = alone();
    let folder = Folder::empty();
    let path = folder.file("no_loss.pftrace");
    let session = Session::record_to_file(&path).unwrap();
    record(threads);
    let report = session.finish().unwrap();
    let trace = fs::read(&path).unwrap();
    assert_that_all_are_there(&trace, &report, threads);
}

/// Records the spans. All threads begin at the same time, and number their spans in an argument.
fn record(threads: u64) {
    let start = Barrier::new(threads as usize);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                for number in 0..SPANS / threads {
                    let _span = span!("no loss", "numbered", number);
                }
                counter!("no loss", "finished", 1);
            });
        }
    });
}

/// The spans of one thread in the trace.
#[derive(Debug, Default, PartialEq, Eq)]
struct ThreadSpans {
    /// The number of begins, which is also the next expected number.
    begins: u64,
    ends: u64,
}

fn assert_that_all_are_there(trace: &[u8], report: &Report, threads: u64) {
    assert_eq!(report.losses.total(), 0, "{report:#}");
    let per_thread = SPANS / threads;
    assert_eq!(report.packets_read, report.packets_begun);
    Trace::read(trace).unwrap().assert_well_formed();

    let mut sequences = BTreeMap::<u32, ThreadSpans>::new();
    for packet in TraceDecoder::new(trace).packet() {
        let packet: TracePacketDecoder<'_> = packet.unwrap();
        let Some(event) = packet.track_event().unwrap() else {
            continue;
        };
        let id = packet.trusted_packet_sequence_id().unwrap().unwrap();
        let read = sequences.entry(id).or_default();
        match event.r#type().unwrap() {
            Some(Type::SLICE_BEGIN) => {
                let mut args = event.debug_annotations();
                let number = args.next().unwrap().unwrap().uint_value().unwrap();
                assert_eq!(number, Some(read.begins), "the next of its thread");
                read.begins += 1;
            }
            Some(Type::SLICE_END) => read.ends += 1,
            _ => {}
        }
    }
    let all = ThreadSpans {
        begins: per_thread,
        ends: per_thread,
    };
    assert_eq!(sequences.len() as u64, threads);
    for (id, read) in sequences {
        assert_eq!(read, all, "sequence {id}");
    }
}
