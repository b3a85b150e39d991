//! Counts agree on events of all kinds, on all kinds of tracks.

use std::future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use support::alone;
use tracezero::{
    ARG_MAX_BYTES, BufferConfig, Clock, CounterTrack, DataSourceConfig, Flow, InMemorySession,
    TraceConfig, TraceFuture as _, Track, TrackEventConfig, async_span, begin, clock, counter,
    dict, end, instant, span,
};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::agreement::{agreed, recorded};

#[test]
fn counts_agree_on_empty_recording() {
    let judged = recorded("nothing", || ());
    assert_eq!((judged.events, judged.data_packets), (0, 0));
}

#[test]
fn counts_agree_on_instants() {
    let judged = recorded("instants", || {
        for number in 0..1_000 {
            instant!("counts", "instant", number);
        }
    });
    assert_eq!(judged.events, 1_000);
}

#[test]
fn counts_agree_on_open_spans() {
    let mut open = Vec::new();
    let judged = recorded("open", || {
        for number in 0..20 {
            open.push(span!("counts", "open", number));
        }
        drop(span!("counts", "closed"));
        begin!("counts", "never ended");
    });
    assert_eq!(judged.events, 20 + 2 + 1);
}

#[test]
fn counts_agree_on_spans_older_than_session() {
    let _guard = alone();
    let around = span!("counts", "around");
    begin!("counts", "by hand");
    let session = InMemorySession::start().unwrap();
    drop(span!("counts", "inside"));
    end!("counts");
    drop(around);
    let (trace, report) = session.finish();
    assert_eq!(agreed("around", &trace, Some(&report)).events, 2);
}

#[test]
fn counts_agree_on_spans_dropped_out_of_order() {
    let judged = recorded("drop order", || {
        for first in 0..4 {
            let mut spans = [1, 2, 3, 4].map(|number| Some(span!("counts", "span", number)));
            for place in 0..4 {
                spans[(first + place) % 4] = None;
            }
        }
    });
    assert!(
        judged.events > 4 * 4 * 2,
        "slices go on in pieces: {judged:?}"
    );
}

#[test]
fn counts_agree_on_spans_nested_deeper_than_a_page_shows() {
    // The depth that a page of `tracezero view` shows.
    const DEPTH: usize = 512;
    let judged = recorded("deep", || {
        let spans: Vec<_> = (0..DEPTH).map(|_| span!("counts", "deep")).collect();
        // Ends the innermost span first.
        spans.into_iter().rev().for_each(drop);
    });
    assert_eq!(judged.events, 2 * DEPTH as u64);
}

#[test]
fn counts_agree_on_counters_of_all_kinds() {
    let judged = recorded("counters", || {
        let track = CounterTrack::new("of a track").multiplier(1024);
        for value in [i64::MIN, -1, 0, i64::MAX] {
            counter!("counts", "integers", value);
            counter!("counts", &track, value);
        }
        for value in [0, u64::MAX / 2 + 1, u64::MAX] {
            counter!("counts", "beyond", value);
        }
        for value in [f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE, 1e300] {
            counter!("counts", "floats", value);
            counter!("counts", "integers", value);
        }
    });
    assert_eq!(judged.events, 8 + 3 + 10);
}

#[test]
fn counts_agree_on_arguments_at_and_beyond_their_limit() {
    let judged = recorded("arguments", || {
        for len in [ARG_MAX_BYTES - 1, ARG_MAX_BYTES, ARG_MAX_BYTES + 1] {
            let text = "ü".repeat(len);
            instant!(
                "counts",
                "long",
                text = text.as_str(),
                list = vec![7_u64; len]
            );
        }
        instant!(
            "counts",
            "odd",
            empty = "",
            nul = "a\0b",
            nothing = dict(|_| ()),
            numbers = [1_u8; 3]
        );
        instant!("counts", "x".repeat(100_000));
    });
    assert_eq!(judged.events, 5);
}

#[test]
fn counts_agree_on_flows() {
    let judged = recorded("flows", || {
        let flow = Flow::new();
        let _span = span!("counts", "first", flow: &flow);
        instant!("counts", "on its way", flow: &flow);
        instant!("counts", "last", last_flow: &flow);
        instant!("counts", "alone", flow: &Flow::new());
    });
    assert_eq!(judged.events, 5);
}

#[test]
fn counts_agree_on_events_with_own_tracks_and_times() {
    let judged = recorded("tracks and times", || {
        let now_ns = clock::now_ns();
        let requests = Track::new("requests");
        for number in (0..50).rev() {
            let at_ns = now_ns - number * 1_000_000;
            let track = requests.unique_child("request");
            span!("counts", "request", number, track: &track, at: at_ns).end_at(at_ns + 5_000_000);
            instant!("counts", "then", track: &requests, at: at_ns + number % 3);
            counter!("counts", "number", number, at: at_ns);
        }
        instant!("counts", "of the process", track: &Track::process());
        // At time 0, begin and end at the same time, and far in the future.
        instant!("counts", "early", at: 0);
        span!("counts", "short", track: &requests.child("short"), at: now_ns).end_at(now_ns);
        instant!("counts", "late", at: u64::MAX / 4);
    });
    assert_eq!(judged.events, 50 * 4 + 1 + 1 + 2 + 1);
}

#[test]
fn counts_agree_on_all_timestamp_forms_and_thread_times() {
    let forms = [
        TrackEventConfig::new().disable_incremental_timestamps(),
        TrackEventConfig::new().timestamp_unit(Duration::from_millis(1)),
        TrackEventConfig::new()
            .disable_incremental_timestamps()
            .timestamp_unit(Duration::from_micros(1)),
        TrackEventConfig::new().thread_time_sampling(Duration::ZERO),
        TrackEventConfig::new().thread_time_sampling(Duration::from_millis(1)),
        TrackEventConfig::new()
            .filter_debug_annotations()
            .filter_dynamic_event_names(),
    ];
    let _guard = alone();
    for (number, form) in forms.iter().enumerate() {
        let session = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(1024))
            .add_data_source(DataSourceConfig::new("track_event").track_event(form))
            .record_in_memory()
            .unwrap();
        for number in 0..100 {
            let _span = span!("counts", format!("span {number}"), number);
            counter!("counts", "number", number);
            instant!("counts", "earlier", at: clock::now_ns() - 5_000_000);
        }
        let (trace, report) = session.finish();
        let judged = agreed(&format!("timestamps {number}"), &trace, Some(&report));
        assert_eq!(judged.events, 400);
    }
}

#[test]
fn counts_agree_on_times_of_the_tsc() {
    let _guard = alone();
    // On a machine without a reliable counter, the system's clock stays in use.
    let _ = Clock::Tsc.use_for_events();
    let session = InMemorySession::start().unwrap();
    for number in 0..1_000 {
        let _span = span!("counts", "span", number);
    }
    let (trace, report) = session.finish();
    Clock::Boottime.use_for_events().unwrap();
    assert_eq!(agreed("counter", &trace, Some(&report)).events, 2_000);
}

#[test]
fn counts_agree_on_short_lived_threads() {
    let judged = recorded("threads", || {
        for round in 0..50 {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let _span = span!("counts", "life", round);
                        instant!("counts", "point");
                    });
                }
            });
        }
    });
    assert_eq!(judged.events, 50 * 4 * 3);
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn counts_agree_on_futures_on_several_threads() {
    let judged = recorded("futures", || {
        let inner = || {
            let mut polls = 0;
            future::poll_fn(move |_| {
                polls += 1;
                instant!("counts", "polled", polls);
                match polls {
                    3 => Poll::Ready(()),
                    _ => Poll::Pending,
                }
            })
            .traced(async_span!("counts", "inner"))
        };
        let mut future =
            Box::pin(async move { inner().await }.traced(async_span!("counts", "outer")));
        let mut cancelled =
            Box::pin(future::pending::<()>().traced(async_span!("counts", "cancelled")));
        for _ in 0..3 {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let waker = Waker::from(Arc::new(Nobody));
                    let mut context = Context::from_waker(&waker);
                    let _ = pin!(&mut cancelled).poll(&mut context);
                    let _ = pin!(&mut future).poll(&mut context);
                });
            });
        }
    });
    // Slices of whole futures and of their polls.
    assert!(judged.events >= 3 * (2 + 6) + 3, "{judged:?}");
}

#[test]
fn counts_agree_on_spans_of_the_tracing_layer() {
    let judged = recorded("layer", || {
        let subscriber = tracing_subscriber::registry().with(tracezero::layer());
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..10 {
                let span = tracing::info_span!("request", number, later = tracing::field::Empty);
                let _entered = span.enter();
                span.record("later", "known");
                tracing::info!(number, "in it");
                let other = tracing::info_span!(parent: None, "other");
                thread::spawn(move || other.in_scope(|| thread::sleep(Duration::from_micros(10))))
                    .join()
                    .unwrap();
            }
        });
    });
    assert!(judged.events >= 10 * 5, "{judged:?}");
}
