//! Tests on what code traces.

// How a trace is captured.
mod recording; // the session of a capture
mod capture; // captures, and the threads that are attached to them
// What can be asked of it.
mod trace; // a trace in memory
mod contents; // what is in it, put together from its records
mod event; // a span or an instant
mod counter; // a counter
mod query; // questions about the spans or instants of a name
mod condition; // what can be asked of one
mod failure; // what a failed assertion shows

pub use capture::{Attached, Capture, CaptureHandle, CapturedFuture, capture};
pub use counter::Counter;
pub use event::Event;
pub use query::{Found, Query};
pub use trace::Trace;

pub use crate::reader::Value;
