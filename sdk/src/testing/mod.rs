//! Tests on what code traces.
//!
//! [`capture`] records what the thread of a test traces, and [`Capture::finish`] returns it as a [`Trace`]
//! that can be asked:
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
//!     trace.span("disk_read").once().inside("read").took_less_than(Duration::from_secs(5));
//!     trace.span("read").times(2).arg("key", "k");
//!     trace.instant("hit").once().after("disk_read");
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
//!     assert_eq!(trace.outline(), expected); // or a snapshot, by a crate for that
//! }
//! # the_second_read_hits_the_cache();
//! ```
//!
//! Switch the feature `testing` on where tests are built: under `[dev-dependencies]`. It makes the
//! macros a few instructions slower while they record, and no slower while they do not. What code under
//! test needs is there without it: [`CaptureHandle`], at the root of the crate.
//!
//! # Who is captured
//!
//! The thread that calls [`capture`], and threads that are attached; nobody else. Each capture has memory, a
//! service and a session of its own. So tests can run in parallel, any number of them, and see nothing of
//! each other; and they take none of the places for sessions. A [`Session`](crate::Session) records the
//! whole process, what is captured included.
//!
//! Another thread is attached by a [`CaptureHandle`], as long as the guard lives that
//! [`CaptureHandle::attach`] returns. [`Capture::spawn`] and [`CaptureHandle::spawn_scoped`] start threads that
//! are attached; [`CaptureHandle::wrap`] and [`CaptureHandle::wrap_future`] are for work and tasks that a pool
//! takes over:
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
//! Code that starts threads by itself attaches them to the capture of whoever calls it,
//! [`CaptureHandle::current`]. It names it as `tracezero::CaptureHandle`, which is there without the feature
//! `testing` as well, and then is nothing and costs nothing:
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
//! A capture inside of a capture takes over until it ends. A span ends in the capture that it began in,
//! wherever its guard is dropped; so does that of a future, while its polls are captured where they run.
//!
//! When a capture ends, by [`Capture::finish`], by a drop or by a panic of the test, it waits for no thread:
//! what they wrote so far is in the trace, and what they write from then on is in none.
//!
//! # What is captured
//!
//! Events of all categories; packets of each data source that a captured thread reaches. Such a
//! [`DataSource`](crate::DataSource) has an instance of its own in each capture, and what its callbacks trace
//! goes there alone. It starts when the first captured thread reaches a trace point of it or calls
//! [`DataSource::register`](crate::DataSource::register).
//!
//! While anybody captures, [`enabled!`](crate::enabled!) and arguments of events are evaluated on all
//! threads.
//!
//! # Futures
//!
//! A future with a span is one span, however often and on whatever threads it is polled: whether it has it by
//! [`TraceFuture`](crate::TraceFuture), by the attribute [`trace`](macro@crate::trace), or by `Instrument` of
//! the `tracing` crate. What happens in its polls is inside of it, and so are the futures that it awaits.
//! [`Trace::polls`] asks for the polls themselves.
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
//!     trace.span("fetch").times(2).directly_inside("sync_all");
//!     trace.instant("received").times(2).inside("fetch");
//!     trace.polls("fetch").arg("url", "/a").never(); // the span has the arguments
//!     trace.polls("sync_all").times(3).on_thread("this thread");
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
//! Threads of a runtime are attached when they start, if whoever builds it says so: with tokio
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
//! Where tests share a runtime, or the code under test has one for all its callers, tasks are wrapped. This
//! may stand in a library, too:
//!
//! ```
//! # mod runtime { pub fn spawn<F: Future>(_: F) {} }
//! use tracezero::CaptureHandle;
//!
//! /// Spawns a task that is captured if whoever spawns it is.
//! fn spawn(task: impl Future<Output = ()> + Send + 'static) {
//!     match CaptureHandle::current() {
//!         Some(handle) => runtime::spawn(handle.wrap_future(task)),
//!         None => runtime::spawn(task),
//!     }
//! }
//! # spawn(async {});
//! ```
//!
//! A poll is known by its structure, in any trace: a slice on a thread with the flow that began with a slice
//! of the same name on another kind of track, as long as that one is open.
//!
//! # What a failed test says
//!
//! What was expected, what is there instead, and the trace as a tree, with the spans in question marked; and,
//! where something is missing, whether threads traced meanwhile that are attached to no capture:
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

// How a trace is captured.
mod recording; // the session of a capture
mod capture; // captures, from begin to trace
// What can be asked of it.
mod trace; // a trace in memory
mod contents; // what is in it, put together from its records
mod lives; // the spans of futures, and their polls
mod event; // a span or an instant
mod counter; // a counter
mod query; // questions about the spans or instants of a name
mod condition; // what can be asked of one
mod failure; // what a failed assertion shows

pub use capture::{Capture, capture, capture_with};
pub use counter::Counter;
pub use event::Event;
pub use query::{Found, Query};
pub use trace::Trace;

pub use crate::capture_handle::{Attached, CaptureHandle, CapturedFuture};
pub use tracezero_reader::Value;
