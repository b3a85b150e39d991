//! Futures with a span.
//!
//! Polling a future with a span does not allocate, except that the service's queues of chunks grow
//! until the trace buffer has been full once. `tests/no_allocation/` checks this.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::async_span::{AsyncSpan, EndingSpan};
use crate::guard_state::GuardState;

/// Adds a span to a future, with [`traced`](Self::traced).
///
/// The trace shows the future as one slice, on a track of its own, from the first poll until the
/// future is done or dropped. Each poll is a slice with the same name on the thread that ran it.
/// Arrows lead from the begin through the polls to the end.
///
/// If the future is dropped before it is done, its slice has the argument `cancelled`; if a poll
/// panicked, the argument `panicked`. [`Traced::end_with`] adds arguments that are known only at
/// the end.
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
    /// Adds `span` to the future; create it with [`async_span!`](crate::async_span).
    fn traced(self, span: AsyncSpan) -> Traced<Self> {
        Traced::new(span, self)
    }
}

impl<F: Future> TraceFuture for F {}

pin_project! {
    /// A future with a span, created by [`TraceFuture::traced`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Traced<F> {
        // Declared before the span, so that the future is dropped first, and what it holds ends
        // inside of the span.
        #[pin]
        future: F,
        span: AsyncSpan,
    }
}

impl<F: Future> Traced<F> {
    /// Like [`TraceFuture::traced`], but takes the span first. So `async_span!` evaluates its
    /// arguments before the future is created, and the future may take their values.
    pub fn new(span: AsyncSpan, future: F) -> Self {
        Self { future, span }
    }

    /// Calls `end` with the output when the future is done, so that [`end!`](crate::end) can add
    /// arguments to the end of the span. `end` is called only if a session that has seen the begin
    /// still records. It is not called if the future panics, or is dropped before it is done.
    ///
    /// ```
    /// use tracezero::{TraceFuture as _, async_span, end};
    ///
    /// # async fn fetch(url: &str) -> Vec<u8> { url.into() }
    /// # async fn run() -> Vec<u8> {
    /// let page = fetch("/a")
    ///     .traced(async_span!("http", "fetch", url = "/a"))
    ///     .end_with(|page, span| end!(span, bytes = page.len()))
    ///     .await;
    /// # page
    /// # }
    /// # let session = tracezero::InMemorySession::start()?;
    /// # let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(std::pin::pin!(run()).poll(context).is_ready());
    /// # assert_eq!(session.finish().1.events, 4);
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    pub fn end_with<E>(self, end: E) -> TracedWithEnd<F, E>
    where
        E: FnOnce(&F::Output, EndingSpan<'_>),
    {
        TracedWithEnd {
            traced: self,
            end: GuardState::new(end),
        }
    }

    #[inline]
    fn poll_with(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        end: impl FnOnce(&F::Output, EndingSpan<'_>),
    ) -> Poll<F::Output> {
        let this = self.project();
        this.span.around(|| this.future.poll(context), end)
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.poll_with(context, |_, _| {})
    }
}

pin_project! {
    /// A future with a span that ends with arguments, created by [`Traced::end_with`].
    #[must_use = "futures do nothing unless polled"]
    pub struct TracedWithEnd<F, E> {
        #[pin]
        traced: Traced<F>,
        // `None` after the call of `end`.
        end: GuardState<E>,
    }
}

impl<F, E> Future for TracedWithEnd<F, E>
where
    F: Future,
    E: FnOnce(&F::Output, EndingSpan<'_>),
{
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.traced.poll_with(context, |output, span| {
            if let Some(end) = this.end.take() {
                end(output, span);
            }
        })
    }
}

impl<F: fmt::Debug, E> fmt::Debug for TracedWithEnd<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.traced.fmt(f)
    }
}

/// Calls `body`. The signature tells the compiler that `body` is called once, so `body` may return
/// borrows of its captures.
#[doc(hidden)]
#[inline(always)]
pub fn call_once<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// Names the type that an `async` block or a closure returns, for type inference; it is never
/// called.
#[doc(hidden)]
#[must_use]
pub fn result_of<T>() -> T {
    unreachable!("it is only named")
}
