//! What the reader says of traces: the SDK's own, and events as other producers write them.

#[path = "reader/foreign.rs"]
mod foreign; // events in forms that the SDK does not write
#[path = "reader/own.rs"]
mod own; // what macros recorded
