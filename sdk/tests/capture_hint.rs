//! The hint in failed assertions about threads that are not attached. In a process of its own,
//! because events of unattached threads are counted for the whole process.

#![cfg(feature = "testing")]

use std::panic::{self, AssertUnwindSafe};
use std::thread;

use tracezero::testing::{Trace, capture};
use tracezero::{counter, span};

const HINT: &str =
    "\nthreads not attached to a capture recorded events meanwhile; see `CaptureHandle`";

/// Returns the message of the failure of `assertion`.
fn message_of<R>(assertion: impl FnOnce() -> R) -> String {
    let result = panic::catch_unwind(AssertUnwindSafe(assertion));
    let payload = result.err().expect("the assertion fails");
    *payload.downcast::<String>().expect("a message")
}

fn push() {
    drop(span!("test", "push"));
    counter!("test", "pushed", 1);
}

#[test]
fn message_hints_at_events_of_unattached_threads() {
    // Without a capture, events of other threads are not counted.
    thread::spawn(push).join().expect("no panic");
    let capture = capture();
    push();
    capture.spawn(push).join().expect("no panic");
    let trace = capture.finish();
    thread::spawn(push).join().expect("no panic");
    for message in [
        message_of(|| trace.span("push").times(3)),
        message_of(|| trace.span("pull").once()),
        message_of(|| trace.counter("pulled").max()),
    ] {
        assert!(!message.contains(HINT), "{message}");
    }

    let capture = self::capture();
    push();
    thread::spawn(push).join().expect("no panic");
    let trace = capture.finish();
    let first_lines = |message: String| message.split("\n\n").next().map(str::to_owned);
    assert_eq!(
        first_lines(message_of(|| trace.span("pull").once())),
        Some(format!("expected exactly 1 span \"pull\", found 0{HINT}"))
    );
    assert_eq!(
        first_lines(message_of(|| trace.span("push").times(2))),
        Some(format!("expected exactly 2 spans \"push\", found 1{HINT}"))
    );
    let other = message_of(|| trace.span("push").arg("key", 1).once());
    assert!(other.contains(HINT), "{other}");
    let counter = message_of(|| trace.counter("pulled").max());
    assert!(counter.contains(HINT), "{counter}");
    // Expect no hint if there are too many events.
    let never = message_of(|| trace.span("push").never());
    assert!(!never.contains(HINT), "{never}");
    // No hint if the trace was read from bytes.
    let read = Trace::read(trace.bytes()).expect("a trace");
    assert!(!message_of(|| read.span("pull").once()).contains(HINT));
}
