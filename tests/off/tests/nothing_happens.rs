//! With `--cfg tracezero_off`, sessions run and trace points do nothing.

#![deny(warnings)]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tracezero::{
    AsyncSpan, Attached, CaptureHandle, CapturedFuture, DataSource as _, InMemorySession, Span,
    TrackSpan, Warning, categories, enabled,
};
use tracezero_off::{
    Probe, Sampler, Witness, for_a_runtime, on_another_thread, record_all, traced_await,
    traced_future, traced_sum,
};

/// One test for all, because the count of evaluations and the sessions belong to the process.
#[test]
fn nothing_is_evaluated_or_recorded_while_a_session_runs() {
    const { assert!(!tracezero_track_event::ENABLED) };
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
    let polled = pin!(traced_future(&Witness, async { 8 }));
    let polled = polled.poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(8));
    assert!(!enabled!("off"));
    Probe::trace(|_| panic!("nobody records"));

    let (trace, report) = session.finish();
    assert_eq!(Witness::evaluations(), 0);
    assert_eq!((report.events, report.losses.total()), (0, 0), "{report}");
    assert_eq!(report.warnings, [Warning::BuiltWithOff]);
    assert!(!trace.is_empty(), "the service still writes its own packets");
    for name in ["com.example", "sum", "literal"] {
        let found = trace.windows(name.len()).any(|at| at == name.as_bytes());
        assert!(!found, "{name}");
    }
    assert_eq!(Witness.value(1), 1);
    assert_eq!(Witness::evaluations(), 1, "the witness counts");
}

#[test]
fn guards_and_spans_of_futures_take_no_room() {
    const { assert!(size_of::<Span>() == 0) };
    const { assert!(size_of::<TrackSpan>() == 0) };
    const { assert!(size_of::<tracezero_events::Span>() == 0) };
    const { assert!(size_of::<AsyncSpan>() == 0) };

    async fn plain_await(_: &Witness, other: impl Future<Output = u64>) -> u64 {
        other.await
    }
    let other = || std::future::ready([7_u8; 100]);
    assert_eq!(size_of_val(&traced_future(&Witness, other())), size_of_val(&other()));
    assert_eq!(
        size_of_val(&traced_await(&Witness, std::future::ready(7))),
        size_of_val(&plain_await(&Witness, std::future::ready(7)))
    );
}

#[test]
fn handles_of_captures_are_nothing() {
    const { assert!(size_of::<CaptureHandle>() == 0) };
    const { assert!(size_of::<Attached>() == 0) };
    const { assert!(size_of::<CapturedFuture<[u8; 100]>>() == 100) };

    assert_eq!(CaptureHandle::current(), None);
    assert_eq!(on_another_thread(|| 7), 7);
    assert!(for_a_runtime(std::future::ready(7)).is_ok());
}
