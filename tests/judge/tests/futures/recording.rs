//! What a session says of futures.

use judge::{ExtraSchema, Options, Verdict, judge_with};
use tracezero::InMemorySession;

use crate::alone;

/// What a session says in which `record` runs alone.
pub fn recorded(record: impl FnOnce()) -> Verdict {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    record();
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
