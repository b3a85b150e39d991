//! The attribute `trace`: the events that calls of the function leave in the trace.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::HashMap;

use judge::{Event, EventKind, ExtraSchema, Value, Verdict, judge};
use support::alone;
use tracezero::InMemorySession;

mod functions; // spans on the thread's track
mod options; // its category, name and arguments
mod asynchronous; // spans on tracks of their own
mod results; // results and errors of functions

/// Records `record` in a session, without other tests, and judges the trace. Every slice in it has
/// an end.
fn recorded(record: impl FnOnce()) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    record();
    let (trace, report) = session.finish();
    let verdict = judge(&trace, &ExtraSchema::new()).unwrap_or_else(|problems| {
        panic!("{problems:#?}");
    });
    assert_eq!(report.losses.total(), 0, "{report}");
    assert!(verdict.open_spans.is_empty(), "{:?}", verdict.open_spans);
    verdict
}

/// Returns the names of all slices in the order of their begins, each indented by two spaces per
/// slice that is open on its track.
fn outline(verdict: &Verdict) -> Vec<String> {
    let mut depths: HashMap<u64, usize> = HashMap::new();
    let mut events: Vec<&Event> = verdict.events.iter().collect();
    events.sort_by_key(|event| event.timestamp_ns);
    let mut outline = Vec::new();
    for event in events {
        let depth = depths.entry(event.track_uuid).or_default();
        match event.kind {
            EventKind::SliceBegin => {
                let name = event.name.as_deref().unwrap();
                outline.push(format!("{:1$}{name}", "", 2 * *depth));
                *depth += 1;
            }
            EventKind::SliceEnd => *depth -= 1,
            kind => panic!("{kind:?}"),
        }
    }
    outline
}

/// Returns the begin of the only slice with this name.
fn slice<'a>(verdict: &'a Verdict, name: &'a str) -> &'a Event {
    let mut events = verdict.events_named(name);
    let event = events.next().unwrap_or_else(|| panic!("no slice {name}"));
    assert!(events.next().is_none(), "{name} comes twice");
    event
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
