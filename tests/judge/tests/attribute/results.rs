//! The options `result` and `error` of the attribute `trace`, which add the function's return value
//! to the end of the span.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{self, Future};
use std::num::ParseIntError;
use std::panic;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use judge::{Event, EventKind, Value, Verdict};
use support::alone;
use tracezero::trace;

use crate::{outline, recorded, text};

type Args = BTreeMap<String, Value>;

/// Returns the arguments of all ends, by time.
fn ends(verdict: &Verdict) -> Vec<Args> {
    let ends = ends_of(verdict, |_| true);
    ends.map(|end| end.args.clone()).collect()
}

fn ends_of(verdict: &Verdict, is_chosen: impl Fn(&Event) -> bool) -> impl Iterator<Item = &Event> {
    let events = verdict.events.iter();
    events.filter(move |event| event.kind == EventKind::SliceEnd && is_chosen(event))
}

fn args<const N: usize>(args: [(&str, Value); N]) -> Args {
    args.map(|(name, value)| (name.to_owned(), value)).into()
}

#[trace(result)]
fn sum(numbers: &[u32]) -> u32 {
    let mut sum = 0;
    for number in numbers {
        if *number == 0 {
            return sum;
        }
        sum += number;
    }
    sum
}

#[test]
fn a_result_is_typed_whichever_return_it_comes_from() {
    let verdict = recorded(|| {
        assert_eq!(sum(&[1, 2]), 3);
        assert_eq!(sum(&[1, 0, 2]), 1);
    });
    let results = [3, 1].map(|sum| args([("result", Value::Uint(sum))]));
    assert_eq!(ends(&verdict), results);
}

#[trace(?result)]
fn half(number: u32) -> Option<u32> {
    number.is_multiple_of(2).then_some(number / 2)
}

#[trace(%result, args(result))]
fn next(result: char) -> char {
    ((result as u8) + 1) as char
}

#[trace(result = result.len() + 1)]
fn joined(words: Vec<&str>) -> String {
    words.join(" ")
}

#[test]
fn a_result_becomes_a_text_or_a_part_where_it_is_asked_to() {
    let verdict = recorded(|| {
        half(3);
        next('a');
        joined(vec!["a", "b"]);
    });
    let results = [text("None"), text("b"), Value::Uint(4)].map(|it| args([("result", it)]));
    assert_eq!(ends(&verdict), results);
}

#[trace(%error)]
fn parsed(number: &str) -> Result<u8, ParseIntError> {
    let number: u8 = number.parse()?;
    Ok(number)
}

#[trace(result, ?error)]
fn parsed_twice(number: &str) -> Result<u8, ParseIntError> {
    let number = parsed(number)?;
    Ok(number)
}

#[test]
fn an_error_is_at_the_end_of_calls_that_return_one() {
    let verdict = recorded(|| {
        assert_eq!(parsed("7"), Ok(7));
        assert!(parsed("x").is_err());
    });
    let message = text("invalid digit found in string");
    let expected = [args([]), args([("error", message.clone())])];
    assert_eq!(ends(&verdict), expected);

    let verdict = recorded(|| {
        assert_eq!(parsed_twice("7"), Ok(7));
        assert!(parsed_twice("x").is_err());
    });
    let debug = text("ParseIntError { kind: InvalidDigit }");
    let expected = [
        args([]),
        args([("result", Value::Uint(7))]),
        args([("error", message)]),
        args([("error", debug)]),
    ];
    assert_eq!(ends(&verdict), expected);
    assert_eq!(outline(&verdict), ["parsed_twice", "  parsed"].repeat(2));
}

struct Queue {
    items: Vec<u32>,
}

impl Queue {
    #[trace(result)]
    fn newest(&mut self) -> &mut u32 {
        self.items.last_mut().unwrap()
    }

    #[trace(result = result.clone().count())]
    fn large(&self, from: u32) -> impl Iterator<Item = u32> + Clone {
        self.items.iter().copied().filter(move |it| *it >= from)
    }
}

#[test]
fn a_result_may_borrow_and_may_have_a_type_without_a_name() {
    let verdict = recorded(|| {
        let mut queue = Queue { items: vec![1, 2] };
        *queue.newest() = 3;
        assert_eq!(queue.large(2).sum::<u32>(), 3);
    });
    let results = [2, 1].map(|it| args([("result", Value::Uint(it))]));
    assert_eq!(ends(&verdict), results);
}

#[trace(result = count)]
fn counted_down(mut count: u32, items: &mut Vec<u32>) -> &mut [u32] {
    while count > 1 {
        count -= 1;
    }
    items.clear();
    items.push(7);
    &mut items[..1]
}

#[trace(result = items.len())]
fn emptied(items: &mut Vec<u32>) {
    items.clear();
}

#[test]
fn a_result_may_be_what_the_body_has_made_of_its_parameters() {
    let verdict = recorded(|| {
        assert_eq!(counted_down(3, &mut vec![]), [7]);
        emptied(&mut vec![1, 2]);
    });
    let results = [1, 0].map(|it| args([("result", Value::Uint(it))]));
    assert_eq!(ends(&verdict), results);
}

#[trace(result)]
fn fails() -> u32 {
    panic::resume_unwind(Box::new("on purpose"))
}

#[test]
fn a_call_that_panics_has_no_result() {
    let verdict = recorded(|| assert!(panic::catch_unwind(fails).is_err()));
    assert_eq!(ends(&verdict), [args([])]);
}

#[trace(result = { evaluations.set(evaluations.get() + 1); *result })]
fn lazy(number: u32, evaluations: &Cell<u32>) -> u32 {
    number
}

#[test]
fn a_result_is_evaluated_once_and_only_while_a_session_records() {
    let evaluations = Cell::new(0);
    let verdict = recorded(|| _ = lazy(5, &evaluations));
    assert_eq!(evaluations.get(), 1);
    assert_eq!(ends(&verdict), [args([("result", Value::Uint(5))])]);
    let _guard = alone();
    assert_eq!(lazy(5, &evaluations), 5);
    assert_eq!(evaluations.get(), 1);
}

#[trace(result = result.len(), %error)]
async fn fetch(url: &str) -> Result<String, ParseIntError> {
    let mut is_over = false;
    future::poll_fn(|_| match std::mem::replace(&mut is_over, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
    let number: u8 = url.parse()?;
    Ok(number.to_string())
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        let context = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return output;
        }
    }
}

#[test]
fn the_life_of_an_async_function_ends_with_its_result() {
    let verdict = recorded(|| {
        assert!(run(fetch("12")).is_ok());
        assert!(run(fetch("x")).is_err());
        let mut dropped = Box::pin(fetch("12"));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(dropped.as_mut().poll(context).is_pending());
    });
    let expected = [
        args([("result", Value::Uint(2))]),
        args([("error", text("invalid digit found in string"))]),
        args([("cancelled", Value::Bool(true))]),
    ];
    let is_life = |event: &Event| event.track_name.as_deref() == Some("fetch");
    let lives = ends_of(&verdict, is_life).map(|end| &end.args);
    assert_eq!(Vec::from_iter(lives), expected.each_ref());
    let mut polls = ends_of(&verdict, |end| !is_life(end));
    assert!(polls.all(|poll| poll.args.is_empty()));
}
