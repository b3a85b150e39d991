//! The parts that the producers, the service and the reader of `tracezero` share.
//!
//! Applications depend on `tracezero`, which re-exports the items that they name. The rest of this package is
//! internal, and changes with every version.

// Identity, time and values.
pub mod clock; // the trace clock
pub mod counter_value; // integers and floats
pub mod ids; // numbers of sessions, producers, buffers, writers
// The protocol between producers and the service.
pub mod commit; // the message that hands chunks over
pub mod coordination; // which data sources record, and when they flush
pub mod shm; // the memory between them
// Events of the process: forks, exits, signals, allocations.
pub mod forked_child; // what a child may not touch
pub mod own_thread; // threads that get no signals
pub mod process_hooks; // what is called at a fork, at the exit, and for a signal
pub mod reentry; // trace points in an allocator that is called by the tracer

pub mod protos; // the code generated of the schema
pub mod small_map; // a map for a handful of entries
