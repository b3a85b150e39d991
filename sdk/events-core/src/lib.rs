//! Where libraries that record events meet the recorders that an application has installed.
//!
//! ```text
//!   library: tracezero-events 0.1 ---.                        .---> tracezero 0.1
//!                                     >--- CallSite, Event ---<
//!   library: tracezero-events 0.2 ---'    (this package)      '---> another recorder
//! ```
//!
//! A program contains this package once, whatever versions of the packages above and below it are in the
//! program: so the interface is frozen. A later version may add to it and takes nothing away.
//!
//! Libraries use the macros of `tracezero-events`. Applications use `tracezero`, which connects itself
//! when the first session starts.
//!
//! A [`CallSite`] registers itself when a thread reaches it first. Each [`Recorder`] gets to know each call
//! site once, answers with a [`SiteRecorder`], and switches the call site on and off by its [`Switch`].
//! While all recorders have it switched off, a call site costs one relaxed load.

mod call_site; // one place in the code, and what records it
mod event; // what an event carries
mod registry; // which call sites and recorders there are
mod value; // values of arguments and counters

pub use call_site::{CallSite, Kind, OpenSpan, RECORDERS_MAX, Recorder, SiteRecorder, Switch};
pub use event::Event;
pub use registry::{ConnectError, connect};
pub use value::{Dict, List, Number, ToValue, Value};
