//! Records a session, and judges its trace.

use judge::{ExtraSchema, Options, Verdict, judge_with};
use support::alone;
use tracezero::InMemorySession;

/// Records `record` in a session, without other tests, and judges the trace. Keeps the value that
/// `record` returns until the session is over.
pub fn recorded<K>(record: impl FnOnce() -> K) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let _kept = record();
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0, "{report}");
    verdict(&trace)
}

/// Judges a trace. Slices may be open at its end.
pub fn verdict(trace: &[u8]) -> Verdict {
    let options = Options {
        allow_open_spans: true,
        ..Options::default()
    };
    judge_with(trace, &ExtraSchema::new(), options)
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}
