//! What a session says of futures.

use judge::{ExtraSchema, Options, Verdict, judge_with};
use support::alone;
use tracezero::InMemorySession;

/// What a session says in which `record` runs alone. What it returns is kept until the session is over.
pub fn recorded<K>(record: impl FnOnce() -> K) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let _kept = record();
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0, "{report}");
    verdict(&trace)
}

/// What a trace says. Slices may be open at its end.
pub fn verdict(trace: &[u8]) -> Verdict {
    let options = Options {
        allow_open_spans: true,
        ..Options::default()
    };
    judge_with(trace, &ExtraSchema::new(), options)
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}
