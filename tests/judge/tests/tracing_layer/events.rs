//! Events and counters of `tracing`, and records of `log`.

use std::sync::Once;

use judge::{Event, EventKind, Value, Verdict};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, TrackEventConfig};
use tracing::{Level, debug, error, event, info, trace};

use crate::recording::{alone, finish, recorded};

fn instants(verdict: &Verdict) -> Vec<&Event> {
    let events = verdict.events.iter();
    events
        .filter(|event| event.kind == EventKind::Instant)
        .collect()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn event_is_an_instant_named_by_message_with_its_level() {
    let verdict = recorded(|| {
        info!("plain");
        error!(target: "net", code = 5, "with a field");
        for number in 0..3 {
            debug!(number, "number {number}");
        }
    });
    let instants = instants(&verdict);
    let names: Vec<_> = instants
        .iter()
        .map(|event| event.name.as_deref().unwrap())
        .collect();
    assert_eq!(
        names,
        ["plain", "with a field", "number 0", "number 1", "number 2"]
    );
    assert_eq!(instants[0].args["level"], text("INFO"));
    assert_eq!(instants[0].args.len(), 1);
    assert_eq!(instants[0].categories, ["tracing_layer::events"]);
    let place = instants[0].source_location.as_ref().unwrap();
    assert!(place.file_name().ends_with("tracing_layer/events.rs"));
    assert_eq!(instants[1].categories, ["net"]);
    assert_eq!(instants[1].args["code"], Value::Int(5));
    assert_eq!(instants[4].args["number"], Value::Int(2));
    let line = |event: &Event| event.source_location.as_ref().unwrap().line_number();
    assert_eq!(line(instants[4]), line(instants[2]));
}

#[test]
fn named_event_has_its_message_as_argument() {
    let verdict = recorded(|| event!(name: "accepted", Level::INFO, "from {}", "here"));
    let [accepted] = instants(&verdict)[..] else {
        panic!("{verdict:?}")
    };
    assert_eq!(accepted.name.as_deref(), Some("accepted"));
    assert_eq!(accepted.args["message"], text("from here"));
}

#[test]
fn event_without_message_is_named_by_first_field() {
    let verdict = recorded(|| {
        let problem = "no luck";
        error!(counter.failures = 1, error = %problem, code = 5);
    });
    let names: Vec<_> = instants(&verdict)
        .iter()
        .map(|event| event.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["error"]);
    let event = instants(&verdict)[0];
    assert_eq!(event.args["error"], text("no luck"));
    let place = event.source_location.as_ref().unwrap();
    assert!(place.file_name().ends_with("tracing_layer/events.rs"));
}

#[test]
fn a_message_that_is_always_the_same_is_in_the_trace_once() {
    let verdict = recorded(|| {
        for _ in 0..10 {
            info!("always the same");
        }
    });
    assert_eq!(verdict.events_named("always the same").count(), 10);
    let definitions = verdict.packets.iter().flat_map(|packet| {
        let names = &packet.interned_data.event_names;
        names.iter().filter(|name| name.name() == "always the same")
    });
    assert_eq!(definitions.count(), 1);
}

#[test]
fn counter_fields_are_values_on_counter_tracks() {
    let verdict = recorded(|| {
        trace!(counter.queue = 5_u64, counter.load = 0.75);
        trace!(counter.queue = -1, "with a message");
    });
    let value = |name| -> Vec<_> {
        let events = verdict.events.iter();
        events
            .filter(|event| event.track_name.as_deref() == Some(name))
            .map(|event| event.counter.clone().unwrap())
            .collect()
    };
    assert_eq!(value("queue"), [Value::Int(5), Value::Int(-1)]);
    assert_eq!(value("load"), [Value::Double(0.75)]);
    let [with_message] = instants(&verdict)[..] else {
        panic!("{verdict:?}")
    };
    assert_eq!(with_message.args.keys().collect::<Vec<_>>(), ["level"]);
}

#[test]
fn records_of_log_have_their_own_targets_and_places() {
    static LOGS: Once = Once::new();
    LOGS.call_once(|| tracing_log::LogTracer::init().unwrap());
    let verdict = recorded(|| {
        for _ in 0..2 {
            log::warn!(target: "library", "low on {}", "disk");
        }
        log::info!("started");
    });
    let instants = instants(&verdict);
    assert_eq!(instants.len(), 3);
    for low in &instants[..2] {
        assert_eq!(low.name.as_deref(), Some("low on disk"));
        assert_eq!(low.categories, ["library"]);
        assert_eq!(low.args["level"], text("WARN"));
        assert_eq!(low.args.len(), 1);
    }
    assert_eq!(instants[2].categories, ["tracing_layer::events"]);
    let line = |event: &Event| {
        let place = event.source_location.as_ref().unwrap();
        assert!(place.file_name().ends_with("tracing_layer/events.rs"));
        place.line_number()
    };
    assert_eq!(line(instants[2]), line(instants[0]) + 2);
}

#[test]
fn session_can_omit_arguments_and_dynamic_names() {
    let _guard = alone();
    let events = TrackEventConfig::new()
        .filter_debug_annotations()
        .filter_dynamic_event_names();
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256))
        .add_data_source(DataSourceConfig::new("track_event").track_event(&events));
    let session = config.record_in_memory().unwrap();
    for secret in ["one", "two"] {
        info!(secret, "the secret is {secret}");
    }
    drop(tracing::info_span!("span", secret = "three").entered());
    let verdict = finish(session);
    assert_eq!(verdict.events_named("FILTERED").count(), 2);
    assert_eq!(verdict.events_named("span").count(), 1);
    assert!(verdict.events.iter().all(|event| event.args.is_empty()));
}
