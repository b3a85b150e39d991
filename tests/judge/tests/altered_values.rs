//! Values that the SDK has to change because a trace cannot hold them: arguments that are too
//! large, and counters beyond `i64`.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use judge::{ExtraSchema, Value, Verdict, judge};
use support::alone;
use tracezero::{
    ARG_MAX_BYTES, BufferConfig, DataSourceConfig, InMemorySession, TraceConfig, counter, dict,
    instant,
};

fn session() -> (MutexGuard<'static, ()>, InMemorySession) {
    let alone = alone();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(8192))
        .add_data_source(DataSourceConfig::new("track_event"))
        .record_in_memory()
        .unwrap();
    (alone, session)
}

fn finish(session: InMemorySession) -> Verdict {
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0);
    judge(&trace, &ExtraSchema::new()).unwrap()
}

fn text(verdict: &Verdict, event: &str, arg: &str) -> String {
    let event = verdict.events_named(event).next().unwrap();
    match &event.args[arg] {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_long_text_is_cut_between_characters_and_marked() {
    let whole = "x".repeat(ARG_MAX_BYTES);
    let long = format!("x{}", "ä".repeat(ARG_MAX_BYTES));
    let (_alone, session) = session();
    instant!("app", "whole", text = whole, display = %whole);
    instant!("app", "cut", text = long, display = %long, debug = ?long, number = 7);
    let verdict = finish(session);
    assert_eq!(text(&verdict, "whole", "text"), whole);
    assert_eq!(text(&verdict, "whole", "display"), whole);

    let kept = format!("x{}", "ä".repeat(ARG_MAX_BYTES / 2 - 1));
    let cut = format!("{kept}… ({} bytes)", 2 * ARG_MAX_BYTES + 1);
    assert_eq!(text(&verdict, "cut", "text"), cut);
    assert_eq!(text(&verdict, "cut", "display"), cut);
    let debug = text(&verdict, "cut", "debug");
    assert!(
        debug.starts_with("\"xä")
            && debug.ends_with(&format!("… ({} bytes)", 2 * ARG_MAX_BYTES + 3))
    );
    let event = verdict.events_named("cut").next().unwrap();
    assert_eq!(event.args["number"], Value::Int(7));
}

#[test]
fn a_list_and_a_map_end_with_how_much_there_was() {
    let numbers: Vec<u64> = (0..100_000).collect();
    let map: BTreeMap<String, u64> = (0..100_000).map(|it| (format!("{it:06}"), it)).collect();
    let long = "x".repeat(ARG_MAX_BYTES - 20);
    let (_alone, session) = session();
    instant!("app", "list", numbers);
    instant!("app", "map", map);
    instant!(
        "app",
        "dict",
        dict = dict(|out| {
            out.add("a", &long).add("b", &long).add("c", &7);
        })
    );
    let verdict = finish(session);
    let arg = |name: &str, arg: &str| verdict.events_named(name).next().unwrap().args[arg].clone();
    let Value::Array(list) = arg("list", "numbers") else {
        panic!("a list")
    };
    assert_eq!(
        list.last(),
        Some(&Value::Text("… (100000 elements)".to_owned()))
    );
    assert_eq!(list[list.len() - 2], Value::Uint(list.len() as u64 - 2));
    assert!(list.len() < 10_000);
    let Value::Dict(map) = arg("map", "map") else {
        panic!("a map")
    };
    assert_eq!(map["…"], Value::Text("… (100000 entries)".to_owned()));
    assert_eq!(map["000001"], Value::Uint(1));
    let Value::Dict(dict) = arg("dict", "dict") else {
        panic!("a map")
    };
    assert_eq!(dict["a"], Value::Text(long.clone()));
    assert_eq!(
        dict["b"],
        Value::Text(format!("xx… ({} bytes)", long.len()))
    );
    assert_eq!(dict["…"], Value::Text("… (3 entries)".to_owned()));
}

#[test]
fn counters_of_mixed_kinds_and_large_values_keep_them() {
    let (_alone, session) = session();
    counter!("app", "mixed", 7);
    counter!("app", "mixed", 0.5);
    counter!("app", "mixed", i64::MAX as u64);
    counter!("app", "mixed", 1_u64 << 63);
    counter!("app", "mixed", u64::MAX);
    counter!("app", "mixed", -1_i64);
    let verdict = finish(session);
    let values: Vec<_> = verdict
        .events
        .iter()
        .filter_map(|event| event.counter.clone())
        .collect();
    let expected = [
        Value::Int(7),
        Value::Double(0.5),
        Value::Int(i64::MAX),
        Value::Double(9_223_372_036_854_775_808.0),
        Value::Double(18_446_744_073_709_551_615.0),
        Value::Int(-1),
    ];
    assert_eq!(values, expected);
}
