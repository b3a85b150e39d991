//! The attribute and the derive macro of [`tracezero`](https://docs.rs/tracezero): use them from there, as
//! `tracezero::trace` and `tracezero::ArgValue`.

#![forbid(unsafe_code)]

mod options; // what is written in the attribute
mod function; // what it is written on, and what becomes of that
mod arg_value; // values of arguments, derived

use proc_macro::TokenStream;
use syn::Error;

use crate::function::Function;

/// Makes each call of a function or method a span, from its first statement to its return: also
/// if that is a `return`, a `?` or a panic.
///
/// ```
/// # use std::io;
/// use tracezero::trace;
///
/// #[trace]
/// fn sum(numbers: &[u64]) -> u64 {
///     numbers.iter().sum()
/// }
///
/// struct Store;
///
/// impl Store {
///     #[trace("io", name = "Store::read", args(path, ?retry), result = result.len(), %error)]
///     fn read(&self, path: &str, retry: Option<u32>) -> io::Result<Vec<u8>> {
///         let bytes = std::fs::read(path)?;
///         // ..
/// #       _ = retry;
///         Ok(bytes)
///     }
/// }
///
/// # let session = tracezero::InMemorySession::start()?;
/// # sum(&[1, 2]);
/// # assert!(Store.read("/no/such/file", None).is_err());
/// # assert_eq!(session.finish().1.events, 4);
/// # Ok::<(), tracezero::Error>(())
/// ```
///
/// # What it takes
///
/// All of it is optional, and each part comes at most once.
///
/// | | | without it |
/// |---|---|---|
/// | `"io"`, at the first place, or `category = "io"` | the category | the name of the package that is compiled |
/// | `name = "Store::read"` | the span's name | the name of the function, without type or module |
/// | `args(..)` | its arguments | none |
/// | `result` | an argument `result` of its end: what the function returns | none |
/// | `error` | an argument `error` of its end, if the function returns `Err`: what is in that | none |
/// | `crate = tracing_sdk` | the path of this library, if the dependency has another name | `::tracezero` |
///
/// Arguments are those of `tracezero::span!`:
///
/// | | |
/// |---|---|
/// | `key = expression` | the value with its type: any `ArgValue` |
/// | `key = %expression` | as text, by `Display` |
/// | `key = ?expression` | as text, by `Debug` |
/// | `key`, `%key`, `?key` | the same for a parameter of that name |
/// | `"http.status" = expression` | a key that is not an identifier |
///
/// An expression sees the parameters, `self` among them, before the body has moved or changed them.
/// It is evaluated only while a session records the category. Everything else costs a relaxed load.
///
/// # Results
///
/// `result` and `error` are written as arguments are: `result` with its type, `%result` by `Display`,
/// `?result` by `Debug`, or `result = expression`, where the expression sees a reference to the value by
/// that name. With `error`, the function must return a `Result`; with both, `result` is what is in `Ok`.
/// A call that panics, or a future that is dropped before it is done, adds neither.
///
/// The body becomes a closure, or an `async` block that takes the parameters it uses. So the expression may
/// use a parameter only if the body has not moved it, and the result does not borrow it; and
/// `#[track_caller]` does not reach the body.
///
/// # Async functions
///
/// An `async fn` becomes a future with a span, as by `tracezero::TraceFuture`: one slice on a track of
/// its own from its first poll until it is done or dropped, and a slice for each poll on the thread that
/// ran it, joined by arrows. What it awaits is drawn below it. Its arguments are evaluated in the first
/// poll. Making the track allocates, and so do arguments, while a session records the category.
///
/// A function that is not `async` itself but returns a future is traced until it returns, which is
/// before the future runs.
///
/// # What it cannot be written on
///
/// A `const fn` cannot be traced, since it may run in the compiler; nor can the declaration of a
/// method without a body, whose implementations take the attribute instead.
#[proc_macro_attribute]
pub fn trace(options: TokenStream, item: TokenStream) -> TokenStream {
    let untraced = proc_macro2::TokenStream::from(item.clone());
    traced(options, item)
        // With the function as it was, what calls it does not fail as well.
        .unwrap_or_else(|error| [error.into_compile_error(), untraced].into_iter().collect())
        .into()
}

fn traced(options: TokenStream, item: TokenStream) -> syn::Result<proc_macro2::TokenStream> {
    let function: Function = syn::parse(item)?;
    function.traced(syn::parse(options)?)
}

/// Derives `ArgValue`, so that events can carry values of a type of one's own.
///
/// | | the argument |
/// |---|---|
/// | a struct with named fields | a dictionary of them |
/// | a tuple struct of one field | that field |
/// | a tuple struct of several | a dictionary with the keys `0`, `1`, .. |
/// | a variant without fields, a unit struct | its name, as text |
/// | a variant with fields | a dictionary with the variant's name as its key, and with its fields as the value |
///
/// Each field must be an `ArgValue`, or say how it becomes one:
///
/// | attribute of a field | |
/// |---|---|
/// | `#[arg_value(display)]` | as text, by `Display` |
/// | `#[arg_value(debug)]` | as text, by `Debug` |
/// | `#[arg_value(rename = "key")]` | another key |
/// | `#[arg_value(skip)]` | left out |
///
/// A field that is no `ArgValue` takes `#[arg_value(display)]` or `#[arg_value(debug)]`. `#[arg_value(crate = path)]` on the type names this library, if the dependency has another name than `tracezero`.
///
/// ```
/// use tracezero::{ArgValue, instant};
///
/// #[derive(ArgValue)]
/// struct Request {
///     path: String,
///     #[arg_value(rename = "wait_ns")]
///     wait: std::time::Duration,
///     #[arg_value(debug)]
///     peer: Option<std::net::IpAddr>,
///     body: Body,
/// }
///
/// #[derive(ArgValue)]
/// enum Body {
///     Empty,
///     Bytes(usize),
/// }
///
/// let wait = std::time::Duration::from_micros(3);
/// let request = Request { path: "/".into(), wait, peer: None, body: Body::Bytes(7) };
/// instant!("http", "request", request);
/// instant!("http", "answer", body = Body::Empty);
/// ```
#[proc_macro_derive(ArgValue, attributes(arg_value))]
pub fn arg_value(input: TokenStream) -> TokenStream {
    syn::parse(input)
        .and_then(arg_value::derive)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}
