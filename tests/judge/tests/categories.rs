//! Checks which events sessions record, by the categories of their configurations, and after these
//! change during the session.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::thread;

use judge::{EventKind, ExtraSchema, Verdict, judge};
use support::alone;
use tracezero::{
    BufferConfig, Category, DataSourceConfig, InMemorySession, TraceConfig, TrackEventConfig,
    categories, counter, enabled, instant, service_state, span,
};

#[test]
fn two_sessions_at_the_same_time_record_what_each_has_chosen() {
    let _guard = alone();
    let all = session(&TrackEventConfig::new());
    let chosen = session(&TrackEventConfig::new().disable("*").enable("pair.a"));
    for round in 0..3 {
        let _span = span!("pair.a", "pair a", round = round);
        instant!("pair.b", "pair b");
        counter!("pair.b", "pair count", round);
    }
    assert_eq!(
        names(&all.finish().0, "pair"),
        [("pair a", 3), ("pair b", 3)]
    );
    let (trace, report) = chosen.finish();
    assert_eq!(names(&trace, "pair"), [("pair a", 3)]);
    assert_eq!(report.events, 6);
}

#[test]
fn new_call_site_applies_categories_of_running_sessions() {
    let _guard = alone();
    let session = session(&TrackEventConfig::new().disable("first.*"));
    instant!("first.a", "first a");
    instant!("first", "first");
    assert_eq!(names(&session.finish().0, "first"), [("first", 1)]);
}

#[test]
fn tags_that_are_declared_later_count_from_then_on() {
    let _guard = alone();
    let session = session(&TrackEventConfig::new());
    let default_off = || instant!("later", "later");
    default_off();
    categories! { "later": "Off from its declaration on" tags ["slow"] }
    default_off();
    default_off();
    let asked_for = self::session(&TrackEventConfig::new().enable_tag("slow"));
    default_off();
    assert_eq!(names(&session.finish().0, "later"), [("later", 1)]);
    assert_eq!(names(&asked_for.finish().0, "later"), [("later", 1)]);
}

#[test]
fn an_event_of_several_categories_is_recorded_if_one_of_them_is() {
    let _guard = alone();
    categories! {
        "group.slow": "Slow" tags ["slow"];
        "group.debug": "For debugging" tags ["debug"];
    }
    let session = session(&TrackEventConfig::new().disable("group.off"));
    instant!("group.slow,group.on", "one on");
    instant!("group.off,group.slow,group.debug", "none on");
    assert!(enabled!("group.off,group.on") && !enabled!("group.off,group.slow"));
    assert_eq!(
        names_of(&session.finish().0, &["one on", "none on"]),
        [("one on", 1)]
    );
}

#[test]
fn consumers_can_list_categories_declared_before_and_after() {
    let _guard = alone();
    Category::declare(&[Category::new("list.a", "").tags(&["one"])]);
    let session = session(&TrackEventConfig::new());
    // Another library declares the same category, with a description and tags.
    categories! {
        "list.a": "The first" tags ["two", "one"];
        "list.b": "The second";
    }
    categories! { "list.b": "Described already" }
    let state = service_state();
    let mut data_sources = state
        .producers
        .iter()
        .flat_map(|producer| &producer.data_sources);
    let track_event = data_sources.find(|data_source| data_source.name == "track_event");
    let listed: Vec<_> = track_event
        .unwrap()
        .categories
        .iter()
        .filter(|category| category.name.starts_with("list."))
        .map(|category| {
            (
                category.name.as_str(),
                category.description.as_str(),
                category.tags.len(),
            )
        })
        .collect();
    assert_eq!(
        listed,
        [("list.a", "The first", 2), ("list.b", "The second", 0)]
    );
    drop(session);
}

#[test]
fn every_library_can_declare_from_its_own_thread() {
    let _guard = alone();
    let session = session(&TrackEventConfig::new());
    thread::scope(|scope| {
        for name in [
            "own.0", "own.1", "own.2", "own.3", "own.4", "own.5", "own.6", "own.7",
        ] {
            scope.spawn(move || Category::declare(&[Category::new(name, "One of eight")]));
        }
    });
    let state = service_state();
    let categories = state
        .producers
        .iter()
        .flat_map(|producer| &producer.data_sources)
        .flat_map(|data_source| &data_source.categories);
    let own = categories.filter(|category| category.name.starts_with("own."));
    assert_eq!(own.count(), 8);
    drop(session);
}

#[test]
fn a_choice_takes_effect_at_once_and_a_span_ends_if_it_began() {
    let _guard = alone();
    let off = TrackEventConfig::new().disable("switched");
    let on = TrackEventConfig::new();
    let session = session(&on);
    let begins_on = span!("switched", "begins on");
    session.control().choose_categories(&off).unwrap();
    let begins_off = span!("switched", "begins off");
    instant!("switched", "while off");
    assert!(!enabled!("switched"));
    drop(begins_on);
    session.control().choose_categories(&on).unwrap();
    drop(begins_off);
    instant!("switched", "on again");
    assert!(enabled!("switched"));
    let (trace, report) = session.finish();
    let expected = [("begins on", 1), ("on again", 1)];
    let all = ["begins on", "begins off", "while off", "on again"];
    assert_eq!(names_of(&trace, &all), expected);
    assert_eq!(report.events, 3);
}

#[test]
fn slices_stay_balanced_while_categories_change() {
    let _guard = alone();
    let session = session(&TrackEventConfig::new());
    let choices = [
        TrackEventConfig::new().disable("balance.*"),
        TrackEventConfig::new().disable("balance.outer"),
        TrackEventConfig::new().disable("*").enable("balance.outer"),
        TrackEventConfig::new(),
    ];
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..2000 {
                    let _outer = span!("balance.outer", "balance outer", round = round);
                    let _inner = span!("balance.inner", "balance inner");
                    instant!("balance", "balance point");
                }
            });
        }
        for choice in choices.iter().cycle().take(400) {
            session.control().choose_categories(choice).unwrap();
            thread::yield_now();
        }
    });
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0);
    let verdict = verdict(&trace);
    assert_eq!(verdict.open_spans, []);
    let begins = verdict
        .events
        .iter()
        .filter(|event| event.kind == EventKind::SliceBegin);
    let ends = verdict
        .events
        .iter()
        .filter(|event| event.kind == EventKind::SliceEnd);
    assert_eq!(begins.count(), ends.count());
}

#[test]
fn a_session_that_starts_later_starts_with_what_was_chosen_last() {
    let _guard = alone();
    let events = DataSourceConfig::new("track_event").track_event(&TrackEventConfig::new());
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024))
        .add_data_source(events)
        .deferred_start()
        .record_in_memory()
        .unwrap();
    let choice = TrackEventConfig::new().disable("deferred.a");
    session.control().choose_categories(&choice).unwrap();
    session.control().start();
    instant!("deferred.a", "deferred a");
    instant!("deferred.b", "deferred b");
    assert_eq!(names(&session.finish().0, "deferred"), [("deferred b", 1)]);
}

#[test]
fn a_session_that_records_everything_can_choose_too() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let choice = TrackEventConfig::new().disable("*").enable("everything.b");
    session.control().choose_categories(&choice).unwrap();
    instant!("everything.a", "everything a");
    instant!("everything.b", "everything b");
    assert_eq!(
        names(&session.finish().0, "everything"),
        [("everything b", 1)]
    );
}

#[test]
fn a_pattern_with_a_star_inside_is_refused_and_changes_nothing() {
    let _guard = alone();
    let wrong = TrackEventConfig::new().disable_tag("a*b").disable("*");
    let source = DataSourceConfig::new("track_event").track_event(&wrong);
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64))
        .add_data_source(source);
    let error = config.check().unwrap_err().to_string();
    let place = "data_sources[0].config.track_event_config.disabled_tags";
    assert!(error.contains(place) && error.contains("a*b"), "{error}");

    let session = session(&TrackEventConfig::new());
    let error = session
        .control()
        .choose_categories(&wrong)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("track_event_config.disabled_tags"),
        "{error}"
    );
    assert!(enabled!("wrong"));
    drop(session);
}

fn session(events: &TrackEventConfig) -> InMemorySession {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(8192))
        .add_data_source(DataSourceConfig::new("track_event").track_event(events))
        .record_in_memory()
        .unwrap()
}

fn verdict(trace: &[u8]) -> Verdict {
    judge(trace, &ExtraSchema::new()).unwrap()
}

/// Counts the events whose names begin with `prefix`, without ends of slices, by name.
fn names(trace: &[u8], prefix: &str) -> Vec<(&'static str, usize)> {
    count(trace, |name| name.starts_with(prefix))
}

fn names_of(trace: &[u8], names: &[&str]) -> Vec<(&'static str, usize)> {
    count(trace, |name| names.contains(&name))
}

fn count(trace: &[u8], is_wanted: impl Fn(&str) -> bool) -> Vec<(&'static str, usize)> {
    let mut counts = BTreeMap::new();
    for event in verdict(trace).events {
        if let Some(name) = event.name.filter(|name| is_wanted(name)) {
            *counts.entry(name.leak() as &str).or_insert(0) += 1;
        }
    }
    counts.into_iter().collect()
}
