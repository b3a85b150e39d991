//! Spans and events of the `tracing` crate as track events.
//!
//! `tracing` calls the layer back: a span is created, entered and left any number of times on any
//! threads, and closed. Each time that a thread is in it is a slice on the thread's track. A span that
//! is entered more than once is asynchronous: it has a slice on a track of its own besides, from the
//! first enter to the close, and a flow joins them.

mod layer; // what `tracing` calls, and what becomes of a span
mod life; // the slice of an asynchronous span on a track of its own
mod entered; // spans that each thread is in
mod spans; // spans that are open
mod first_enter; // when a span was entered first
mod event; // events
mod fields; // values as arguments
mod site; // call sites of `tracing`
mod log_record; // those of `log`
mod levels; // the table that they and the spans are found in

pub use layer::{AsyncSpans, TracingLayer, layer};
