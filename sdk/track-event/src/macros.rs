//! The macros that users call: `span!`, `async_span!`, `instant!`, `begin!`, `end!` and `counter!`.

/// Begins a span on the current thread's track. The span ends when the returned guard is dropped.
///
/// The category is a string literal. The name is a string literal, or any expression whose value is
/// a string. After them, these may follow in any order:
///
/// | | |
/// |---|---|
/// | `name = value` | an argument; the value is any [`ArgValue`](crate::ArgValue) |
/// | `name = %value` | an argument, written as its [`Display`](std::fmt::Display) text |
/// | `name = ?value` | an argument, written as its [`Debug`](std::fmt::Debug) text |
/// | `name`, `%name`, `?name` | short for `name = name`, `name = %name`, `name = ?name` |
/// | `track: &track` | puts the span on another [`Track`](crate::Track); its guard may be sent to
/// another thread |
/// | `at: timestamp_ns` | the time of the event, if that is not now: nanoseconds on the trace
/// clock, as [`clock::now_ns`](tracezero_core::clock::now_ns) returns them |
/// | `flow: &flow` | a [`Flow`](crate::Flow) (an arrow between events) that passes through this
/// event |
/// | `last_flow: &flow` | a flow that ends at this event |
/// | `correlation: &id` | a [`CorrelationId`](crate::CorrelationId), which events share that belong
/// together: a [`Traceparent`](crate::Traceparent), a string or a `u64` |
/// | <code>fields: &#124;event&#124; ..</code> | a closure that sets fields of the
/// [`TrackEvent`](tracezero_core::protos::TrackEvent) message itself, such as extensions of your
/// own schema |
///
/// Guards may be dropped in any order, for example as fields of a struct. Slices on one track must
/// nest. So if a span ends before a span inside of it, the inner span is cut at that time and goes
/// on as a second slice.
///
/// While no session records the category, none of the expressions is evaluated, and the cost is one
/// relaxed load.
///
/// ```
/// use tracezero::span;
///
/// # let session = tracezero::InMemorySession::start()?;
/// let path = String::from("Cargo.toml");
/// let error = std::io::Error::other("no such luck");
/// {
///     let _span = span!("io", "read_file", path, bytes = 1234_u64, %error, "http.status" = 404);
///     let _attempt = span!("io", format!("attempt {}", 3));
///     // the work that is measured
/// } // both spans end here
/// # assert_eq!(session.finish().1.events, 4);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! span {
    ($category:literal, $name:literal $(, $($rest:tt)*)?) => {
        $crate::__parse!(span $category [literal $name] [] () [] [] [$($($rest)*)?,])
    };
    ($category:literal, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(span $category [dynamic $name] [] () [] [] [$($($rest)*)?,])
    };
    ($($wrong:tt)*) => {
        $crate::__wrong_event!(span $($wrong)*)
    };
}

/// Creates a span for a future; pass it to [`traced`](crate::TraceFuture::traced). It shows the
/// future as one slice from its first poll to its end, on a track of its own, and each poll as a
/// slice on the thread that polls.
///
/// The macro takes what [`span!`](crate::span) takes, except `at:`. Arguments, flows and fields go
/// to the future's own slice.
///
/// The future's track is a child of the track that `track: &track` names. Without `track:`, it is a
/// child of the track of the future that is being polled when the macro runs. If no future is being
/// polled, it is a child of the process's track.
///
/// The expressions are evaluated when the macro runs. So the future does not borrow from them. If
/// no session records the category when the macro runs, the expressions are not evaluated. A
/// session that starts later then shows the future without arguments, as a child of the future that
/// polls it. If the name is an expression, its source text is the name.
///
/// ```
/// use tracezero::{TraceFuture as _, async_span};
///
/// # async fn receive(_: u32) {}
/// # fn spawn(_: impl Future + Send + 'static) {}
/// let (peer, number) = (String::from("10.0.0.7"), 3);
/// spawn(receive(number).traced(async_span!("net", format!("peer {number}"), peer)));
/// ```
#[macro_export]
macro_rules! async_span {
    ($category:literal, $name:literal $(, $($rest:tt)*)?) => {
        $crate::__parse!(async_span $category [literal $name] [] () [] [] [$($($rest)*)?,])
    };
    ($category:literal, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(async_span $category [dynamic $name] [] () [] [] [$($($rest)*)?,])
    };
    ($($wrong:tt)*) => {
        $crate::__wrong_event!(async_span $($wrong)*)
    };
}

/// Records an event at one point in time, on the current thread's track. Takes what
/// [`span!`](crate::span) takes.
///
/// ```
/// use tracezero::instant;
///
/// # let session = tracezero::InMemorySession::start()?;
/// instant!("app", "config_loaded");
/// instant!("app", "retry", attempt = 3, reason = "timeout");
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! instant {
    ($category:literal, $name:literal $(, $($rest:tt)*)?) => {
        $crate::__parse!(instant $category [literal $name] [] () [] [] [$($($rest)*)?,])
    };
    ($category:literal, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(instant $category [dynamic $name] [] () [] [] [$($($rest)*)?,])
    };
    ($($wrong:tt)*) => {
        $crate::__wrong_event!(instant $($wrong)*)
    };
}

/// Begins a slice that [`end!`](crate::end) ends, for work that is not a scope. Takes what
/// [`span!`](crate::span) takes.
///
/// `end!` ends the innermost of the slices on the track that were begun by `begin!`. If spans
/// inside of this slice are still open, they are cut at its end and go on as further slices. Where
/// the work is a scope, prefer `span!`: its guard ends the span on every way out.
///
/// ```
/// use tracezero::{begin, end};
///
/// struct Download;
///
/// impl Download {
///     fn on_start(&self, url: &str) {
///         begin!("net", "download", url = url);
///     }
///
///     fn on_done(&self, bytes: u64) {
///         end!("net", bytes = bytes);
///     }
/// }
/// # let session = tracezero::InMemorySession::start()?;
/// # Download.on_start("/index.html");
/// # Download.on_done(1234);
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! begin {
    ($category:literal, $name:literal $(, $($rest:tt)*)?) => {
        $crate::__parse!(begin $category [literal $name] [] () [] [] [$($($rest)*)?,])
    };
    ($category:literal, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(begin $category [dynamic $name] [] () [] [] [$($($rest)*)?,])
    };
    ($($wrong:tt)*) => {
        $crate::__wrong_event!(begin $($wrong)*)
    };
}

/// Ends a slice, and adds arguments that are known only at its end, such as a result.
///
/// The first argument is one of:
///
/// - The guard of a [`span!`](crate::span). Ends this span, as dropping the guard does.
/// - The span that [`Traced::end_with`](crate::Traced::end_with) passes when a future is done. Ends
///   the span of the future.
/// - A category. Ends the innermost open slice that [`begin!`](crate::begin) began on the track. On
///   the track of the current thread, each session ends the innermost slice that it saw begin,
///   because a session may have started between two begins.
///
/// If spans inside of the slice are still open, they are cut at its end and go on as further
/// slices.
///
/// The arguments of [`span!`](crate::span) may follow; `track:` only after a category. If the first
/// argument is a span, the other arguments are evaluated only if a session saw the span begin and
/// still records.
///
/// For a function with the attribute `trace`, use the attribute's options `result` and `error`
/// instead.
///
/// ```
/// use std::io;
/// use tracezero::{end, span};
///
/// fn read(path: &str) -> io::Result<String> {
///     let span = span!("io", "read", path);
///     let text = std::fs::read_to_string(path)?; // an error ends the span as it is
///     end!(span, bytes = text.len());
///     Ok(text)
/// }
/// # let session = tracezero::InMemorySession::start()?;
/// # read("Cargo.toml").unwrap();
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! end {
    ($category:literal, $name:literal $(, $($rest:tt)*)?) => {
        ::core::compile_error!(::core::concat!(
            "tracezero: `end!` takes no name: it ends the slice that `begin!` began last on the track; \
             remove ",
            ::core::stringify!($name)
        ))
    };
    ($category:literal $(, $($rest:tt)*)?) => {
        $crate::__parse!(end $category [literal] [] () [] [] [$($($rest)*)?,])
    };
    ($span:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(end_span "" [$span] [] () [] [] [$($($rest)*)?,])
    };
    ($($wrong:tt)*) => {
        ::core::compile_error!(
            "tracezero: `end!` takes the category of a slice that `begin!` began, `end!(\"io\")`, or the \
             guard of a span, `end!(span)`; arguments follow"
        )
    };
}

/// Records a value of a counter. The counter is given as a name, which stands for a counter of the
/// process, or as a [`CounterTrack`](crate::CounterTrack). `at: timestamp_ns` may follow, as in
/// [`span!`](crate::span).
///
/// Integers up to `i64::MAX` and floats are written exactly, and one counter may mix them. Larger
/// integers are written as the nearest float, because trace processor reads counters as floats. The
/// report counts the integers whose value this changes (see [`CounterValue`](crate::CounterValue)).
///
/// ```
/// use tracezero::counter;
///
/// # let session = tracezero::InMemorySession::start()?;
/// counter!("io", "open_files", 3);
/// counter!("io", "load", 0.75, at: tracezero::clock::now_ns());
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! counter {
    ($category:literal, $name:literal, $value:expr $(, at: $at:expr)? $(,)?) => {{
        $crate::__record!(@site __TRACEZERO_CALL_SITE $category [literal $name] []);
        match __TRACEZERO_CALL_SITE.active_slots() {
            0 => {}
            slots => {
                __TRACEZERO_CALL_SITE.counter(slots, &$crate::__placement!([literal] [] [$($at)?]), $value);
            }
        }
    }};
    ($category:literal, $track:expr, $value:expr $(, at: $at:expr)? $(,)?) => {{
        $crate::__record!(@site __TRACEZERO_CALL_SITE $category [dynamic] []);
        match __TRACEZERO_CALL_SITE.active_slots() {
            0 => {}
            slots => {
                let placement = $crate::__placement!([literal] [] [$($at)?]);
                __TRACEZERO_CALL_SITE.counter_on(slots, $track, &placement, $value);
            }
        }
    }};
    ($($wrong:tt)*) => {
        ::core::compile_error!(
            "tracezero: `counter!` takes a category as a literal, a name or a track, and a value, as in \
             `counter!(\"net\", \"open_sockets\", 7)`; `at: timestamp_ns` may follow"
        )
    };
}
