//! Requests that go through several services: flows and correlation ids of W3C Trace Context, by the
//! macros and by the layer for `tracing`.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::pin::pin;
use std::task;

use support::alone;
use tracezero::reader::{Correlation, EventKind, Record, TraceReader};
use tracezero::{Flow, InMemorySession, TraceFuture as _, Traceparent, async_span, instant, span};
use tracing::field::Empty;
use tracing::{Subscriber, info, info_span};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::{Layer, registry};

const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// What joins an event to others: its name (`end` for ends), flows, flows that end, and correlation id.
type Links = (String, Vec<u64>, Vec<u64>, Option<String>);

/// Records what `work` does, and returns the events that have a link.
fn links(work: impl FnOnce()) -> Vec<Links> {
    let _alone = alone();
    let session = InMemorySession::start().unwrap();
    work();
    let (trace, _) = session.finish();
    let mut reader = TraceReader::new(&trace[..]);
    let mut all = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let Record::Event(event) = record else {
            continue;
        };
        let name = match event.head.kind {
            EventKind::SliceEnd => "end",
            _ => event.name(),
        };
        let correlation = event.correlation().map(|id| match id {
            Correlation::Id(id) => id.to_string(),
            Correlation::Text(text) => text.to_owned(),
        });
        let ended = event.terminating_flows().collect();
        let links: Links = (name.to_owned(), event.flows().collect(), ended, correlation);
        if (&links.1, &links.2, &links.3) != (&vec![], &vec![], &None) {
            all.push(links);
        }
    }
    all
}

/// An event through which the flow of [`HEADER`] passes.
fn through(name: &str) -> Links {
    let flow = Flow::from_traceparent(HEADER).unwrap().id();
    (
        name.to_owned(),
        vec![flow],
        vec![],
        Some(TRACE_ID.to_owned()),
    )
}

/// An event of the request without its flow.
fn part(name: &str) -> Links {
    (name.to_owned(), vec![], vec![], Some(TRACE_ID.to_owned()))
}

#[test]
fn both_ends_of_a_call_have_its_flow_and_the_trace_id() {
    let context: Traceparent = HEADER.parse().unwrap();
    let found = links(|| {
        let _call = span!("test", "call", flow: &context.flow(), correlation: &context);
        let flow = Flow::from_traceparent(HEADER).unwrap();
        let _serve = span!("test", "serve", last_flow: &flow, correlation: &context, n = 1);
        instant!("test", "of an order", correlation: "order 17");
        instant!("test", "of a number", correlation: &17, n = 2);
    });
    let served = (
        "serve".to_owned(),
        vec![],
        vec![context.flow().id()],
        Some(TRACE_ID.to_owned()),
    );
    let of = |name: &str, id: &str| (name.to_owned(), vec![], vec![], Some(id.to_owned()));
    let expected = [
        through("call"),
        served,
        of("of an order", "order 17"),
        of("of a number", "17"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn span_of_a_future_has_the_correlation_id_and_its_polls_lead_there() {
    let context: Traceparent = HEADER.parse().unwrap();
    let found = links(|| {
        let answer = async {}.traced(async_span!("test", "answer", correlation: &context));
        let waker = task::Waker::noop();
        let polled = pin!(answer).poll(&mut task::Context::from_waker(waker));
        assert!(polled.is_ready());
    });
    let correlated: Vec<_> = found.iter().filter(|it| it.3.is_some()).collect();
    assert_eq!(correlated.len(), 1, "{found:?}");
    assert_eq!(correlated[0].0, "answer");
}

/// Records with the layer and, before it in the subscriber, one that gives contexts to spans.
fn links_of_layer(layer: tracezero::TracingLayer, work: impl FnOnce()) -> Vec<Links> {
    let subscriber = registry().with(Contexts).with(layer);
    tracing::subscriber::with_default(subscriber, || links(work))
}

#[test]
fn header_in_a_field_joins_spans_and_events_of_tracing() {
    let found = links_of_layer(tracezero::layer(), || {
        info_span!("serve", traceparent = HEADER, n = 1).in_scope(|| {
            info!(traceparent = %HEADER, "inside");
        });
        info_span!("other", traceparent = "00-0-0-0", n = 1).in_scope(|| ());
    });
    assert_eq!(found, [through("serve"), through("inside")]);
}

#[test]
fn header_that_is_recorded_later_is_at_the_next_enter_or_the_end() {
    let found = links_of_layer(tracezero::layer(), || {
        let before = info_span!("before", traceparent = Empty);
        before.record("traceparent", HEADER);
        before.in_scope(|| ());
        let inside = info_span!("inside", traceparent = Empty).entered();
        inside.record("traceparent", HEADER);
    });
    assert_eq!(found, [through("before"), through("end")]);
}

/// Gives each span a context, as `tracing-opentelemetry` does.
struct Contexts;

#[derive(Clone, Copy)]
struct Own(Traceparent);

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Contexts {
    fn on_enter(&self, id: &tracing::Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        span.extensions_mut().replace(Own(HEADER.parse().unwrap()));
    }
}

fn with_contexts() -> tracezero::TracingLayer {
    tracezero::layer().trace_context(|id, subscriber| {
        let span = subscriber.downcast_ref::<Registry>()?.span(id)?;
        let own = span.extensions().get::<Own>().copied()?;
        Some(own.0)
    })
}

#[test]
fn spans_have_the_trace_ids_of_another_layer_and_calls_have_flows() {
    let old = std::cell::OnceCell::new();
    let subscriber = registry().with(Contexts).with(with_contexts());
    let found = tracing::subscriber::with_default(subscriber, || {
        old.get_or_init(|| info_span!("created before"));
        links(|| {
            old.get().unwrap().in_scope(|| ());
            let plain = info_span!("plain");
            plain.in_scope(|| ());
            plain.in_scope(|| ());
            info_span!("call", otel.kind = "client").in_scope(|| ());
            info_span!("publish", otel.kind = ?Kind::Producer).in_scope(|| ());
            info_span!("serve", otel.kind = "server").in_scope(|| ());
        })
    });
    let names: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
    // The second enter also begins the slice of the span on a track of its own, and ends join it.
    let first = [&found[0], &found[1]];
    assert_eq!(first, [&part("created before"), &part("plain")]);
    assert!(names[2..].starts_with(&["plain", "plain"]), "{names:?}");
    let of_request = |link: &&Links| link.3.as_deref() == Some(TRACE_ID);
    let plain: Vec<_> = found.iter().filter(|it| it.0 == "plain").collect();
    assert!(plain.iter().all(of_request), "{plain:?}");
    let rest = found
        .iter()
        .filter(|it| ["call", "publish", "serve"].contains(&it.0.as_str()));
    let rest: Vec<_> = rest.cloned().collect();
    assert_eq!(rest, [through("call"), through("publish"), part("serve")]);
}

/// Kinds of spans, as the crate `opentelemetry` prints them.
#[derive(Debug)]
enum Kind {
    Producer,
}

#[test]
fn header_counts_more_than_the_context_of_another_layer() {
    let other = HEADER.replace("4bf9", "0000");
    let found = links_of_layer(with_contexts(), || {
        info_span!("serve", traceparent = other).in_scope(|| ());
    });
    let context: Traceparent = other.parse().unwrap();
    let id = TRACE_ID.replace("4bf9", "0000");
    let flow = context.flow().id();
    assert_eq!(found, [("serve".to_owned(), vec![flow], vec![], Some(id))]);
}
