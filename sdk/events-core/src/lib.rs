//! The interface between libraries that emit events and the recorders that an application installs.
//!
//! ```text
//!   library: tracezero-events 0.1 ---.                        .---> tracezero 0.1
//!                                     >--- CallSite, Event ---<
//!   library: tracezero-events 0.2 ---'    (this package)      '---> another recorder
//! ```
//!
//! A program may contain several versions of the packages on either side, but only one version of
//! this package. So the interface is frozen: later versions may add to it, and remove nothing.
//!
//! Libraries use the macros of `tracezero-events`. Applications use `tracezero`, which connects its
//! recorder when the first session starts.
//!
//! Each use of a macro is a [`CallSite`]. It registers itself when a thread reaches it for the
//! first time. Then each [`Recorder`] returns a [`SiteRecorder`] for it, and from then on turns the
//! call site on and off with a [`Switch`]. While all recorders have it turned off, a call site
//! costs one relaxed atomic load.

mod call_site; // call sites, recorders, switches
mod event; // the data of one event
mod registry; // lists of all call sites and recorders
mod value; // values of arguments and counters
mod wrong_event; // the compiler's message for a wrong call of an event's macro

pub use call_site::{CallSite, Kind, OpenSpan, RECORDERS_MAX, Recorder, SiteRecorder, Switch};
pub use event::Event;
pub use registry::{ConnectError, connect};
pub use value::{Dict, List, Number, ToValue, Value};
