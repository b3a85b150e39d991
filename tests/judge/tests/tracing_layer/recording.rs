//! Records a session, and judges its trace.

use std::sync::{MutexGuard, Once};

use judge::{ExtraSchema, Options, Verdict, judge_with};
use tracezero::{InMemorySession, TracingLayer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

/// Waits for other tests, because sessions record the whole process. Installs the layer as the
/// default subscriber, so it gets the spans and events of all threads that choose no other one.
pub fn alone() -> MutexGuard<'static, ()> {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        let subscriber = registry().with(tracezero::layer());
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    support::alone()
}

/// Records `record` in a session, without other tests, and judges the trace. Keeps the value that
/// `record` returns until the session is over, and drops it before the next one begins.
pub fn recorded<K>(record: impl FnOnce() -> K) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let _kept = record();
    finish(session)
}

/// Does the same as [`recorded`], with another layer on this thread.
pub fn recorded_by(layer: TracingLayer, record: impl FnOnce()) -> Verdict {
    let subscriber = registry().with(layer);
    recorded(|| tracing::subscriber::with_default(subscriber, record))
}

/// Judges the trace of a session. Slices may be open at its end.
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
