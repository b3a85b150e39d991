//! Spans, instants and counters for libraries. The application chooses what records them.
//!
//! A library depends on this package, which builds in a second and needs only the standard library.
//! While nothing records, a trace point costs one relaxed atomic load. If the application uses
//! `tracezero`, the library's events appear in its sessions, flight recorders and test captures,
//! beside the application's own events:
//!
//! ```
//! // The library.
//! fn read(path: &str) -> usize {
//!     let _span = tracezero_events::span!("mylib", "read", path);
//!     tracezero_events::instant!("mylib", "cache_miss", level = 2);
//!     tracezero_events::counter!("mylib", "open_files", 1);
//!     path.len()
//! }
//!
//! // The application.
//! let capture = tracezero::testing::capture();
//! read("Cargo.toml");
//! let trace = capture.finish();
//! trace.span("read").once().assert_arg("path", "Cargo.toml");
//! trace.instant("cache_miss").once().assert_inside("read").assert_arg("level", 2);
//! ```
//!
//! Two libraries may depend on different versions of this package. Events of both are recorded,
//! because every version passes its events on to the one package `tracezero-events-core`.
//!
//! # Plugins
//!
//! A shared library that is loaded at run time has its own copy of this package, to which nothing
//! is connected. The shared library passes the recorder of the host to [`connect`];
//! `tracezero::library_recorder` returns that recorder and has an example.
//!
//! # What only the application's macros can do
//!
//! An application that depends on `tracezero` uses the macros of that package. They are faster,
//! because they write events directly into the memory of the trace. They also support tracks,
//! flows, timestamps, futures and typed fields of the trace schema.
//!
//! Arguments of the macros of `tracezero` implement another trait, `tracezero::ArgValue`. If values
//! of a library's type should be arguments of both kinds of macros, the library gives access to the
//! parts of the type, or implements `Display`.
//!
//! To compile all trace points to nothing, build the program with `RUSTFLAGS="--cfg
//! tracezero_off"`.

mod macros; // the public macros
mod span; // the guard that ends a span

pub use span::Span;
pub use tracezero_events_core::{
    ConnectError, Dict, List, Number, Recorder, ToValue, Value, connect,
};

/// The macros expand to code that uses these items.
#[doc(hidden)]
pub mod __private {
    pub use tracezero_events_core::{
        __wrong_event, CallSite, Event, Kind, Number, OpenSpan, ToValue, Value,
    };

    /// False if the program is built without trace points (`--cfg tracezero_off`).
    pub const ENABLED: bool = !cfg!(tracezero_off);
}
