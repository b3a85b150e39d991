//! The public macros, and the internal macros that they expand to.

/// Begins a span on the track of this thread. The span ends where the returned guard is dropped.
///
/// The category is a string literal. The name is a string literal or any expression that is a
/// string. Arguments follow:
///
/// | | |
/// |---|---|
/// | `name = value` | any [`ToValue`](crate::ToValue) |
/// | `name = %value` | as text, by [`Display`](std::fmt::Display) |
/// | `name = ?value` | as text, by [`Debug`](std::fmt::Debug) |
/// | `name`, `%name`, `?name` | short for `name = name`, `name = %name`, `name = ?name` |
///
/// While nothing records the category, no argument is evaluated, and the cost is one relaxed atomic
/// load.
///
/// ```
/// use tracezero_events::span;
///
/// let path = String::from("Cargo.toml");
/// let error = std::io::Error::other("no such luck");
/// let _span = span!("mylib", "read_file", path, bytes = 1234_u64, %error, "http.status" = 404);
/// let _attempt = span!("mylib", format!("attempt {}", 3));
/// ```
#[macro_export]
macro_rules! span {
    ($category:literal, $name:literal $(, $($rest:tt)*)?) => {
        $crate::__parse!(span $category [literal $name] [] [] [$($($rest)*)?,])
    };
    ($category:literal, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(span $category [dynamic $name] [] [] [$($($rest)*)?,])
    };
    ($($wrong:tt)*) => {
        $crate::__private::__wrong_event!(span $($wrong)*)
    };
}

/// Ends a span that [`span!`](crate::span) began, and adds arguments that are known only at its
/// end.
///
/// ```
/// use tracezero_events::{end, span};
///
/// let span = span!("mylib", "read_file");
/// let text = "what was read";
/// end!(span, bytes = text.len());
/// ```
#[macro_export]
macro_rules! end {
    ($span:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(end "" [dynamic $span] [] [] [$($($rest)*)?,])
    };
}

/// Records an event without duration on the track of this thread. Takes a category, a name and
/// arguments like [`span!`](crate::span).
///
/// ```
/// use tracezero_events::instant;
///
/// instant!("mylib", "retry", attempt = 3, reason = "timeout");
/// ```
#[macro_export]
macro_rules! instant {
    ($category:literal, $name:literal $(, $($rest:tt)*)?) => {
        $crate::__parse!(instant $category [literal $name] [] [] [$($($rest)*)?,])
    };
    ($category:literal, $name:expr $(, $($rest:tt)*)?) => {
        $crate::__parse!(instant $category [dynamic $name] [] [] [$($($rest)*)?,])
    };
    ($($wrong:tt)*) => {
        $crate::__private::__wrong_event!(instant $($wrong)*)
    };
}

/// Records the value of a counter: any number. Category and name are string literals. The value is
/// evaluated only while something records the category.
///
/// ```
/// use tracezero_events::counter;
///
/// counter!("mylib", "open_files", 3);
/// counter!("mylib", "load", 0.75);
/// ```
#[macro_export]
macro_rules! counter {
    ($category:literal, $name:literal, $value:expr $(,)?) => {{
        static __TRACEZERO_CALL_SITE: $crate::__private::CallSite =
            $crate::__private::CallSite::new(
                $crate::__private::Kind::Counter,
                $category,
                $name,
                &[],
            );
        if $crate::__private::ENABLED {
            match __TRACEZERO_CALL_SITE.active() {
                0 => {}
                active => __TRACEZERO_CALL_SITE.count(
                    active,
                    $crate::__private::Number::from($value),
                    &$crate::__private::Event::new(&[]),
                ),
            }
        }
    }};
    ($($wrong:tt)*) => {
        ::core::compile_error!(
            "tracezero: `counter!` takes a category and a name as literals, and a value, as in \
             `counter!(\"mylib\", \"open_files\", 7)`"
        )
    };
}

/// Returns whether anything records a category. Use it to skip work that only serves an event.
///
/// ```
/// use tracezero_events::{enabled, instant};
///
/// if enabled!("mylib") {
///     let longest = ["a", "bb"].iter().map(|name| name.len()).max();
///     instant!("mylib", "names", longest);
/// }
/// ```
#[macro_export]
macro_rules! enabled {
    ($category:literal) => {{
        static __TRACEZERO_CALL_SITE: $crate::__private::CallSite =
            $crate::__private::CallSite::new($crate::__private::Kind::Switch, $category, "", &[]);
        $crate::__private::ENABLED && __TRACEZERO_CALL_SITE.active() != 0
    }};
}

/// Splits the arguments of an event into names and values, one argument per expansion. Passes them
/// to [`__record`](crate::__record) at the end.
///
/// Takes `kind category [name] [names of arguments so far] [values so far] [remaining arguments]`.
#[doc(hidden)]
#[macro_export]
macro_rules! __parse {
    // No arguments are left, but perhaps a trailing comma.
    ($kind:ident $category:literal $name:tt $names:tt $values:tt [$(,)?]) => {
        $crate::__record!($kind $category $name $names $values)
    };
    ($kind:ident $category:literal $name:tt [$($names:tt)*] [$($values:tt)*]
        [$arg:tt = %$value:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name [$($names)* $crate::__arg_name!($arg),]
            [$($values)* $crate::__private::Value::Display(&&$value),] [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt [$($names:tt)*] [$($values:tt)*]
        [$arg:tt = ?$value:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name [$($names)* $crate::__arg_name!($arg),]
            [$($values)* $crate::__private::Value::Debug(&&$value),] [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt [$($names:tt)*] [$($values:tt)*]
        [$arg:tt = $value:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name [$($names)* $crate::__arg_name!($arg),]
            [$($values)* $crate::__private::ToValue::to_value(&$value),] [$($rest)*])
    };
    // The short forms: the argument has the name of a variable.
    ($kind:ident $category:literal $name:tt $names:tt $values:tt [%$arg:ident, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names $values [$arg = %$arg, $($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $values:tt [?$arg:ident, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names $values [$arg = ?$arg, $($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $values:tt [$arg:ident, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names $values [$arg = $arg, $($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $values:tt [$($rest:tt)*]) => {
        ::core::compile_error!(::core::concat!(
            "tracezero: an argument is `name = value`, `name = %display`, `name = ?debug`, or the \
             name of a variable; this is none of them: ",
            ::core::stringify!($($rest)*)
        ))
    };
}

/// Turns the name of an argument into a string literal.
#[doc(hidden)]
#[macro_export]
macro_rules! __arg_name {
    ($name:literal) => {
        $name
    };
    ($name:ident) => {
        ::core::stringify!($name)
    };
}

/// Declares the call site and records the event, from the output of [`__parse`](crate::__parse).
#[doc(hidden)]
#[macro_export]
macro_rules! __record {
    (span $category:literal $name:tt $names:tt $values:tt) => {
        $crate::__record!(@site Span __TRACEZERO_CALL_SITE $category $name $names
            if $crate::__private::ENABLED {
                match __TRACEZERO_CALL_SITE.active() {
                    0 => $crate::Span::none(),
                    active => match &$crate::__record!(@event $name $values) {
                        event => $crate::Span::new(__TRACEZERO_CALL_SITE.begin(active, event)),
                    },
                }
            } else {
                $crate::Span::none()
            })
    };
    (instant $category:literal $name:tt $names:tt $values:tt) => {
        $crate::__record!(@site Instant __TRACEZERO_CALL_SITE $category $name $names
            if $crate::__private::ENABLED {
                match __TRACEZERO_CALL_SITE.active() {
                    0 => {}
                    active => match &$crate::__record!(@event $name $values) {
                        event => __TRACEZERO_CALL_SITE.instant(active, event),
                    },
                }
            })
    };
    // The guard knows which recorders have begun the span, so the call site's mask is not loaded.
    (end $category:literal [dynamic $span:expr] $names:tt $values:tt) => {
        $crate::__record!(@site End __TRACEZERO_CALL_SITE $category [literal ""] $names {
            let span: $crate::Span = $span;
            if span.is_recorded() {
                match &$crate::__record!(@event [literal ""] $values) {
                    event => span.end_with(&__TRACEZERO_CALL_SITE, event),
                }
            }
        })
    };
    (@site $kind:ident $site:ident $category:literal [literal $name:literal] [$($names:tt)*] $($then:tt)*) => {{
        static $site: $crate::__private::CallSite =
            $crate::__private::CallSite::new(
                $crate::__private::Kind::$kind, $category, $name, &[$($names)*],
            );
        $($then)*
    }};
    (@site $kind:ident $site:ident $category:literal $name:tt [$($names:tt)*] $($then:tt)*) => {{
        static $site: $crate::__private::CallSite =
            $crate::__private::CallSite::new(
                $crate::__private::Kind::$kind, $category, "", &[$($names)*],
            );
        $($then)*
    }};
    (@event [literal $name:literal] [$($values:tt)*]) => {
        $crate::__private::Event::new(&[$($values)*])
    };
    (@event [dynamic $name:expr] [$($values:tt)*]) => {
        $crate::__private::Event::new(&[$($values)*]).named(&$name)
    };
}
