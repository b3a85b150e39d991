//! Spans, instants and counters for libraries, recorded by whatever the application has installed.
//!
//! A library depends on this package, which builds in a second and needs nothing but the standard library.
//! While nothing records, a trace point costs one relaxed load. If the application uses `tracezero`, the
//! events are in its sessions, flight recorders and test captures, beside the application's own:
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
//! trace.span("read").once().arg("path", "Cargo.toml");
//! trace.instant("cache_miss").once().inside("read").arg("level", 2);
//! ```
//!
//! Libraries may depend on different versions of this package: their events are recorded all the same, since all
//! versions meet in `tracezero-events-core`.
//!
//! # What only the application's macros can do
//!
//! An application that depends on `tracezero` uses that package's own macros. They write events straight into
//! the memory of the trace, which takes less time, and they know tracks, flows, times, futures and fields of a
//! schema. Their arguments are of another trait, `tracezero::ArgValue`: a library whose types are to be arguments of both
//! offers their parts, or `Display`.
//!
//! Whoever builds the program compiles all trace points to nothing by `RUSTFLAGS="--cfg tracezero_off"`.

mod macros; // what users type
mod span; // the guard that ends a span

pub use span::Span;
pub use tracezero_events_core::{Dict, List, Number, ToValue, Value};

/// What the macros expand to.
#[doc(hidden)]
pub mod __private {
    pub use tracezero_events_core::{CallSite, Event, Kind, Number, OpenSpan, ToValue, Value};

    /// Whether trace points are compiled at all.
    pub const ENABLED: bool = !cfg!(tracezero_off);
}
