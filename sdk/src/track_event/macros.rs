//! What users type.

/// Begins a span on the track of this thread; it ends where the returned guard is dropped.
///
/// Category and name are literals; arguments are `name = value` with any
/// [`ArgValue`](crate::ArgValue). While no session records, nothing is evaluated, and the cost is
/// one relaxed load.
///
/// ```
/// use tracezero::span;
///
/// # let session = tracezero::InMemorySession::start()?;
/// let path = String::from("Cargo.toml");
/// {
///     let _span = span!("io", "read_file", path = path, bytes = 1234_u64);
///     // what takes its time
/// } // the span ends here
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! span {
    ($category:literal, $name:literal $(, $arg:ident = $value:expr)* $(,)?) => {{
        static CALL_SITE: $crate::track_event::CallSite =
            $crate::track_event::CallSite::new($category, $name, &[$(stringify!($arg)),*]);
        match CALL_SITE.active_slots() {
            0 => $crate::track_event::Span::none(),
            slots => $crate::__with_args!(
                [$($arg = $value),*] |args| CALL_SITE.begin_span(slots, args)
            ),
        }
    }};
}

/// Records something that happens at one point in time, on the track of this thread.
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
    ($category:literal, $name:literal $(, $arg:ident = $value:expr)* $(,)?) => {{
        static CALL_SITE: $crate::track_event::CallSite =
            $crate::track_event::CallSite::new($category, $name, &[$(stringify!($arg)),*]);
        match CALL_SITE.active_slots() {
            0 => {}
            slots => $crate::__with_args!(
                [$($arg = $value),*] |args| CALL_SITE.instant(slots, args)
            ),
        }
    }};
}

/// Records the value of a counter, on a track of its own under the process. Integers and floats
/// will do, as long as one counter keeps to one of them.
///
/// ```
/// use tracezero::counter;
///
/// # let session = tracezero::InMemorySession::start()?;
/// counter!("io", "open_files", 3);
/// counter!("io", "load", 0.75);
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[macro_export]
macro_rules! counter {
    ($category:literal, $name:literal, $value:expr $(,)?) => {{
        static CALL_SITE: $crate::track_event::CallSite =
            $crate::track_event::CallSite::new($category, $name, &[]);
        match CALL_SITE.active_slots() {
            0 => {}
            slots => CALL_SITE.counter(slots, $value),
        }
    }};
}

/// Evaluates the values of arguments once, and calls the last part with a function that writes
/// them. Without arguments that function is the same for all call sites, and so is the code.
#[doc(hidden)]
#[macro_export]
macro_rules! __with_args {
    ([] |$args:ident| $call:expr) => {{
        let $args = $crate::track_event::no_args;
        $call
    }};
    ([$($arg:ident = $value:expr),+] |$args:ident| $call:expr) => {
        match ($(&$value,)+) {
            ($($arg,)+) => {
                let $args = |args: &mut $crate::track_event::Args<'_, '_>| {
                    $(args.add($arg);)+
                };
                $call
            }
        }
    };
}
