//! How the macros take their arguments apart.

/// Takes what follows category and name of an event, one part at a time, and hands all of it to
/// [`__record`](crate::__record) at the end:
///
/// `kind category [name] [names of arguments] (parts) [track] [time] [rest ..]`
///
/// Parts are nested pairs, as [`EventParts`](crate::EventParts) has them. For the kind
/// `end_span`, the guard stands in place of the name, and the category is empty.
#[doc(hidden)]
#[macro_export]
macro_rules! __parse {
    // The end, also after a comma too many.
    ($kind:ident $category:literal $name:tt [$($names:tt)*] $parts:tt $track:tt $at:tt [$(,)?]) => {
        $crate::__record!($kind $category $name [$($names)*] $parts $track $at)
    };

    // Where, when, and with what else.
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
    // A variable whose name is that of the argument, too.
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
             &flow`, `last_flow: &flow` and `fields: |event| ..` any number of times; this is \
             none of them: ",
            ::core::stringify!($($rest)*)
        ))
    };
}

/// The name of an argument, as a string.
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

/// The call site with what it records: see [`__parse`](crate::__parse).
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
        $crate::__record!(@site CALL_SITE $category $name $names);
        match CALL_SITE.active_slots() {
            0 => $crate::TrackSpan::none(),
            slots => match ($track, $crate::__placement!($name [] $at), &$parts) {
                (track, placement, parts) => {
                    CALL_SITE.span_on_track(slots, track, &placement, parts)
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
    // The guard knows which sessions have seen the begin, so nothing asks the call site whether it is on.
    (end_span $category:literal [$span:expr] $names:tt $parts:tt [] $at:tt) => {{
        $crate::__record!(@site CALL_SITE $category [] $names);
        let span = $span;
        if span.is_recorded() {
            match ($crate::__placement!([literal] [] $at), &$parts) {
                (placement, parts) => span.end_with(&CALL_SITE, &placement, parts),
            }
        }
    }};
    (end_span $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt) => {
        ::core::compile_error!(
            "tracezero: a span ends on the track that it began on; `track:` cannot change it"
        )
    };

    // Names of its own at the end: those of `End` in `async_span.rs`.
    (async_span $category:literal [literal $name:literal] [$($names:tt)*] $parts:tt $track:tt []) => {{
        $crate::__record!(@site CALL_SITE $category [literal $name]
            [$($names)* "cancelled", "panicked"]);
        match CALL_SITE.active_slots() {
            0 => $crate::AsyncSpan::new(&CALL_SITE),
            _ => match ($crate::__placement!([literal $name] $track []), &$parts) {
                (placement, parts) => {
                    $crate::AsyncSpan::recorded(&CALL_SITE, &placement, parts)
                }
            },
        }
    }};
    (async_span $category:literal [dynamic $name:expr] [$($names:tt)*] $parts:tt $track:tt []) => {{
        $crate::__record!(@site CALL_SITE $category [dynamic]
            [$($names)* "cancelled", "panicked"]);
        // What it is called in a session that starts later: the name is made no more.
        static LATER: $crate::CallSite = $crate::CallSite::new(
            $category,
            ::core::stringify!($name),
            &["cancelled", "panicked"],
        );
        match CALL_SITE.active_slots() {
            0 => $crate::AsyncSpan::new(&LATER),
            _ => match ($crate::__placement!([dynamic $name] $track []), &$parts) {
                (placement, parts) => {
                    $crate::AsyncSpan::recorded(&CALL_SITE, &placement, parts)
                }
            },
        }
    }};
    (async_span $category:literal $name:tt $names:tt $parts:tt $track:tt $at:tt) => {
        ::core::compile_error!(
            "tracezero: the span of a future begins when that is polled first; `at:` cannot change it"
        )
    };

    (@usual $method:ident $category:literal [literal $name:literal] $names:tt $parts:tt
        else $idle:expr) => {{
        $crate::__record!(@site CALL_SITE $category [literal $name] $names);
        match ::core::num::NonZeroU32::new(CALL_SITE.active_slots()) {
            ::core::option::Option::None => $idle,
            ::core::option::Option::Some(slots) => match &$parts {
                parts => CALL_SITE.$method(slots, parts),
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
        $crate::__record!(@site CALL_SITE $category $name $names);
        match CALL_SITE.active_slots() {
            0 => $idle,
            slots => match ($crate::__placement!($name $track $at), &$parts) {
                (placement, parts) => CALL_SITE.$method(slots, &placement, parts),
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

/// What was said of name, track and time: see [`__parse`](crate::__parse).
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

/// The first of two blocks; the second one in a program that is built without trace points.
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
