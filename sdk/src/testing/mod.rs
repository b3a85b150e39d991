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
//! macros a few instructions slower while they record, and no slower while they do not.
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
//! # What a failed test says
//!
//! What was expected, what is there instead, and the trace as a tree, with the spans in question marked:
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
mod capture; // captures, and the threads that are attached to them
// What can be asked of it.
mod trace; // a trace in memory
mod contents; // what is in it, put together from its records
mod event; // a span or an instant
mod counter; // a counter
mod query; // questions about the spans or instants of a name
mod condition; // what can be asked of one
mod failure; // what a failed assertion shows

pub use capture::{Attached, Capture, CaptureHandle, CapturedFuture, capture, capture_with};
pub use counter::Counter;
pub use event::Event;
pub use query::{Found, Query};
pub use trace::Trace;

pub use crate::reader::Value;
