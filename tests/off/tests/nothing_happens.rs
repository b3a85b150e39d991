//! With the feature `off`, sessions run and trace points do nothing.

#![deny(warnings)]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tracezero::{DataSource as _, InMemorySession, categories, enabled, track_event};
use tracezero_off::{Probe, Sampler, Witness, record_all, traced_await, traced_sum};

/// One test: the count of evaluations and the sessions are the process's.
#[test]
fn while_a_session_runs_nothing_is_evaluated_and_nothing_recorded() {
    const { assert!(!track_event::ENABLED) };
    Sampler::register();
    categories! { "off": "What is not there" }
    let session = InMemorySession::start().expect("a session");
    for _ in 0..100 {
        record_all();
    }
    assert_eq!(traced_sum(&Witness, 1, 2), 3);
    let awaited = pin!(traced_await(&Witness, async { 7 }));
    let awaited = awaited.poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(awaited, Poll::Ready(7));
    assert!(!enabled!("off"));
    Probe::trace(|_| panic!("nobody records"));

    let (trace, report) = session.finish();
    assert_eq!(Witness::evaluations(), 0);
    assert_eq!((report.events, report.losses.total()), (0, 0), "{report}");
    assert!(!trace.is_empty(), "the service still writes its own packets");
    for name in ["com.example", "sum", "literal"] {
        let found = trace.windows(name.len()).any(|at| at == name.as_bytes());
        assert!(!found, "{name}");
    }
    assert_eq!(Witness.value(1), 1);
    assert_eq!(Witness::evaluations(), 1, "the witness counts");
}
