//! What users type.

/// Begins a span on the track of this thread; it ends where the returned guard is dropped.
///
/// The category is a literal; the name is a literal, or any expression that is a string. After them
/// come, in any order:
///
/// | | |
/// |---|---|
/// | `name = value` | an argument: any [`ArgValue`](crate::ArgValue) |
/// | `name = %value` | an argument as text, by [`Display`](std::fmt::Display) |
/// | `name = ?value` | an argument as text, by [`Debug`](std::fmt::Debug) |
/// | `name`, `%name`, `?name` | the same for a variable of that name |
/// | `track: &track` | draws it on another [`Track`](crate::Track); the guard may go to another thread |
/// | `at: timestamp_ns` | was then, and not now: nanoseconds on the trace clock, as of [`clock::now_ns`](tracezero_core::clock::now_ns) |
/// | `flow: &flow` | an arrow passes through it: see [`Flow`](crate::Flow) |
/// | `last_flow: &flow` | an arrow ends at it |
/// | <code>fields: &#124;event&#124; ..</code> | fields of the [`TrackEvent`](tracezero_core::protos::TrackEvent) itself, such as extensions of a schema of one's own |
///
/// Guards may be dropped in any order, as those in the fields of a struct are. If the span is not the
/// innermost one then, the spans inside go on in further pieces: slices on a track nest.
///
/// While no session records the category nothing is evaluated, and the cost is one relaxed load.
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
///     // what takes its time
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
}

/// A span for a future, which [`traced`](crate::TraceFuture::traced) gives it: a slice for its life, on
/// a track of its own, and slices for its polls. It takes what [`span!`](crate::span) takes, but for
/// `at:`; arguments, flows and fields go to the slice of its life.
///
/// That track lies under that of the future in whose poll the span is made, or under the one that
/// `track: &track` names. All of it is evaluated where the macro stands, and only while a session
/// records the category. So the future borrows nothing of it; and a session that starts later shows
/// the future without arguments, and under that one in which it is polled.
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
}

/// Records something that happens at one point in time, on the track of this thread. It takes what
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
}

/// Begins a slice that [`end!`](crate::end) ends: for what is no scope. It takes what
/// [`span!`](crate::span) takes.
///
/// An end belongs to the innermost slice on the track that this macro began; spans inside that are
/// still open go on in further pieces. Where a scope will do, a span's guard ends it on every way out.
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
}

/// Ends a slice, and adds arguments to it that are known only at its end, such as a result.
///
/// With the guard of a [`span!`](crate::span) at the first place, it ends that span, as dropping the
/// guard would. With a category, it ends the innermost slice on the track that
/// [`begin!`](crate::begin) began; on that of this thread, only one that the session has seen. Spans
/// inside that are still open go on in further pieces.
///
/// The arguments of [`span!`](crate::span) follow; `track:` needs a category in front. Nothing is evaluated
/// if no session has seen the begin of the span.
///
/// [`Traced::end_with`](crate::Traced::end_with) passes the span of a finished future; this macro ends it too.
/// Functions with the attribute `trace` take the options `result` and `error` instead.
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
    ($category:literal $(, $($rest:tt)*)?) => {
        $crate::__parse!(end $category [literal] [] () [] [] [$($($rest)*)?,])
    };
    ($span:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(end_span "" [$span] [] () [] [] [$($($rest)*)?,])
    };
}

/// Records the value of a counter: of the one with this name under the process, or of a
/// [`CounterTrack`](crate::CounterTrack). `at: timestamp_ns` may follow.
///
/// Integers up to `i64::MAX` and floats are in the trace as they are, also mixed on one counter. Larger
/// integers become the nearest float, as readers show all values; the report counts those that no float
/// is equal to ([`CounterValue`](crate::CounterValue)).
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
        $crate::__record!(@site CALL_SITE $category [literal $name] []);
        match CALL_SITE.active_slots() {
            0 => {}
            slots => {
                CALL_SITE.counter(slots, &$crate::__placement!([literal] [] [$($at)?]), $value);
            }
        }
    }};
    ($category:literal, $track:expr, $value:expr $(, at: $at:expr)? $(,)?) => {{
        $crate::__record!(@site CALL_SITE $category [dynamic] []);
        match CALL_SITE.active_slots() {
            0 => {}
            slots => {
                let placement = $crate::__placement!([literal] [] [$($at)?]);
                CALL_SITE.counter_on(slots, $track, &placement, $value);
            }
        }
    }};
}
