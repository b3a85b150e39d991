//! The warnings in a report about likely mistakes.

use std::collections::BTreeMap;

use support::alone;
use tracezero::{
    ARG_MAX_BYTES, BufferConfig, DataSource as _, DataSourceConfig, InMemorySession,
    OPEN_SPANS_MAX, Report, TraceConfig, TrackEventConfig, Warning, categories, counter,
    data_source, instant, span,
};

struct Known;
data_source!(Known, "com.example.known");

fn config() -> TraceConfig {
    TraceConfig::empty().add_buffer(BufferConfig::ring(1024))
}

fn record(config: TraceConfig) -> InMemorySession {
    config.record_in_memory().expect("a session")
}

fn record_events(events: &TrackEventConfig) -> InMemorySession {
    record(config().add_data_source(DataSourceConfig::new("track_event").track_event(events)))
}

/// Returns what the report prints after its first line.
fn printed_warnings(report: &Report) -> Vec<String> {
    let report = report.to_string();
    report.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_session_without_mistakes_has_no_warnings() {
    let _guard = alone();
    Known::register();
    let events = TrackEventConfig::new().disable("*").enable("sound*");
    let events = DataSourceConfig::new("track_event").track_event(&events);
    let config = config()
        .add_data_source(events)
        .add_data_source(DataSourceConfig::new("com.example.known"));
    let session = record(config);
    instant!("sound", "played");
    let report = session.finish().1;
    assert_eq!((report.events, &report.warnings[..]), (1, &[][..]));
    assert_eq!(
        InMemorySession::start()
            .expect("a session")
            .finish()
            .1
            .warnings,
        []
    );
}

#[test]
fn a_data_source_that_nobody_has_is_named() {
    let _guard = alone();
    Known::register();
    let config = config()
        .add_data_source(DataSourceConfig::new("track_event"))
        .add_data_source(DataSourceConfig::new("com.example.knwon"))
        .add_data_source(DataSourceConfig::new("com.example.known").producer_name("another"));
    let report = record(config).finish().1;
    let names = report.warnings.iter().map(|warning| match warning {
        Warning::UnknownDataSource { name, known } => {
            assert!(known.iter().any(|known| known == "com.example.known"));
            name.as_str()
        }
        other => panic!("{other}"),
    });
    assert_eq!(
        Vec::from_iter(names),
        ["com.example.knwon", "com.example.known"]
    );
    let printed = printed_warnings(&report);
    assert_eq!(printed.len(), 2);
    let expected =
        "warning: no producer has the data source `com.example.knwon`, so it recorded nothing";
    assert!(printed[0].starts_with(expected), "{report}");
}

#[test]
fn a_data_source_that_comes_while_the_session_runs_is_there() {
    struct Late;
    data_source!(Late, "com.example.late");
    let _guard = alone();
    let session = record(config().add_data_source(DataSourceConfig::new("com.example.late")));
    Late::trace(|cx| cx.packet(|_| ()));
    assert_eq!(session.finish().1.warnings, []);
}

#[test]
fn a_configuration_without_data_sources_says_so() {
    let _guard = alone();
    let report = record(config()).finish().1;
    assert_eq!(report.warnings, [Warning::NoDataSource]);
    assert!(printed_warnings(&report)[0].contains("DataSourceConfig::new(\"track_event\")"));
}

#[test]
fn patterns_that_match_nothing_are_named_once() {
    let _guard = alone();
    categories! { "picture.slow": "Slow ones" tags ["picture-slow"] }
    instant!("picture.first,picture.second", "reached");
    let events = TrackEventConfig::new()
        .disable("*")
        .enable("pictures")
        .disable("pictures")
        .enable("picture.second")
        .enable("picture.*")
        .enable("picture.slow*")
        .disable("audio*")
        .enable_tag("picture-slow")
        .enable_tag("picture-fast")
        .disable_tag("picture-other");
    let report = record_events(&events).finish().1;
    let patterns = report.warnings.iter().map(|warning| match warning {
        Warning::UnmatchedCategory { pattern, .. } => (pattern.as_str(), "category"),
        Warning::UnmatchedTag { pattern, .. } => (pattern.as_str(), "tag"),
        other => panic!("{other}"),
    });
    let expected = [
        ("pictures", "category"),
        // No warning for patterns that disable: they may be a precaution.
        ("picture-fast", "tag"),
    ];
    assert_eq!(Vec::from_iter(patterns), expected);
    let printed = printed_warnings(&report);
    let expected = "warning: no category matched the pattern `pictures`; correct it, or remove it";
    assert!(printed[0].starts_with(expected), "{report}");
}

#[test]
fn the_last_choice_of_categories_counts() {
    let _guard = alone();
    let session = record_events(&TrackEventConfig::new().enable("frist"));
    instant!("first", "reached");
    let choose = |events| {
        session
            .control()
            .choose_categories(&events)
            .expect("chosen");
    };
    choose(TrackEventConfig::new().enable("first"));
    assert_eq!(session.finish().1.warnings, []);
}

#[test]
fn arguments_that_are_cut_are_counted() {
    let _guard = alone();
    let session = InMemorySession::start().expect("a session");
    let long = "ä".repeat(ARG_MAX_BYTES);
    let whole = "x".repeat(ARG_MAX_BYTES);
    instant!("app", "whole", text = whole, debug = %whole);
    instant!("app", "cut", text = long, display = %long, number = 7);
    instant!("app", "list", list = vec![long.as_str(); 3]);
    let report = session.finish().1;
    assert_eq!(report.warnings, [Warning::CutArguments { count: 3 }]);
    assert_eq!((report.events, report.losses.total()), (3, 0));
}

#[test]
fn counters_beyond_i64_are_exact_or_counted() {
    let _guard = alone();
    let session = InMemorySession::start().expect("a session");
    counter!("app", "exact", 1_u64 << 63);
    counter!("app", "exact", i64::MAX as u64);
    assert_eq!(session.finish().1.warnings, []);
    let session = InMemorySession::start().expect("a session");
    counter!("app", "rounded", u64::MAX);
    let report = session.finish().1;
    assert_eq!(report.warnings, [Warning::RoundedCounters { count: 1 }]);
}

#[test]
fn maps_that_are_cut_are_counted_once() {
    let _guard = alone();
    let session = InMemorySession::start().expect("a session");
    let map: BTreeMap<String, u64> = (0..10_000).map(|it| (format!("{it:08}"), it)).collect();
    instant!("app", "map", map);
    assert_eq!(
        session.finish().1.warnings,
        [Warning::CutArguments { count: 1 }]
    );
}

#[test]
fn spans_inside_of_too_many_are_counted() {
    let _guard = alone();
    let session = InMemorySession::start().expect("a session");
    let mut guards = Vec::from_iter((0..OPEN_SPANS_MAX).map(|_| span!("app", "open")));
    let inside = span!("app", "not recorded");
    drop(inside);
    guards.pop();
    guards.push(span!("app", "recorded"));
    // Drops the newest guard first.
    while guards.pop().is_some() {}
    let report = session.finish().1;
    assert_eq!(report.warnings, [Warning::TooDeepSpans { count: 1 }]);
    assert_eq!(report.events, 2 * OPEN_SPANS_MAX as u64 + 2);
}
