//! The messages of failed assertions.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use tracezero::testing::{Trace, capture};
use tracezero::{Track, begin, counter, instant, span};

fn ms(count: u64) -> u64 {
    count * 1_000_000
}

fn reads() -> Trace {
    let capture = capture();
    for (start_ms, key) in [(0, "a"), (10, "b")] {
        let read = span!("io", "read", at: ms(start_ms), key = key);
        span!("io", "disk_read", at: ms(start_ms + 1), bytes = 4096).end_at(ms(start_ms + 3));
        instant!("io", "cached", at: ms(start_ms + 4));
        read.end_at(ms(start_ms + 5));
    }
    let jobs = Track::new("jobs");
    span!("io", "job", track: &jobs, at: ms(20)).end_at(ms(30));
    counter!("io", "queue", 3);
    capture.finish()
}

/// Returns the message of the failure of `assertion`.
#[track_caller]
fn message_of<R>(assertion: impl FnOnce() -> R) -> String {
    let result = panic::catch_unwind(AssertUnwindSafe(assertion));
    let payload = result.err().expect("the assertion fails");
    let message = payload.downcast::<String>().expect("a message");
    // Removes a hint about threads of other tests, which run meanwhile. `sdk/tests/capture_hint.rs`
    // tests it in a process of its own.
    message.replace(
        "\nthreads not attached to a capture recorded events meanwhile; see `CaptureHandle`",
        "",
    )
}

const TREE: &str = r#"
  this thread
    read key="a" (5ms)
      disk_read bytes=4096 (2ms)
      * cached
    read key="b" (5ms)
      disk_read bytes=4096 (2ms)
      * cached
  track "jobs"
    job (10ms)"#;

#[test]
fn a_wrong_count_marks_what_was_found() {
    let trace = reads();
    let expected = r#"expected exactly 1 span "disk_read", found 2

  this thread
    read key="a" (5ms)
>     disk_read bytes=4096 (2ms)
      * cached
    read key="b" (5ms)
>     disk_read bytes=4096 (2ms)
      * cached
  track "jobs"
    job (10ms)"#;
    assert_eq!(message_of(|| trace.span("disk_read").once()), expected);
    let expected = expected.replace("exactly 1 span ", "exactly 3 spans ");
    assert_eq!(message_of(|| trace.span("disk_read").times(3)), expected);
    let expected = expected.replace("exactly 3 spans ", "no span ");
    assert_eq!(message_of(|| trace.span("disk_read").never()), expected);
    let expected = expected.replace("no span ", "at least 3 spans ");
    assert_eq!(message_of(|| trace.span("disk_read").at_least(3)), expected);
}

#[test]
fn conditions_that_nothing_meets_say_why() {
    let trace = reads();
    let expected = r#"expected exactly 1 span "disk_read" with bytes=4095 inside "read", found 0
one has bytes=4096
one has bytes=4096

  this thread
    read key="a" (5ms)
>     disk_read bytes=4096 (2ms)
      * cached
    read key="b" (5ms)
>     disk_read bytes=4096 (2ms)
      * cached
  track "jobs"
    job (10ms)"#;
    let query = || trace.span("disk_read").arg("bytes", 4095).inside("read");
    assert_eq!(message_of(|| query().once()), expected);
}

#[test]
fn a_name_that_is_not_there_may_be_a_misspelling() {
    let trace = reads();
    let first_line = |message: String| message.lines().next().unwrap().to_owned();
    let message = message_of(|| trace.span("disk_raed").once());
    assert_eq!(
        message,
        format!(
            "expected exactly 1 span \"disk_raed\", found 0; did you mean \"disk_read\"?\n{TREE}"
        )
    );
    assert_eq!(
        first_line(message_of(|| trace.span("cached").once())),
        "expected exactly 1 span \"cached\", found 0; there is an instant with this name"
    );
    assert_eq!(
        first_line(message_of(|| trace.instant("read").once())),
        "expected exactly 1 instant \"read\", found 0; there is a span with this name"
    );
    assert_eq!(
        first_line(message_of(|| trace.span("network").once())),
        "expected exactly 1 span \"network\", found 0"
    );
}

#[test]
fn a_condition_that_one_of_several_does_not_meet_marks_that_one() {
    let trace = reads();
    let marked = TREE.replace("    read key=\"b\"", ">   read key=\"b\"");
    assert_eq!(
        message_of(|| trace.span("read").times(2).assert_arg("key", "a")),
        format!("expected span \"read\" with key=\"a\", but it has key=\"b\"\n{marked}")
    );
}

#[test]
fn every_condition_says_what_is_there_instead() {
    let trace = reads();
    let objection = |message: String| {
        let line = message.lines().next().unwrap();
        line.strip_prefix("expected span ").unwrap().to_owned()
    };
    let disk_read = || trace.span("disk_read").times(2);
    let job = || trace.span("job").once();
    assert_eq!(
        objection(message_of(|| disk_read().assert_inside("write"))),
        r#""disk_read" inside "write", but it is inside "read""#
    );
    assert_eq!(
        objection(message_of(|| job().assert_directly_inside("read"))),
        r#""job" directly inside "read", but it is not inside any span"#
    );
    assert_eq!(
        objection(message_of(|| disk_read().assert_at_top())),
        r#""disk_read" not inside any span, but it is inside "read""#
    );
    assert_eq!(
        objection(message_of(|| job().assert_has_arg("key"))),
        r#""job" with an argument "key", but it has no argument "key""#
    );
    assert_eq!(
        objection(message_of(|| job().assert_category("cpu"))),
        r#""job" of category "cpu", but it has the category "io""#
    );
    assert_eq!(
        objection(message_of(|| job().assert_on_thread("main"))),
        r#""job" on thread "main", but it is on track "jobs""#
    );
    assert_eq!(
        objection(message_of(|| disk_read().assert_on_track("jobs"))),
        r#""disk_read" on track "jobs", but it is on this thread"#
    );
    assert_eq!(
        objection(message_of(
            || job().assert_took_less_than(Duration::from_millis(10))
        )),
        r#""job" that took less than 10ms, but it took 10ms"#
    );
    assert_eq!(
        objection(message_of(
            || job().assert_took_at_least(Duration::from_secs(1))
        )),
        r#""job" that took at least 1s, but it took 10ms"#
    );
    assert_eq!(
        objection(message_of(|| job().assert_before("read"))),
        r#""job" before "read", but it does not end before "read""#
    );
    assert_eq!(
        objection(message_of(|| disk_read().assert_after("read"))),
        r#""disk_read" after "read", but it does not begin after "read""#
    );
    assert_eq!(
        objection(message_of(|| job().assert_after("raed"))),
        r#""job" after "raed", but there is no "raed"; did you mean "read"?"#
    );
    assert_eq!(
        objection(message_of(|| job().assert_flows_to("read"))),
        r#""job" that flows to "read", but it is not part of any flow"#
    );
}

#[test]
fn a_counter_that_is_not_there_lists_those_that_are() {
    let trace = reads();
    assert_eq!(
        message_of(|| trace.counter("queues")),
        "expected counter \"queues\"; did you mean \"queue\"?\ncounters of the trace:\n    \"queue\""
    );
    let empty = capture().finish();
    assert_eq!(
        message_of(|| empty.counter("queue")),
        "expected counter \"queue\", but the trace has no counters"
    );
    assert_eq!(
        message_of(|| empty.span("read").once()),
        "expected exactly 1 span \"read\", found 0\n\nthe trace has no spans and no instants"
    );
}

#[test]
fn a_trace_with_open_spans_is_not_well_formed() {
    let capture = capture();
    let open = span!("test", "open");
    let trace = capture.finish();
    drop(open);
    assert_eq!(
        message_of(|| trace.assert_well_formed().bytes().len()),
        "the trace is not well formed:\n    span \"open\" on this thread has not ended"
    );
}

#[test]
fn long_traces_are_cut_to_what_matters() {
    let capture = capture();
    for number in 0..1000_u64 {
        let step = span!("test", "step", at: ms(10 * number), number = number);
        if number == 500 {
            span!("test", "rare", at: ms(5001)).end_at(ms(5002));
        }
        step.end_at(ms(10 * number + 5));
    }
    let trace = capture.finish();
    assert_eq!(
        message_of(|| trace.span("rare").times(2)),
        "expected exactly 2 spans \"rare\", found 1\n
  this thread
    step number=500 (5ms)
>     rare (1ms)
    .. and 999 more"
    );
    let message = message_of(|| trace.span("step").once());
    assert_eq!(message.lines().count(), 1 + 1 + 1 + 60 + 1, "{message}");
    assert!(message.ends_with("\n    .. and 941 more"), "{message}");
}

#[test]
fn a_trace_that_is_damaged_is_not_well_formed() {
    let trace = reads();
    let bytes = trace.bytes();
    let cut = Trace::read(&bytes[..bytes.len() - 3]).unwrap();
    let message = message_of(|| cut.assert_well_formed().bytes().len());
    let (heading, fault) = message.split_once('\n').unwrap();
    assert_eq!(heading, "the trace is not well formed:");
    assert!(fault.contains("offset"), "{message}");
    // Events before the damage can be queried.
    cut.span("disk_read").times(2);
}

#[test]
fn a_trace_may_nest_deeper_than_the_stack() {
    const DEPTH: usize = 50_000;
    let capture = capture();
    for _ in 0..DEPTH {
        begin!("io", "read");
    }
    let trace = capture.finish();
    trace.assert_no_loss();
    let message = message_of(|| trace.span("read").once());
    assert!(message.contains("found 50000"), "{message}");
    assert!(message.contains(".. and 49940 more"), "{message}");
}

#[test]
fn a_misspelled_name_is_recognized_wherever_it_stands() {
    let trace = reads();
    let ends_with = |message: String, end: &str| {
        let line = message.lines().next().unwrap();
        assert!(line.ends_with(end), "{line}");
    };
    ends_with(
        message_of(|| trace.span("raed").once()),
        "; did you mean \"read\"?",
    );
    ends_with(
        message_of(|| trace.span("cahced").once()),
        "; did you mean the instant \"cached\"?",
    );
    ends_with(
        message_of(|| trace.polls("read").once()),
        "; there is a span with this name",
    );
    ends_with(
        message_of(|| trace.span("job").once().assert_after("raed")),
        "there is no \"raed\"; did you mean \"read\"?",
    );
    ends_with(
        message_of(|| trace.span("disk_read").times(2).assert_inside("raed")),
        "but it is inside \"read\"",
    );
}

#[test]
fn polls_are_shown_where_they_are_asked_for() {
    use tracezero::TraceFuture as _;

    let capture = capture();
    let mut future = Box::pin(
        async { instant!("test", "polled") }.traced(tracezero::async_span!("test", "fetch")),
    );
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(context).is_ready());
    let trace = capture.finish();
    let without_times = |message: String| -> String {
        let line = |line: &str| line.split(" (").next().unwrap().to_owned() + "\n";
        message.lines().map(line).collect()
    };
    assert_eq!(
        without_times(message_of(|| trace.span("fetch").never())),
        "expected no span \"fetch\", found 1

  track \"fetch\"
>   fetch
      * polled
"
    );
    assert_eq!(
        without_times(message_of(|| trace.polls("fetch").times(2))),
        "expected exactly 2 polls \"fetch\", found 1

  track \"fetch\"
    fetch
>     poll fetch
      * polled
"
    );
}

#[test]
fn this_thread_has_the_name_that_messages_use() {
    let trace = reads();
    trace
        .span("disk_read")
        .times(2)
        .assert_on_thread("this thread")
        .assert_on_track("this thread");
    assert!(
        message_of(|| trace.span("job").once().assert_on_thread("this thread"))
            .contains("on track")
    );
}
