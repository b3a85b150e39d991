//! Producers of Perfetto's own SDK, which `ci/interop.sh` describes.
//!
//! These tests are ignored, because few machines have such a program: it takes minutes to build, and
//! Debian has no package of it. `ci/interop.sh` runs them, and fails if the program is missing.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use judge::Verdict;

use crate::machine::{Machine, judged, judged_after_kills, wait_until};
use crate::programs::SPANS;
use crate::recordings::EVERYTHING;
use crate::restarts::{MORE_KIB, kills};
use crate::running::Program;

/// The longest time until a producer is killed. It connects in some milliseconds, and records from
/// then on.
const KILLED_WITHIN: Duration = Duration::from_millis(40);

/// The number of producers in one recording.
const PER_RECORDING: usize = 20;

/// After this part of all recordings, and at least [`WARM_UP`] of them, the daemon's memory stays as it
/// is: the allocator keeps what the first ones have touched.
const WARM_UP_PART: usize = 10;
const WARM_UP: usize = 3;

/// The number of spans of a producer that ends by itself.
const SPANS_OF_SDK: u64 = 20_000;

/// Waits until a producer has recorded. The time that it took follows in the line.
#[track_caller]
fn wait_until_done(producer: &mut Program) {
    while !producer.line("done").starts_with("done") {}
}

/// Returns the spans of each sequence, in the order of their ends. None may be missing between the
/// first and the last, nor be there twice.
#[track_caller]
fn spans(verdict: &Verdict) -> Vec<Range<u64>> {
    let mut indices: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for event in verdict.events_named("work") {
        let index = event.args["index"].as_u64().unwrap();
        indices.entry(event.sequence_id).or_default().push(index);
    }
    let mut spans: Vec<Range<u64>> = Vec::new();
    for (sequence, indices) in indices {
        let range = indices[0]..indices[0] + indices.len() as u64;
        assert!(indices.into_iter().eq(range.clone()), "a gap in {sequence}");
        spans.push(range);
    }
    spans.sort_by_key(|range| range.end);
    spans
}

#[test]
#[ignore = "needs sdk_producer: ci/interop.sh runs it"]
fn two_sessions_have_all_that_both_sdks_record() {
    let machine = Machine::start().expect("the programs are there");
    let sessions = ["one", "two"].map(|name| machine.record(name, EVERYTHING));
    wait_until(|| machine.has_sessions(2));
    let count = SPANS_OF_SDK.to_string();
    let mut theirs = machine.sdk_producer(&["1", &count, "wait"]).unwrap();
    let mut ours = machine.program("spans");
    wait_until_done(&mut theirs);
    ours.wait_for("done");
    let mut is_first = true;
    for session in sessions {
        let verdict = judged(&session.finish());
        let spans = spans(&verdict);
        let ends = spans.iter().map(|range| range.end);
        assert!(ends.eq([SPANS, SPANS, SPANS, SPANS_OF_SDK]), "{spans:?}");
        // Producers begin when the first session has started.
        assert!(!is_first || spans.iter().all(|range| range.start == 0));
        is_first = false;
        for process in [&theirs, &ours] {
            let process = process.id().cast_signed();
            let mut packets = verdict.packets.iter();
            assert!(packets.any(|packet| packet.trusted_pid() == process));
        }
    }
}

#[test]
#[ignore = "needs sdk_producer: ci/interop.sh runs it"]
fn an_sdk_connects_again_to_a_new_daemon() {
    let mut machine = Machine::start().expect("the programs are there");
    let count = SPANS_OF_SDK.to_string();
    let mut producer = machine.sdk_producer(&["1", &count, "wait"]).unwrap();
    machine.wait_for_producers(1);
    machine.restart();
    machine.wait_for_producers(1);
    let recording = machine.record("again", EVERYTHING);
    wait_until_done(&mut producer);
    let verdict = judged(&recording.finish());
    let spans = spans(&verdict);
    assert!(spans.iter().eq(iter::once(&(0..SPANS_OF_SDK))), "{spans:?}");
}

#[test]
#[ignore = "needs sdk_producer: ci/interop.sh runs it"]
fn trace_of_a_killed_sdk_has_no_gap() {
    let machine = Machine::start().expect("the programs are there");
    let (mut recorded, mut level) = (0, None);
    let runs = Vec::from_iter(0..kills());
    for (index, part) in runs.chunks(PER_RECORDING).enumerate() {
        let recording = machine.record("killed.pftrace", EVERYTHING);
        machine.wait_for_session("STARTED");
        for _ in part {
            let producer = machine.sdk_producer(&["1", "1000000", "wait"]).unwrap();
            thread::sleep(KILLED_WITHIN.mul_f64(fastrand::f64()));
            producer.kill();
        }
        machine.wait_for_producers(0);
        let verdict = judged_after_kills(&recording.finish());
        let spans = spans(&verdict);
        assert!(spans.iter().all(|range| range.start == 0), "{spans:?}");
        recorded += spans.len();
        let stats = verdict.trace_stats.as_ref().unwrap();
        assert_eq!(stats.invalid_packets(), 0);
        if index >= WARM_UP.max(runs.len() / PER_RECORDING / WARM_UP_PART) {
            let before = *level.get_or_insert_with(|| machine.possessions());
            machine.check_level(before, MORE_KIB);
        }
    }
    println!("{recorded} of {} have recorded", runs.len());
    assert!(recorded > 0);
}
