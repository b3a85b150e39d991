//! Events of a library appear in the sessions and captures of the application.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use tracezero::InMemorySession;
use tracezero::testing::{Trace, Value, capture};
use tracezero_events::{Dict, ToValue, counter, end, instant, span};

#[test]
fn arguments_arrive_with_their_types() {
    let capture = capture();
    let (path, level) = (String::from("Cargo.toml"), Some(7_u8));
    let missing: Option<u32> = None;
    let error = std::io::Error::other("no luck");
    instant!(
        "mylib", "arguments", path, level, missing, %error, ?level, flag = true, less = -3, ratio = 0.5,
        "http.status" = 404_u16, shared = Rc::new('x'), long = "x".repeat(300), huge = u64::MAX,
    );
    let trace = capture.finish();

    let event = trace.instant("arguments").once().single();
    let text = |text: &str| Value::Text(text.to_owned());
    let expected = [
        ("path", text("Cargo.toml")),
        ("level", Value::Uint(7)),
        ("error", text("no luck")),
        ("level", text("Some(7)")),
        ("flag", Value::Bool(true)),
        ("less", Value::Int(-3)),
        ("ratio", Value::Double(0.5)),
        ("http.status", Value::Uint(404)),
        ("shared", text("x")),
        ("long", text(&"x".repeat(300))),
        ("huge", Value::Uint(u64::MAX)),
    ];
    let args: Vec<_> = event
        .args()
        .filter(|(name, _)| *name != "missing")
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, value)| (*name, value))
        .collect();
    assert_eq!(args, expected);
    assert_eq!(event.categories().collect::<Vec<_>>(), ["mylib"]);
    trace.assert_no_loss().assert_well_formed();
}

#[test]
fn lists_maps_and_paths_are_typed() {
    struct Size(u32, u32);

    impl Dict for Size {
        fn for_each(&self, visit: &mut dyn FnMut(&str, tracezero_events::Value<'_>)) {
            visit("width", self.0.to_value());
            visit("height", self.1.to_value());
        }
    }

    impl ToValue for Size {
        fn to_value(&self) -> tracezero_events::Value<'_> {
            tracezero_events::Value::Dict(self)
        }
    }

    let capture = capture();
    let (numbers, text) = ([1_u8, 2], "text");
    let error: Box<dyn std::error::Error> = "no luck".into();
    instant!(
        "mylib", "typed", list = vec!["a", "b"], slice = &numbers[..1], size = Size(640, 480),
        map = BTreeMap::from([("key", 7)]), path = Path::new("/tmp"), ?text, first = %text[..1],
        error = %*error, address = std::ptr::null::<u8>(), many = vec![0_u8; 100_000],
    );
    let trace = capture.finish();

    let event = trace.instant("typed").once().single();
    let dict = |entries: &[(&str, Value)]| {
        Value::Dict(
            entries
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        )
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let expected = [
        ("list", Value::Array(vec![text("a"), text("b")])),
        ("slice", Value::Array(vec![Value::Uint(1)])),
        (
            "size",
            dict(&[("width", Value::Uint(640)), ("height", Value::Uint(480))]),
        ),
        ("map", dict(&[("key", Value::Int(7))])),
        ("path", text("/tmp")),
        ("text", text("\"text\"")),
        ("first", text("t")),
        ("error", text("no luck")),
        ("address", Value::Pointer(0)),
    ];
    let args: Vec<_> = event.args().collect();
    for ((name, value), (found_name, found)) in expected.iter().zip(&args) {
        assert_eq!((name, value), (found_name, *found));
    }
    let Some(("many", Value::Array(many))) = args.last() else {
        panic!("{:?}", args.last());
    };
    assert_eq!(many.last(), Some(&text("… (100000 elements)")));
}

#[test]
fn spans_of_library_and_application_nest() {
    let capture = capture();
    {
        let _request = tracezero::span!("app", "request");
        let read = span!("mylib", "read", number = 3);
        {
            let _parse = tracezero::span!("app", "parse");
            let _attempt = span!("mylib", format!("attempt {}", 1), ok = false);
        }
        end!(read, bytes = 1234_u64);
        instant!("mylib", String::from("made at run time"));
    }
    let trace = capture.finish();

    trace
        .span("read")
        .once()
        .assert_inside("request")
        .assert_arg("number", 3)
        .assert_arg("bytes", 1234);
    trace
        .span("attempt 1")
        .once()
        .assert_inside("parse")
        .assert_arg("ok", false);
    trace
        .instant("made at run time")
        .once()
        .assert_inside("request");
    trace.assert_no_loss().assert_well_formed();
}

#[test]
fn guards_end_their_spans_in_any_order_and_after_a_panic() {
    let capture = capture();
    let outer = span!("mylib", "outer");
    let inner = span!("mylib", "inner");
    drop(outer);
    instant!("mylib", "between");
    drop(inner);
    let result = std::panic::catch_unwind(|| {
        let _span = span!("mylib", "panics");
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(result.is_err());
    let trace = capture.finish();

    trace.span("outer").once();
    trace.instant("between").once().assert_inside("inner");
    trace.span("panics").once();
    trace.assert_well_formed();
}

#[test]
fn each_value_of_a_counter_is_recorded() {
    let capture = capture();
    for value in 1..=3 {
        counter!("mylib", "open_files", value);
    }
    counter!("mylib", "load", 0.75);
    let trace = capture.finish();

    assert_eq!(trace.counter("open_files").values(), [1.0, 2.0, 3.0]);
    assert_eq!(trace.counter("load").values(), [0.75]);
}

#[test]
fn call_site_reached_before_the_first_session_is_recorded() {
    let record = || instant!("mylib", "reached early");
    record();
    let session = InMemorySession::start().unwrap();
    record();
    let (bytes, _) = session.finish();
    Trace::read(bytes).unwrap().instant("reached early").once();
}

#[test]
fn threads_that_reach_a_call_site_together_lose_nothing() {
    let session = InMemorySession::start().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(|| {
                for _ in 0..100 {
                    instant!("mylib.threads", "together");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    let (bytes, report) = session.finish();
    assert_eq!(report.losses.total(), 0);
    Trace::read(bytes).unwrap().instant("together").times(800);
}
