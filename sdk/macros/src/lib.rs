//! The attribute macro and the derive macro of [`tracezero`](https://docs.rs/tracezero). Use them
//! as `tracezero::trace` and `tracezero::ArgValue`; do not depend on this package directly.

#![forbid(unsafe_code)]

mod options; // the options inside the attribute `trace`
mod function; // the function below the attribute, and its expansion
mod arg_value; // the derive macro

use proc_macro::TokenStream;
use syn::Error;

use crate::function::Function;

/// Records each call of a function or method as a span. The span lasts until the call ends, also if
/// it ends with a `return`, a `?` or a panic.
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
/// # Options
///
/// All options may be left out. Each may be given once.
///
/// | option | sets | default |
/// |---|---|---|
/// | `"io"` as the first option, or `category = "io"` | the category | the name of the package that is compiled |
/// | `name = "Store::read"` | the span's name | the name of the function, without type or module |
/// | `args(..)` | arguments of the span | none |
/// | `result` | an argument `result`, added at the span's end: the value that the function returns | none |
/// | `error` | an argument `error`, added at the span's end if the function returns `Err`: the error | none |
/// | `crate = tracing_sdk` | the path of the crate `tracezero`, if the dependency has another name | `::tracezero` |
///
/// Arguments are written as for `tracezero::span!`:
///
/// | | |
/// |---|---|
/// | `key = expression` | the value with its type, which implements `ArgValue` |
/// | `key = %expression` | as text, by `Display` |
/// | `key = ?expression` | as text, by `Debug` |
/// | `key`, `%key`, `?key` | short for `key = key`, `key = %key`, `key = ?key`, where `key` is a parameter |
/// | `"http.status" = expression` | a key that is not an identifier |
///
/// The expressions are evaluated before the body runs, so they see the parameters, including
/// `self`, as the caller passed them. The expressions are evaluated only while a session records
/// the category. While no session does, the attribute costs one relaxed atomic load per call.
///
/// # Results
///
/// `result` and `error` have the same forms as arguments: `result` records the value with its type,
/// `%result` its `Display` text, `?result` its `Debug` text. In `result = expression`, the
/// expression can name `result`, which is a reference to the value. The same holds for `error`.
///
/// With `error`, the function must return a `Result`. With both options, `result` is the value in
/// `Ok`. A call that panics adds neither argument, nor does a future that is dropped before it is
/// done.
///
/// With these options, the body becomes a closure, or an `async` block that captures the parameters
/// that it uses. So the expression may use a parameter only if the body does not move it and the
/// result does not borrow it. `#[track_caller]` has no effect inside the body.
///
/// # Async functions
///
/// An `async fn` returns a future that is traced as by `tracezero::TraceFuture`. One slice, on a
/// track of its own, lasts from the first poll until the future is done or dropped. Each poll is a
/// slice on the thread that ran it. Arrows connect these slices. Traced futures that the function
/// awaits are drawn below its slice.
///
/// The arguments are evaluated in the first poll. While a session records the category, creating
/// the track allocates memory, and so do arguments.
///
/// If a function is not `async` itself but returns a future, the span ends when the function
/// returns, which is before the future runs.
///
/// # Functions that cannot be traced
///
/// A `const fn` cannot be traced, because the compiler may run it. A method without a body cannot
/// be traced either; write the attribute on its implementations.
#[proc_macro_attribute]
pub fn trace(options: TokenStream, item: TokenStream) -> TokenStream {
    let untraced = proc_macro2::TokenStream::from(item.clone());
    traced(options, item)
        // Keep the function as it was. Otherwise its callers would fail to compile, too.
        .unwrap_or_else(|error| [error.into_compile_error(), untraced].into_iter().collect())
        .into()
}

fn traced(options: TokenStream, item: TokenStream) -> syn::Result<proc_macro2::TokenStream> {
    let function: Function = syn::parse(item)?;
    function.traced(syn::parse(options)?)
}

/// Derives `ArgValue` for a struct or enum, so that its values can be arguments of events.
///
/// | type | recorded as |
/// |---|---|
/// | a struct with named fields | a dictionary of the fields |
/// | a tuple struct with one field | the field |
/// | a tuple struct with several fields | a dictionary with the keys `0`, `1`, .. |
/// | a variant without fields, a unit struct | the name, as text |
/// | a variant with fields | a dictionary with one entry: the variant's name, with the fields as its value |
///
/// Each field must be an `ArgValue`, or have one of these attributes:
///
/// | attribute of a field | the field is |
/// |---|---|
/// | `#[arg_value(display)]` | recorded as text, by `Display` |
/// | `#[arg_value(debug)]` | recorded as text, by `Debug` |
/// | `#[arg_value(rename = "key")]` | recorded under another key |
/// | `#[arg_value(skip)]` | left out |
///
/// If the dependency `tracezero` has another name, give its path with `#[arg_value(crate = path)]`
/// on the type.
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
