//! What the producers and the service of `tracezero` share. Applications depend on `tracezero`, which
//! re-exports what they name; the rest of this package is internal, and changes with every version.

// Who is who, and when.
pub mod clock; // the trace clock
pub mod ids; // numbers of sessions, producers, buffers, writers
// What producers and the service tell each other.
pub mod commit; // the message that hands chunks over
pub mod coordination; // which data sources record, and when they flush
pub mod shm; // the memory between them
// What the process does to the tracer.
pub mod forked_child; // what a child may not touch
pub mod own_thread; // threads that get no signals
pub mod process_hooks; // what is called at a fork, at the exit, and for a signal
pub mod reentry; // trace points in an allocator that is called by the tracer

pub mod protos; // the generated schema
