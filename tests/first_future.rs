//! When the first future of a call site is polled first, the SDK does not know that it will be
//! polled again, so it records the poll without a flow. Readers still show one span for the future.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use tracezero::InMemorySession;
use tracezero::reader::{Outline, TraceReader};
use tracezero::testing::Trace;
use tracing::{Instrument as _, info, info_span};
use tracing_subscriber::layer::SubscriberExt as _;

/// Polls a future three times, each time on a new thread. It is ready at the third poll.
fn poll_on_threads(future: impl Future<Output = ()> + Send) {
    let mut future = pin!(future);
    let mut poll = || {
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    };
    while !thread::scope(|scope| scope.spawn(&mut poll).join().unwrap()) {}
}

/// Records an event in each poll.
async fn steps() {
    for step in 0..3 {
        info!(step, "works");
        let mut is_over = false;
        std::future::poll_fn(
            |_| match std::mem::replace(&mut is_over, true) || step == 2 {
                true => Poll::Ready(()),
                false => Poll::Pending,
            },
        )
        .await;
    }
}

#[test]
fn first_future_of_call_site_is_one_span_with_its_polls() {
    let subscriber = tracing_subscriber::registry().with(tracezero::layer());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let session = InMemorySession::start().unwrap();
    poll_on_threads(
        async {
            steps().instrument(info_span!("inner")).await;
        }
        .instrument(info_span!("outer", number = 1)),
    );
    let (bytes, _) = session.finish();

    let outline = Outline::read(&mut TraceReader::new(bytes.as_slice())).unwrap();
    let expected = "\
track \"outer\"
  outer number=1
    inner
      * works step=0 level=\"INFO\"
      * works step=1 level=\"INFO\"
      * works step=2 level=\"INFO\"
";
    assert_eq!(outline.to_string(), expected);

    let trace = Trace::read(bytes).unwrap();
    trace.span("outer").times(1);
    trace.span("inner").times(1);
}
