//! Arguments whose types derive `ArgValue`, or are in the standard library.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::ffi::OsStr;
use std::io;
use std::marker::PhantomData;
use std::num::NonZero;
use std::time::Duration;

use tracezero::testing::{Value, capture};
use tracezero::{ArgValue, instant};

/// Records an event with this argument. Returns the argument's value in the trace.
fn recorded(value: impl ArgValue) -> Value {
    let capture = capture();
    instant!("test", "event", value);
    let trace = capture.finish();
    trace.assert_no_loss();
    let event = trace.instant("event").once().single();
    event.args().next().unwrap().1.clone()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn dict<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let entries = entries.map(|(name, value)| (name.to_owned(), value));
    Value::Dict(entries.into())
}

#[derive(ArgValue)]
struct Request<'a, T, M> {
    path: &'a str,
    #[arg_value(rename = "wait_ns")]
    wait: Duration,
    #[arg_value(debug)]
    peer: Option<u8>,
    #[arg_value(display)]
    error: T,
    #[arg_value(skip)]
    _marker: PhantomData<M>,
    r#type: bool,
}

#[derive(ArgValue)]
struct Port(u16);

#[derive(ArgValue)]
struct Point(i32, #[arg_value(display)] i32);

#[derive(ArgValue)]
struct Nothing;

#[derive(ArgValue)]
struct Empty {}

/// A type without values.
#[derive(ArgValue)]
enum Never {}

#[derive(ArgValue)]
enum Body {
    None,
    Bytes(usize),
    Parts(u8, Port),
    File { name: String, at: Point },
}

#[test]
fn struct_is_a_dictionary_of_its_fields() {
    let request = Request {
        path: "/",
        wait: Duration::from_micros(3),
        peer: Some(7),
        error: io::Error::other("no luck"),
        _marker: PhantomData::<Empty>,
        r#type: true,
    };
    let expected = dict([
        ("path", text("/")),
        ("wait_ns", Value::Uint(3_000)),
        ("peer", text("Some(7)")),
        ("error", text("no luck")),
        ("type", Value::Bool(true)),
    ]);
    assert_eq!(recorded(request), expected);
}

#[test]
fn tuple_of_one_field_is_that_field() {
    assert_eq!(recorded(Port(80)), Value::Uint(80));
    let point = dict([("0", Value::Int(-1)), ("1", text("2"))]);
    assert_eq!(recorded(Point(-1, 2)), point);
    assert_eq!(recorded(Nothing), text("Nothing"));
}

#[test]
fn struct_without_fields_has_no_value() {
    assert_eq!(recorded(Empty {}), Value::None);
    assert_eq!(recorded(None::<Never>), Value::None);
}

#[test]
fn variant_is_its_name_or_a_dictionary_under_it() {
    assert_eq!(recorded(Body::None), text("None"));
    let bytes = dict([("Bytes", Value::Uint(7))]);
    assert_eq!(recorded(Body::Bytes(7)), bytes);
    let parts = dict([("0", Value::Uint(1)), ("1", Value::Uint(80))]);
    assert_eq!(recorded(Body::Parts(1, Port(80))), dict([("Parts", parts)]));
    let file = Body::File {
        name: "a".to_owned(),
        at: Point(0, 0),
    };
    let at = dict([("0", Value::Int(0)), ("1", text("0"))]);
    let fields = dict([("name", text("a")), ("at", at)]);
    assert_eq!(recorded(file), dict([("File", fields)]));
}

#[test]
fn types_of_the_standard_library_have_their_values() {
    assert_eq!(recorded(Duration::MAX), Value::Uint(u64::MAX));
    assert_eq!(recorded(NonZero::<u8>::MAX), Value::Uint(255));
    assert_eq!(recorded(NonZero::<i64>::MIN), Value::Int(i64::MIN));
    assert_eq!(recorded(OsStr::new("name")), text("name"));
    assert_eq!(recorded(format_args!("{} of {}", 1, 2)), text("1 of 2"));
}
