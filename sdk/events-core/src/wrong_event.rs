//! The compiler's message for an event without a category, or without a name.

/// Expands to a compile error that names the mistake in the category or the name of an event. The
/// macros of `tracezero-events` and of `tracezero` expand to this macro if no correct form matches.
#[doc(hidden)]
#[macro_export]
macro_rules! __wrong_event {
    ($macro:ident $name:literal $(,)?) => {
        ::core::compile_error!(::core::concat!(
            "tracezero: `",
            ::core::stringify!($macro),
            "!` takes a category and a name; if ",
            ::core::stringify!($name),
            " is the name, put a category before it, such as `",
            ::core::stringify!($macro),
            "!(\"app\", ",
            ::core::stringify!($name),
            ")`"
        ))
    };
    ($macro:ident $category:expr, $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "tracezero: the category `",
            ::core::stringify!($category),
            "` is not a literal; write it in place, as in `",
            ::core::stringify!($macro),
            "!(\"io\", ..)`: only the name may be an expression"
        ))
    };
    ($macro:ident $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "tracezero: `",
            ::core::stringify!($macro),
            "!` takes a category as a literal, a name, and then arguments, as in `",
            ::core::stringify!($macro),
            "!(\"io\", \"read\", bytes = 512)`"
        ))
    };
}
