//! Which spans and events are recorded, by filters of layers and by sessions' categories and
//! levels, and which of them other layers see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use judge::Verdict;
use tracezero::{BufferConfig, DataSourceConfig, InMemorySession, TraceConfig, TrackEventConfig};
use tracing::{Event, Subscriber, debug, info, info_span, span, trace_span, warn};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry;

use crate::recording::{alone, finish, recorded};

/// Returns the names of all events, in file order.
fn names(verdict: &Verdict) -> Vec<&str> {
    let events = verdict.events.iter();
    events.filter_map(|event| event.name.as_deref()).collect()
}

fn recorded_with(events: &TrackEventConfig, record: impl FnOnce()) -> Verdict {
    let _guard = alone();
    let config = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256))
        .add_data_source(DataSourceConfig::new("track_event").track_event(events));
    let session = config.record_in_memory().unwrap();
    record();
    finish(session)
}

/// A layer that counts the spans and events that it sees.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU32>);

impl<S: Subscriber> Layer<S> for Counting {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        // Relaxed: only one thread counts.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn on_new_span(&self, _: &span::Attributes<'_>, _: &span::Id, _: Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn sessions_choose_targets_by_category_and_levels_by_tag() {
    let record = || {
        let _span = trace_span!(target: "choices::io", "read").entered();
        warn!(target: "choices::net", "slow");
        debug!(target: "choices::net", "details");
    };
    let all = recorded_with(&TrackEventConfig::new(), record);
    assert_eq!(names(&all), ["read", "slow", "details"]);
    let no_io = TrackEventConfig::new().disable("choices::io");
    assert_eq!(names(&recorded_with(&no_io, record)), ["slow", "details"]);
    let only_net = TrackEventConfig::new().disable("*").enable("choices::net*");
    assert_eq!(
        names(&recorded_with(&only_net, record)),
        ["slow", "details"]
    );
    let no_details = TrackEventConfig::new()
        .disable_tag("TRACE")
        .disable_tag("DEBUG");
    assert_eq!(names(&recorded_with(&no_details, record)), ["slow"]);
}

#[test]
fn a_filter_of_the_layer_leaves_out_what_other_layers_see() {
    let counting = Counting::default();
    let filtered = tracezero::layer().with_filter(LevelFilter::INFO);
    let subscriber = registry().with(filtered).with(counting.clone());
    let verdict = recorded(|| {
        tracing::subscriber::with_default(subscriber, || {
            let outer = info_span!("outer");
            let _outer = outer.enter();
            let hidden = trace_span!("hidden", number = 1);
            let _hidden = hidden.enter();
            hidden.follows_from(&outer);
            outer.follows_from(&hidden);
            let _inner = info_span!("inner").entered();
            debug!("hidden");
            info!("shown");
        });
    });
    assert_eq!(names(&verdict), ["outer", "inner", "shown"]);
    assert!(verdict.open_spans.is_empty());
    assert_eq!(counting.0.load(Ordering::Relaxed), 5);
}

#[test]
fn a_filter_of_another_layer_leaves_out_nothing() {
    let counting = Counting::default();
    let nothing = counting.clone().with_filter(filter_fn(|_| false));
    let subscriber = registry().with(nothing).with(tracezero::layer());
    let verdict = recorded(|| {
        tracing::subscriber::with_default(subscriber, || {
            let _span = info_span!("span").entered();
            info!("event");
        });
    });
    assert_eq!(names(&verdict), ["span", "event"]);
    assert_eq!(counting.0.load(Ordering::Relaxed), 0);
}

#[test]
fn other_layers_see_everything_whether_a_session_runs_or_not() {
    let _guard = alone();
    let counting = Counting::default();
    let subscriber = registry().with(tracezero::layer()).with(counting.clone());
    tracing::subscriber::with_default(subscriber, || {
        let record = || {
            let _span = info_span!("span").entered();
            info!("event");
        };
        record();
        let session = InMemorySession::start().unwrap();
        record();
        assert_eq!(names(&finish(session)), ["span", "event"]);
        record();
    });
    assert_eq!(counting.0.load(Ordering::Relaxed), 6);
}

#[test]
fn a_call_site_that_was_reached_before_the_session_is_recorded() {
    let _guard = alone();
    let record = || info!("again");
    record();
    for _ in 0..3 {
        let session = InMemorySession::start().unwrap();
        record();
        assert_eq!(names(&finish(session)), ["again"]);
        record();
    }
}
