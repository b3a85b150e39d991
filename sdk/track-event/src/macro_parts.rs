//! The parser of the macros' arguments.

/// Parses what follows the category and the name of an event, one part per step, and finally passes
/// all parts to [`__record`](crate::__record). The state of each step is:
///
/// `kind category [name] [names of arguments] (parts) [track] [time] [rest ..]`
///
/// `parts` are nested pairs, as [`EventParts`](crate::EventParts) describes them. For the kind
/// `end_span`, the guard takes the place of the name, and the category is empty.
#[doc(hidden)]
#[macro_export]
macro_rules! __parse {
    // Nothing is left, except perhaps a trailing comma.
    ($kind:ident $category:literal $name:tt [$($names:tt)*] $parts:tt $track:tt $at:tt [$(,)?]) => {
        $crate::__record!($kind $category $name [$($names)*] $parts $track $at)
    };

    // Track, time, flows and fields.
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt [] $at:tt
        [track: $track:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names $parts [$track] $at [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt []
        [at: $at:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names $parts $track [$at] [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        [flow: $flow:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names
            ($parts, $crate::Through($flow)) $track $at [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        [last_flow: $flow:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names
            ($parts, $crate::EndOf($flow)) $track $at [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        [correlation: $id:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names
            ($parts, $crate::Correlated($id)) $track $at [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        [fields: $fields:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names
            ($parts, $crate::Fields::new($fields)) $track $at [$($rest)*])
    };

    // Arguments.
    ($kind:ident $category:literal $name:tt [$($names:tt)*] $parts:tt $track:tt $at:tt
        [$arg:tt = %$value:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name [$($names)* $crate::__arg_name!($arg),]
            ($parts, $crate::Arg(&$crate::display(&$value)))
            $track $at [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt [$($names:tt)*] $parts:tt $track:tt $at:tt
        [$arg:tt = ?$value:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name [$($names)* $crate::__arg_name!($arg),]
            ($parts, $crate::Arg(&$crate::debug(&$value)))
            $track $at [$($rest)*])
    };
    ($kind:ident $category:literal $name:tt [$($names:tt)*] $parts:tt $track:tt $at:tt
        [$arg:tt = $value:expr, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name [$($names)* $crate::__arg_name!($arg),]
            ($parts, $crate::Arg(&$value)) $track $at [$($rest)*])
    };
    // A variable as shorthand: the argument has the variable's name.
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        [%$arg:ident, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names $parts $track $at
            [$arg = %$arg, $($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        [?$arg:ident, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names $parts $track $at
            [$arg = ?$arg, $($rest)*])
    };
    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        [$arg:ident, $($rest:tt)*]) => {
        $crate::__parse!($kind $category $name $names $parts $track $at
            [$arg = $arg, $($rest)*])
    };

    ($kind:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        [$($rest:tt)*]) => {
        ::core::compile_error!(::core::concat!(
            "tracezero: an argument is `name = value`, `name = %display`, `name = ?debug`, or the \
             name of a variable; `track: &track` and `at: timestamp_ns` may come once, `flow: \
             &flow`, `last_flow: &flow`, `correlation: &id` and `fields: |event| ..` any number of \
             times; this is none of them: ",
            ::core::stringify!($($rest)*)
        ))
    };
}

/// Expands to the name of an argument, as a string.
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

/// Expands to a `static` call site and the code that records the event. [`__parse`](crate::__parse)
/// produces the arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __record {
    (span $category:literal $name:tt $names:tt $parts:tt [] []) => {
        $crate::__record!(@usual span $category $name $names $parts
            else $crate::Span::none())
    };
    (span $category:literal $name:tt $names:tt $parts:tt [] $at:tt) => {
        $crate::__record!(@placed span_placed $category $name $names $parts [] $at
            else $crate::Span::none())
    };
    (span $category:literal $name:tt $names:tt $parts:tt [$track:expr] $at:tt) => {{
        $crate::__record!(@site __TRACEZERO_CALL_SITE $category $name $names);
        match __TRACEZERO_CALL_SITE.active_slots() {
            0 => $crate::TrackSpan::none(),
            slots => match ($track, $crate::__placement!($name [] $at), &$parts) {
                (track, placement, parts) => {
                    __TRACEZERO_CALL_SITE.span_on_track(slots, track, &placement, parts)
                }
            },
        }
    }};
    (instant $category:literal $name:tt $names:tt $parts:tt [] []) => {
        $crate::__record!(@usual instant $category $name $names $parts else {})
    };
    (instant $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt) => {
        $crate::__record!(@placed instant_placed $category $name $names $parts $track $at else {})
    };
    (begin $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt) => {
        $crate::__record!(@placed begin $category $name $names $parts $track $at else {})
    };
    (end $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt) => {
        $crate::__record!(@placed end $category $name $names $parts $track $at else {})
    };
    // The guard knows which sessions have seen the begin, so the call site's mask is not read.
    (end_span $category:literal [$span:expr] $names:tt $parts:tt [] $at:tt) => {{
        $crate::__record!(@site __TRACEZERO_CALL_SITE $category [] $names);
        let span = $span;
        if span.is_recorded() {
            match ($crate::__placement!([literal] [] $at), &$parts) {
                (placement, parts) => span.end_with(&__TRACEZERO_CALL_SITE, &placement, parts),
            }
        }
    }};
    (end_span $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt) => {
        ::core::compile_error!(
            "tracezero: a span ends on the track that it began on; remove `track:`"
        )
    };

    // The last two argument names are added for `End` in `async_span.rs`.
    (async_span $category:literal [literal $name:literal] [$($names:tt)*] $parts:tt $track:tt []) => {{
        $crate::__record!(@site __TRACEZERO_CALL_SITE $category [literal $name]
            [$($names)* "cancelled", "panicked"]);
        match __TRACEZERO_CALL_SITE.active_slots() {
            0 => $crate::AsyncSpan::new(&__TRACEZERO_CALL_SITE),
            _ => match ($crate::__placement!([literal $name] $track []), &$parts) {
                (placement, parts) => {
                    $crate::AsyncSpan::recorded(&__TRACEZERO_CALL_SITE, &placement, parts)
                }
            },
        }
    }};
    (async_span $category:literal [dynamic $name:expr] [$($names:tt)*] $parts:tt $track:tt []) => {{
        $crate::__record!(@site __TRACEZERO_CALL_SITE $category [dynamic]
            [$($names)* "cancelled", "panicked"]);
        // For a session that starts later: the name expression is not evaluated again, so its
        // source text is the name.
        static __TRACEZERO_LATER: $crate::CallSite = $crate::CallSite::new(
            $category,
            ::core::stringify!($name),
            &["cancelled", "panicked"],
        );
        match __TRACEZERO_CALL_SITE.active_slots() {
            0 => $crate::AsyncSpan::new(&__TRACEZERO_LATER),
            _ => match ($crate::__placement!([dynamic $name] $track []), &$parts) {
                (placement, parts) => {
                    $crate::AsyncSpan::recorded(&__TRACEZERO_CALL_SITE, &placement, parts)
                }
            },
        }
    }};
    (async_span $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt) => {
        ::core::compile_error!(
            "tracezero: the span of a future begins at its first poll; remove `at:`"
        )
    };

    (@usual $method:ident $category:literal [literal $name:literal] $names:tt $parts:tt
        else $idle:expr) => {{
        $crate::__record!(@site __TRACEZERO_CALL_SITE $category [literal $name] $names);
        match ::core::num::NonZeroU32::new(__TRACEZERO_CALL_SITE.active_slots()) {
            ::core::option::Option::None => $idle,
            ::core::option::Option::Some(slots) => match &$parts {
                parts => __TRACEZERO_CALL_SITE.$method(slots, parts),
            },
        }
    }};
    (@usual span $category:literal $name:tt $names:tt $parts:tt else $idle:expr) => {
        $crate::__record!(@placed span_placed $category $name $names $parts [] [] else $idle)
    };
    (@usual instant $category:literal $name:tt $names:tt $parts:tt else $idle:expr) => {
        $crate::__record!(@placed instant_placed $category $name $names $parts [] [] else $idle)
    };
    (@placed $method:ident $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt
        else $idle:expr) => {{
        $crate::__record!(@site __TRACEZERO_CALL_SITE $category $name $names);
        match __TRACEZERO_CALL_SITE.active_slots() {
            0 => $idle,
            slots => match ($crate::__placement!($name $track $at), &$parts) {
                (placement, parts) => __TRACEZERO_CALL_SITE.$method(slots, &placement, parts),
            },
        }
    }};

    (@site $site:ident $category:literal [literal $name:literal] [$($names:tt)*]) => {
        static $site: $crate::CallSite =
            $crate::CallSite::new($category, $name, &[$($names)*]);
    };
    (@site $site:ident $category:literal $name:tt [$($names:tt)*]) => {
        static $site: $crate::CallSite =
            $crate::CallSite::new($category, "", &[$($names)*]);
    };
}

/// Expands to a [`Placement`](crate::Placement): the name, track and time that the macro was given,
/// if any.
#[doc(hidden)]
#[macro_export]
macro_rules! __placement {
    ([literal $($name:literal)?] [$($track:expr)?] [$($at:expr)?]) => {
        $crate::Placement::new()$(.on($track))?$(.at($at))?
    };
    ([dynamic $name:expr] [$($track:expr)?] [$($at:expr)?]) => {
        $crate::Placement::new().named(&$name)$(.on($track))?$(.at($at))?
    };
}

/// Expands to the first block. In a program that is built with `cfg(tracezero_off)`, the second
/// definition expands to the second block.
#[doc(hidden)]
#[macro_export]
#[cfg(not(tracezero_off))]
macro_rules! __traced_async {
    ([$traced:block] [$($untraced:tt)*]) => {
        $traced
    };
}

#[doc(hidden)]
#[macro_export]
#[cfg(tracezero_off)]
macro_rules! __traced_async {
    ([$($traced:tt)*] [$untraced:block]) => {
        $untraced
    };
}
