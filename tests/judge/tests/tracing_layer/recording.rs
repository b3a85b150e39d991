//! What a session says of `tracing`.

use std::sync::{MutexGuard, Once};

use judge::{ExtraSchema, Options, Verdict, judge_with};
use tracezero::{InMemorySession, TracingLayer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

/// Sessions are of the whole process. Where no other subscriber is chosen, the layer has the spans and
/// events of all threads.
pub fn alone() -> MutexGuard<'static, ()> {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        let subscriber = registry().with(tracezero::layer());
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    support::alone()
}

/// What a session says in which `record` runs alone. What it returns is kept until the session is over,
/// and dropped before the next one begins.
pub fn recorded<K>(record: impl FnOnce() -> K) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let _kept = record();
    finish(session)
}

/// The same with a layer of its own, on this thread.
pub fn recorded_by(layer: TracingLayer, record: impl FnOnce()) -> Verdict {
    let subscriber = registry().with(layer);
    recorded(|| tracing::subscriber::with_default(subscriber, record))
}

/// What a session says. Slices may be open at its end.
pub fn finish(session: InMemorySession) -> Verdict {
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0, "{report}");
    let options = Options {
        allow_open_spans: true,
        ..Options::default()
    };
    judge_with(&trace, &ExtraSchema::new(), options)
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}
