//! Trace points evaluate no arguments while nothing records their category. This test has a process
//! of its own, because a capture of another test in the process would record the category.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::cell::Cell;

use tracezero::testing::Trace;
use tracezero::{DataSourceConfig, InMemorySession, TraceConfig, TrackEventConfig};
use tracezero_events::{counter, enabled, end, instant, span};

#[test]
fn arguments_are_not_evaluated_while_nothing_records() {
    let evaluated = Cell::new(0);
    let evaluate = || {
        evaluated.set(evaluated.get() + 1);
        evaluated.get()
    };
    let trace_all = || {
        let span = span!("mylib.unchosen", "span", number = evaluate());
        instant!("mylib.unchosen", "instant", number = evaluate());
        counter!("mylib.unchosen", "counter", evaluate());
        end!(span, last = evaluate());
        enabled!("mylib.unchosen")
    };
    assert!(!trace_all());
    let choice = TrackEventConfig::new().disable("*").enable("mylib");
    let source = DataSourceConfig::new("track_event").track_event(&choice);
    let session = TraceConfig::default()
        .add_data_source(source)
        .record_in_memory()
        .unwrap();
    assert!(!trace_all());
    drop(session);
    assert_eq!(evaluated.get(), 0);

    let session = InMemorySession::start().unwrap();
    assert!(trace_all());
    let (bytes, _) = session.finish();
    assert_eq!(evaluated.get(), 4);
    assert!(!trace_all());
    let trace = Trace::read(bytes).unwrap();
    trace
        .span("span")
        .once()
        .assert_arg("number", 1)
        .assert_arg("last", 4);
}
