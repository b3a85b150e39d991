//! Queries on a trace.

use std::time::Duration;

use support::Folder;
use tracezero::testing::{Event, Trace, Value, capture};
use tracezero::{CounterTrack, Flow, InMemorySession, Track, counter, dict, instant, span};

fn ms(count: u64) -> u64 {
    count * 1_000_000
}

/// Records spans at given times: `read` from 1 to 9 ms with two `disk_read`s, the second inside of
/// `retry`; `write` from 10 to 12 ms; `job`s on a track.
fn reads() -> Trace {
    let capture = capture();
    let flow = Flow::new();
    let read = span!("io,cache", "read", at: ms(1), flow: &flow, key = "k", sizes = [1_u64, 2]);
    span!("io", "disk_read", at: ms(2), block = 7).end_at(ms(3));
    let retry = span!("io", "retry", at: ms(4));
    span!("io", "disk_read", at: ms(5), block = 8).end_at(ms(7));
    instant!("io", "failed", at: ms(7), request = dict(|dict| {
 dict.add("path", "/a"); dict.add("code", &-5); }));
    retry.end_at(ms(8));
    read.end_at(ms(9));
    span!("io", "write", at: ms(10), last_flow: &flow).end_at(ms(12));
    let queue = CounterTrack::new("queue");
    for (time_ms, value) in [(1, 3.0), (2, 5.5), (3, 1.0)] {
        counter!("io", &queue, value, at: ms(time_ms));
    }
    let track = Track::new("jobs");
    span!("io", "job", track: &track, at: ms(1)).end_at(ms(2));
    let trace = capture.finish();
    trace.assert_no_loss().assert_well_formed();
    trace
}

#[test]
fn spans_are_narrowed_down_and_counted() {
    let trace = reads();
    trace.span("read").once();
    trace
        .span("disk_read")
        .times(2)
        .assert_inside("read")
        .assert_category("io")
        .assert_has_ended();
    trace
        .span("disk_read")
        .inside("retry")
        .once()
        .assert_arg("block", 8);
    trace
        .span("disk_read")
        .directly_inside("read")
        .once()
        .assert_arg("block", 7);
    trace.span("disk_read").arg("block", 9).never();
    trace.span("disk_read").at_least(1);
    trace
        .span("read")
        .category("cache")
        .category("io")
        .once()
        .assert_at_top();
    trace.span("disk_raed").never();
    trace
        .instant("failed")
        .once()
        .assert_directly_inside("retry");
    trace.span("job").on_track("jobs").once();
    trace.span("job").on_thread("jobs").never();
    let this_thread = std::thread::current();
    trace
        .span("read")
        .once()
        .assert_on_thread(this_thread.name().unwrap());
}

#[test]
fn arguments_are_compared_by_path() {
    let trace = reads();
    trace
        .span("read")
        .once()
        .assert_arg("key", "k")
        .assert_arg("sizes.1", 2)
        .assert_has_arg("sizes");
    let failed = trace.instant("failed").once();
    let failed = failed
        .assert_arg("request.path", "/a")
        .assert_arg("request.code", -5_i8)
        .single();
    assert_eq!(failed.arg("request.code"), Some(&Value::Int(-5)));
    assert_eq!(failed.arg("request.other"), None);
    assert_eq!(failed.args().count(), 1);
}

#[test]
fn times_are_compared() {
    let trace = reads();
    let second = Duration::from_millis(2);
    trace
        .span("disk_read")
        .took_at_least(second)
        .once()
        .assert_arg("block", 8);
    trace
        .span("disk_read")
        .took_less_than(second)
        .once()
        .assert_arg("block", 7);
    trace
        .span("read")
        .once()
        .assert_took_at_least(Duration::from_millis(8))
        .assert_before("write");
    trace
        .span("write")
        .once()
        .assert_after("read")
        .assert_after("failed");
    trace.span("read").before("disk_read").never();
    trace.span("read").after("nothing").never();
    trace.span("read").once().assert_flows_to("write");
    trace.span("write").flows_to("read").never();
}

#[test]
fn enclosing_spans_can_be_walked() {
    let trace = reads();
    let read = trace.span("read").once().single();
    let names: Vec<&str> = read.children().map(Event::name).collect();
    assert_eq!(names, ["disk_read", "retry"]);
    let failed = trace.instant("failed").once().single();
    let around: Vec<&str> = failed.ancestors().map(Event::name).collect();
    assert_eq!(around, ["retry", "read"]);
    assert_eq!(
        (failed.start_ns(), failed.duration()),
        (ms(7), Some(Duration::ZERO))
    );
    assert_eq!(read.categories().collect::<Vec<_>>(), ["io", "cache"]);
    assert_eq!(read.thread(), std::thread::current().name());
    let job = trace.spans().find(|span| span.name() == "job").unwrap();
    assert_eq!((job.track(), job.thread()), ("jobs", None));
    assert_eq!(trace.span("disk_read").all().len(), 2);
    assert_eq!(
        failed.to_string(),
        r#"* failed request={path="/a", code=-5}"#
    );
    assert_eq!(read.to_string(), r#"read key="k" sizes=[1, 2] (8ms)"#);
}

#[test]
fn counters_have_values() {
    let trace = reads();
    assert_eq!(trace.counter_names(), ["queue"]);
    let queue = trace.counter("queue");
    assert_eq!(queue.values(), [3.0, 5.5, 1.0]);
    assert_eq!(
        (queue.first(), queue.last(), queue.min(), queue.max()),
        (3.0, 1.0, 1.0, 5.5)
    );
    assert_eq!(queue.iter().next(), Some((ms(1), 3.0)));
}

#[test]
fn any_trace_can_be_asked() {
    let session = InMemorySession::start().unwrap();
    drop(span!("test", "of a session", unlike = "others"));
    let (bytes, _) = session.finish();
    let trace = Trace::read(bytes.clone()).unwrap();
    trace.span("of a session").arg("unlike", "others").once();
    assert!(trace.report().is_none());
    assert_eq!(trace.bytes(), bytes);

    let folder = Folder::empty();
    let path = folder.write("trace.pftrace", trace.bytes());
    let read = Trace::from_file(&path).unwrap();
    drop(folder);
    read.span("of a session").arg("unlike", "others").once();
    assert!(Trace::from_file(&path).is_err());
    assert!(Trace::read(*b"no trace at all, but a text").is_err());
}

#[test]
fn spans_of_a_shared_track_are_ordered_by_time() {
    let capture = capture();
    let track = Track::new("shared");
    let mut threads = Vec::new();
    for number in (0..20).rev() {
        let track = track.clone();
        threads.push(capture.spawn(move || {
            span!("test", "outer", track: &track, at: ms(10 * number), number = number)
                .end_at(ms(10 * number + 9));
            span!("test", "inner", track: &track, at: ms(10 * number + 1))
                .end_at(ms(10 * number + 2));
        }));
        threads.pop().unwrap().join().unwrap();
    }
    let trace = capture.finish();
    trace.assert_no_loss().assert_well_formed();
    trace
        .span("inner")
        .times(20)
        .assert_directly_inside("outer");
    let numbers: Vec<_> = trace
        .spans()
        .filter_map(|span| span.arg("number"))
        .collect();
    assert_eq!(numbers.first(), Some(&&Value::Int(0)));
    assert_eq!(numbers.last(), Some(&&Value::Int(19)));
}
