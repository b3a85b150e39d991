//! Tests of the judge: it accepts and resolves a correct trace, and rejects a trace that breaks any
//! one rule.
//!
//! The tests build the traces with the foreign library that the judge reads them with.

mod clocks; // times of any clock
mod events; // slices, counters, tracks
mod form; // bytes, fields, extensions
mod sequences; // incremental state, losses, definitions
mod traces; // a correct trace, for tests to break

use judge::{EventKind, ExtraSchema, Rule, Value, judge};

use crate::traces::{
    DEFAULTS, GLOBAL_CLOCKS, INSTANT, accepted, assert_refused, encoded, good_trace,
};

#[test]
fn a_right_trace_is_accepted_and_resolved() {
    let verdict = accepted(&good_trace());

    assert_eq!(verdict.packets.len(), 15);
    assert_eq!(
        verdict.packets_per_sequence,
        [(1, 5), (2, 9), (3, 1)].into()
    );
    assert_eq!(verdict.open_spans, []);
    assert_eq!(verdict.losses, []);
    assert_eq!(verdict.trace_config.unwrap().duration_ms(), 500);
    assert_eq!(verdict.trace_stats.unwrap().total_buffers(), 1);

    let [begin, instant, counter, counter_again, end] = &verdict.events[..] else {
        panic!("{:#?}", verdict.events)
    };
    assert_eq!(begin.kind, EventKind::SliceBegin);
    assert_eq!(begin.sequence_id, 2);
    assert_eq!(begin.timestamp_ns, 2_010_000);
    assert_eq!(begin.track_name.as_deref(), Some("worker"));
    assert_eq!(begin.thread_name.as_deref(), Some("worker"));
    assert_eq!(begin.categories, ["io"]);
    assert_eq!(begin.name.as_deref(), Some("read_file"));
    assert_eq!(
        begin.args,
        [("path".to_owned(), Value::Text("Cargo.toml".to_owned()))].into()
    );
    assert_eq!(begin.source_location.as_ref().unwrap().file_name(), "io.rs");
    assert_eq!(instant.kind, EventKind::Instant);
    assert_eq!(
        instant.timestamp_ns, 2_005_000,
        "an absolute time on the sequence's other clock"
    );
    assert_eq!(counter.kind, EventKind::Counter);
    assert_eq!(counter.timestamp_ns, 2_011_000);
    assert_eq!(counter.counter, Some(Value::Int(100)));
    assert_eq!(
        counter_again.counter,
        Some(Value::Int(70)),
        "the sum of the differences"
    );
    assert_eq!(end.kind, EventKind::SliceEnd);
    assert_eq!(end.timestamp_ns, 2_015_000);
}

#[test]
fn data_before_any_part_of_the_preamble_is_refused() {
    for missing in GLOBAL_CLOCKS..DEFAULTS {
        let mut packets = good_trace();
        let preamble = packets.remove(missing);
        assert_refused(&packets, DEFAULTS - 1, Rule::Preamble);
        packets.push(preamble);
        assert_refused(&packets, DEFAULTS - 1, Rule::Preamble);
    }
}

#[test]
fn an_empty_trace_lacks_the_preamble() {
    let problems = judge(&[], &ExtraSchema::new()).unwrap_err();
    assert_eq!(problems.len(), 4);
    assert!(
        problems
            .iter()
            .all(|problem| problem.rule == Rule::Preamble)
    );
}

#[test]
fn a_problem_says_where_it_is() {
    let mut packets = good_trace();
    packets[INSTANT].mut_track_event().set_track_uuid(1234);
    let problems = judge(&encoded(&packets), &ExtraSchema::new()).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "packet 9, sequence 2, TrackDescriptor: track 1234 has no descriptor"
    );
}
