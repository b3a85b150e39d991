//! The reader on traces of the SDK itself, and on events of other producers.

#[path = "reader/foreign.rs"]
mod foreign; // events in forms that the SDK does not write
#[path = "reader/own.rs"]
mod own; // events of the SDK's macros
