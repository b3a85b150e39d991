//! Records spans and events of the `tracing` crate as track events.
//!
//! `tracing` calls the layer when a span is created, entered, left and closed. Any thread can enter
//! and leave a span, any number of times. Each time between an enter and the matching exit is a
//! slice on the thread's track. A span that is entered more than once is asynchronous: it also has
//! a slice on a track of its own, from the first enter to the close. A flow joins these slices.

mod layer; // callbacks for `tracing`
mod async_slice; // the slice of an asynchronous span on a track of its own
mod entered_spans; // the spans that each thread is in
mod spans; // the table of open spans
mod first_enter; // the first enter of a span
mod event; // records events
mod trace_context; // finds the W3C trace context of a span
mod fields; // converts field values to arguments
mod site; // call sites of `tracing`
mod log_record; // call sites of `log`
mod growing_table; // the hash table of call sites and spans

pub use layer::{AsyncSpans, TracingLayer, layer};
