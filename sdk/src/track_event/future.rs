//! Futures with a span.
//!
//! Polling a future with a span allocates nothing. `tests/no_allocation/` checks this, and names the queues
//! of the central buffer as the one exception.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::async_span::AsyncSpan;

/// Gives futures spans.
///
/// A future with a span is one slice on a track of its own, from its first poll until it is done or
/// dropped; and each poll is a slice of the same name on the thread that ran it. Arrows lead from
/// the begin through the polls to the end. One that is dropped before it is done has the argument
/// `cancelled`, one whose poll panicked `panicked`.
///
/// ```
/// use tracezero::{TraceFuture as _, async_span};
///
/// async fn fetch(url: &str) -> usize {
///     // ..
///     url.len()
/// }
///
/// async fn fetch_two() -> usize {
///     let mut bytes = 0;
///     for url in ["/a", "/b"] {
///         bytes += fetch(url).traced(async_span!("http", "fetch", url)).await;
///     }
///     bytes
/// }
/// # let session = tracezero::InMemorySession::start()?;
/// # let mut fetched = std::pin::pin!(fetch_two().traced(async_span!("http", "fetch_two")));
/// # let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(fetched.as_mut().poll(context), std::task::Poll::Ready(4));
/// # assert_eq!(session.finish().1.events, 3 * 4);
/// # Ok::<(), tracezero::Error>(())
/// ```
pub trait TraceFuture: Future + Sized {
    /// The future with a span.
    fn traced(self, span: AsyncSpan) -> Traced<Self> {
        Traced::new(span, self)
    }
}

impl<F: Future> TraceFuture for F {}

pin_project! {
    /// A future with a span: see [`TraceFuture`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Traced<F> {
        // Dropped before its span: what it holds ends first.
        #[pin]
        future: F,
        span: AsyncSpan,
    }
}

impl<F: Future> Traced<F> {
    /// `future` with `span`, which is evaluated first: [`TraceFuture::traced`] the other way round.
    pub fn new(span: AsyncSpan, future: F) -> Self {
        Self { future, span }
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.span.around(|| this.future.poll(context))
    }
}

/// Names a type to the compiler, where it is never called: what an `async` block returns.
#[doc(hidden)]
#[must_use]
pub fn result_of<T>() -> T {
    unreachable!("it is only named")
}
