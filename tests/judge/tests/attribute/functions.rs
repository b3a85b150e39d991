//! The attribute `trace` on all kinds of functions, and all ways to leave them.

use std::borrow::Cow;
use std::fmt::Display;
use std::future::{self, Future};
use std::num::ParseIntError;
use std::panic;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tracezero::trace;

use crate::{outline, recorded};

#[trace]
fn outer() {
    inner();
    inner();
}

#[trace]
fn inner() {}

#[test]
fn calls_nest_as_the_functions_call_each_other() {
    let verdict = recorded(|| {
        outer();
        inner();
    });
    assert_eq!(outline(&verdict), ["outer", "  inner", "  inner", "inner"]);
}

#[trace]
fn countdown(from: u32) {
    if from > 0 {
        countdown(from - 1);
    }
}

#[test]
fn each_call_of_a_function_that_calls_itself_is_a_slice() {
    let verdict = recorded(|| countdown(2));
    let expected = ["countdown", "  countdown", "    countdown"];
    assert_eq!(outline(&verdict), expected);
}

#[trace]
fn parsed_sum(numbers: &[&str]) -> Result<i32, ParseIntError> {
    let mut sum = 0;
    for number in numbers {
        if number.is_empty() {
            return Ok(sum);
        }
        sum += number.parse::<i32>()?;
    }
    Ok(sum)
}

#[test]
fn a_slice_ends_whichever_way_the_function_is_left() {
    let verdict = recorded(|| {
        assert_eq!(parsed_sum(&["1", "2"]), Ok(3));
        assert_eq!(parsed_sum(&["1", "", "2"]), Ok(1));
        assert!(parsed_sum(&["one"]).is_err());
    });
    assert_eq!(outline(&verdict), ["parsed_sum"; 3]);
}

#[trace]
fn fails() {
    // Unwinds as a panic does, without printing a message.
    panic::resume_unwind(Box::new("on purpose"));
}

#[trace]
fn never_returns() -> ! {
    panic::resume_unwind(Box::new("on purpose"))
}

#[trace]
fn catches() {
    assert!(panic::catch_unwind(fails).is_err());
    assert!(panic::catch_unwind(|| never_returns()).is_err());
    inner();
}

#[test]
fn a_slice_ends_when_the_function_panics() {
    let verdict = recorded(catches);
    assert_eq!(
        outline(&verdict),
        ["catches", "  fails", "  never_returns", "  inner"]
    );
}

#[derive(Clone)]
struct Store<'n, T, const N: usize> {
    name: Cow<'n, str>,
    items: [T; N],
}

impl<'n, T: Clone, const N: usize> Store<'n, T, N> {
    #[trace]
    fn new(name: &'n str, items: [T; N]) -> Self {
        let name = Cow::Borrowed(name);
        Self { name, items }
    }

    #[trace]
    fn first(&self) -> Option<&T> {
        self.items.first()
    }

    #[trace]
    fn rename(&mut self, name: String) -> &mut Self {
        self.name = name.into();
        self
    }

    #[trace]
    fn into_items(self) -> [T; N] {
        self.items
    }

    #[trace]
    fn shared(self: Rc<Self>) -> usize {
        N
    }
}

trait Named {
    fn name(&self) -> &str;

    #[trace]
    fn shout(&self) -> String {
        self.name().to_uppercase()
    }
}

impl<T: Clone, const N: usize> Named for Store<'_, T, N> {
    #[trace]
    fn name(&self) -> &str {
        &self.name
    }
}

#[test]
fn methods_of_all_kinds_are_slices() {
    let verdict = recorded(|| {
        let mut store = Store::new("a", ["x", "y"]);
        assert_eq!(store.first(), Some(&"x"));
        assert_eq!(store.rename("b".to_owned()).shout(), "B");
        assert_eq!(Rc::new(store.clone()).shared(), 2);
        assert_eq!(store.into_items(), ["x", "y"]);
    });
    let expected = [
        "new",
        "first",
        "rename",
        "shout",
        "  name",
        "shared",
        "into_items",
    ];
    assert_eq!(outline(&verdict), expected);
}

#[trace]
fn longest<'a, T>(first: &'a [T], second: &'a [T]) -> &'a [T]
where
    T: PartialEq,
{
    if first.len() < second.len() {
        second
    } else {
        first
    }
}

#[trace]
fn joined(parts: impl IntoIterator<Item = impl Display>) -> impl Iterator<Item = String> {
    parts.into_iter().map(|part| part.to_string())
}

#[trace]
fn zeros<const N: usize>((first, _): (u8, u8), mut rest: [u8; N]) -> [u8; N] {
    rest.fill(first);
    rest
}

#[trace]
fn adder(left: i32) -> impl Fn(i32) -> i32 {
    move |right| left + right
}

#[test]
fn generic_functions_are_slices() {
    let verdict = recorded(|| {
        assert_eq!(longest(&[1], &[2, 3]), [2, 3]);
        assert_eq!(joined([1, 2]).collect::<String>(), "12");
        assert_eq!(zeros((0, 1), [7; 3]), [0; 3]);
        assert_eq!(adder(1)(2), 3);
    });
    assert_eq!(outline(&verdict), ["longest", "joined", "zeros", "adder"]);
}

#[trace]
#[expect(unsafe_code, reason = "the attribute takes unsafe functions, too")]
unsafe extern "C" fn first_byte(text: *const u8) -> u8 {
    // SAFETY: the caller promises that the pointer points to a byte.
    unsafe { *text }
}

#[trace]
#[inline(never)]
#[must_use]
extern "C" fn doubled(number: i32) -> i32 {
    #![expect(clippy::let_and_return, reason = "inner attributes stay in force")]
    const TWO: i32 = 2;
    let doubled = number * TWO;
    doubled
}

#[trace]
fn r#match() {}

#[test]
fn unsafe_and_foreign_functions_and_raw_names_are_slices() {
    let verdict = recorded(|| {
        #[expect(unsafe_code, reason = "it calls an unsafe function")]
        // SAFETY: the pointer points to a text of one byte.
        let byte = unsafe { first_byte("x".as_ptr()) };
        assert_eq!(byte, b'x');
        assert_eq!(doubled(2), 4);
        r#match();
    });
    assert_eq!(outline(&verdict), ["first_byte", "doubled", "match"]);
}

#[trace]
fn promised(number: u32) -> impl Future<Output = u32> {
    inner();
    future::ready(number)
}

#[test]
fn a_function_that_returns_a_future_is_a_slice_until_it_returns() {
    let verdict = recorded(|| {
        let mut promise = Box::pin(promised(7));
        outer();
        let polled = promise
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(7));
    });
    let expected = ["promised", "  inner", "outer", "  inner", "  inner"];
    assert_eq!(outline(&verdict), expected);
}

#[trace]
fn with_items_and_names_like_those_of_the_expansion() -> u32 {
    use std::convert::identity;
    fn doubled(number: u32) -> u32 {
        identity(number) * 2
    }
    let _span = 2;
    let span = doubled(2);
    span + _span
}

#[test]
fn a_body_means_what_it_meant() {
    let verdict = recorded(|| {
        assert_eq!(with_items_and_names_like_those_of_the_expansion(), 6);
    });
    assert_eq!(verdict.events.len(), 2);
}
