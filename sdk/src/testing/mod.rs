//! Tests on the events that code records.
//!
//! [`capture`] records what the thread of a test does, and [`Capture::finish`] returns the result
//! as a [`Trace`], which has methods for queries and assertions:
//!
//! ```
//! use std::time::Duration;
//! use tracezero::testing::capture;
//! use tracezero::{counter, instant, span};
//!
//! fn read(key: &str, cache: &mut Vec<String>) {
//!     let _read = span!("cache", "read", key = key);
//!     if cache.iter().any(|cached| cached == key) {
//!         return instant!("cache", "hit");
//!     }
//!     let _disk_read = span!("io", "disk_read", bytes = 4096);
//!     cache.push(key.to_owned());
//!     counter!("cache", "entries", cache.len());
//! }
//!
//! // #[test]
//! fn the_second_read_hits_the_cache() {
//!     let capture = capture();
//!     let mut cache = Vec::new();
//!     read("k", &mut cache);
//!     read("k", &mut cache);
//!     let trace = capture.finish();
//!
//!     trace.span("disk_read").once().assert_inside("read").assert_took_less_than(Duration::from_secs(5));
//!     trace.span("read").times(2).assert_arg("key", "k");
//!     trace.instant("hit").once().assert_after("disk_read");
//!     assert_eq!(trace.counter("entries").values(), [1.0]);
//!     trace.assert_no_loss().assert_well_formed();
//!
//!     let expected = r#"this thread
//!   read key="k"
//!     disk_read bytes=4096
//!   read key="k"
//!     * hit
//! counter "entries": 1
//! "#;
//!     assert_eq!(trace.outline(), expected); // or use a crate for snapshot tests
//! }
//! # the_second_read_hits_the_cache();
//! ```
//!
//! Enable the feature `testing` only for tests, under `[dev-dependencies]`. It makes the macros a
//! few instructions slower while a session records, and no slower otherwise. Code under test does
//! not need the feature: it uses [`CaptureHandle`] from the root of the crate.
//!
//! # Which threads are captured
//!
//! A capture records the thread that calls [`capture`], and threads that are attached to it; no
//! others. Each capture has memory, a service and a session of its own. So any number of tests can
//! run in parallel without seeing each other's events, and captures do not count towards the limit
//! on sessions. A [`Session`](crate::Session) records the whole process, including captured
//! threads.
//!
//! To attach another thread, call [`CaptureHandle::attach`] there. The thread stays attached until
//! the returned guard is dropped. [`Capture::spawn`] and [`CaptureHandle::spawn_scoped`] start
//! attached threads. [`CaptureHandle::wrap`] and [`CaptureHandle::wrap_future`] wrap closures and
//! futures that run in a pool:
//!
//! ```
//! # use tracezero::{instant, testing::capture};
//! let capture = capture();
//! std::thread::scope(|scope| {
//!     capture.handle().spawn_scoped(scope, || instant!("app", "captured"));
//!     scope.spawn(|| instant!("app", "not captured"));
//! });
//! let trace = capture.finish();
//! trace.instant("captured").once();
//! trace.instant("not captured").never();
//! ```
//!
//! Code that starts threads itself attaches them to the capture of its caller, which
//! [`CaptureHandle::current`] returns. It uses `tracezero::CaptureHandle`, which also exists
//! without the feature `testing`, and then does nothing and costs nothing:
//!
//! ```
//! use std::thread;
//! use tracezero::{CaptureHandle, span};
//!
//! fn read_ahead(pages: &[u32]) {
//!     let capture = CaptureHandle::current();
//!     thread::scope(|scope| {
//!         for page in pages {
//!             scope.spawn(move || {
//!                 let _attached = capture.map(CaptureHandle::attach);
//!                 let _span = span!("cache", "read", page);
//!             });
//!         }
//!     });
//! }
//!
//! // #[test]
//! fn pages_are_read_on_threads_of_their_own() {
//!     let capture = tracezero::testing::capture();
//!     read_ahead(&[1, 2]);
//!     let trace = capture.finish();
//!     trace.span("read").times(2);
//! }
//! # pages_are_read_on_threads_of_their_own();
//! ```
//!
//! A capture that starts inside another capture replaces the outer capture until the inner one
//! ends. A span ends in the capture in which it began, wherever its guard is dropped. The span of a
//! future also ends in the capture in which it began, but each poll goes to the capture of the
//! thread that runs it.
//!
//! A capture ends by [`Capture::finish`], by a drop, or by a panic of the test. It waits for no
//! thread: the trace contains what attached threads have written so far, and nothing that they
//! write later.
//!
//! # What is captured
//!
//! A capture records events of all categories, and packets of each data source that a captured
//! thread reaches. A [`DataSource`](crate::DataSource) has an instance of its own in each capture,
//! and what its callbacks record goes only there. The instance starts when the first captured
//! thread reaches a trace point of the data source or calls
//! [`DataSource::register`](crate::DataSource::register).
//!
//! While any capture runs, [`enabled!`](crate::enabled!) returns true and arguments of events are
//! evaluated, on all threads.
//!
//! # Futures
//!
//! A future with a span has one span, however often and on whatever threads it is polled. This
//! holds for spans by [`TraceFuture`](crate::TraceFuture), by the attribute
//! [`trace`](macro@crate::trace), and by `Instrument` of the `tracing` crate. Events recorded
//! during its polls are inside the span, and so are the futures that it awaits. [`Trace::polls`]
//! finds the polls themselves.
//!
//! ```
//! use std::pin::pin;
//! use std::task::{Context, Poll, Waker};
//! use tracezero::testing::capture;
//! use tracezero::{TraceFuture as _, async_span, instant, trace};
//!
//! #[trace("http", args(url))]
//! async fn fetch(url: &str) {
//!     yield_once().await;
//!     instant!("http", "received");
//! }
//! # async fn yield_once() {
//! #     let mut has_waited = false;
//! #     let wait = |_: &mut Context<'_>| match std::mem::replace(&mut has_waited, true) {
//! #         true => Poll::Ready(()),
//! #         false => Poll::Pending,
//! #     };
//! #     std::future::poll_fn(wait).await;
//! # }
//!
//! async fn sync_all() {
//!     fetch("/a").await;
//!     fetch("/b").await;
//! }
//! # fn block_on<R>(future: impl Future<Output = R>) -> R {
//! #     let mut future = pin!(future);
//! #     let context = &mut Context::from_waker(Waker::noop());
//! #     loop {
//! #         if let Poll::Ready(result) = future.as_mut().poll(context) {
//! #             return result;
//! #         }
//! #     }
//! # }
//!
//! // #[test]
//! fn all_is_fetched_in_order() {
//!     let capture = capture();
//!     block_on(sync_all().traced(async_span!("app", "sync_all"))); // of a runtime, or your own
//!     let trace = capture.finish();
//!
//!     trace.span("fetch").times(2).assert_directly_inside("sync_all");
//!     trace.instant("received").times(2).assert_inside("fetch");
//!     trace.polls("fetch").arg("url", "/a").never(); // the span has the arguments
//!     trace.polls("sync_all").times(3).assert_on_thread("this thread");
//!
//!     let expected = r#"track "sync_all"
//!   sync_all
//!     fetch url="/a"
//!       * received
//!     fetch url="/b"
//!       * received
//! "#;
//!     assert_eq!(trace.outline(), expected);
//! }
//! # all_is_fetched_in_order();
//! ```
//!
//! A test that builds the runtime can attach the runtime's threads when they start. With tokio:
//!
//! ```
//! # struct Builder;
//! # impl Builder {
//! #     fn new_multi_thread() -> Self { Self }
//! #     fn on_thread_start(&mut self, start: impl Fn() + Send + Sync + 'static) -> &mut Self { start(); self }
//! #     fn build(&mut self) {}
//! # }
//! # let capture = tracezero::testing::capture();
//! let handle = capture.handle();
//! let runtime = Builder::new_multi_thread()
//!     .on_thread_start(move || std::mem::forget(handle.attach()))
//!     .build();
//! ```
//!
//! If tests share a runtime, or the code under test has one for all its callers, wrap each task
//! instead. A library can do this, too:
//!
//! ```
//! # mod runtime { pub fn spawn<F: Future>(_: F) {} }
//! use tracezero::CaptureHandle;
//!
//! /// Spawns a task, which is captured if the caller is.
//! fn spawn(task: impl Future<Output = ()> + Send + 'static) {
//!     match CaptureHandle::current() {
//!         Some(handle) => runtime::spawn(handle.wrap_future(task)),
//!         None => runtime::spawn(task),
//!     }
//! }
//! # spawn(async {});
//! ```
//!
//! Polls are recognized in any trace, by their structure. A poll is a slice on a thread, in a flow
//! that began at a slice of the same name on another kind of track, while that slice is open. The
//! first poll may lack the flow; it is recognized because it begins one nanosecond after that
//! slice.
//!
//! # The message of a failed test
//!
//! The message says what was expected and what was found instead, and shows the trace as a tree
//! with the spans in question marked. If something is missing, it also says whether threads
//! recorded meanwhile that are attached to no capture:
//!
//! ```text
//! expected span "disk_read" inside "write", but it is inside "read"
//!
//!   this thread
//!     read key="k" (5.2ms)
//! >     disk_read bytes=4096 (2.1ms)
//!     read key="k" (1.3µs)
//!       * hit
//! ```

// Capturing.
mod recording; // the session of a capture
mod capture; // starts and finishes captures
// Queries and assertions.
mod trace; // a trace in memory
mod contents; // its spans, instants and counters
mod future_spans; // spans of futures, and their polls
mod event; // a span, a poll or an instant
mod counter; // a counter
mod query; // queries for spans, polls or instants by name
mod condition; // conditions for events
mod failure; // messages of failed assertions

pub use capture::{Capture, capture, capture_with};
pub use counter::Counter;
pub use event::Event;
pub use query::{Found, Query};
pub use trace::Trace;

pub use crate::capture_handle::{Attached, CaptureHandle, CapturedFuture};
pub use tracezero_reader::Value;
