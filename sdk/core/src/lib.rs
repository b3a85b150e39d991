//! The code that the producers, the service and the reader of `tracezero` share.
//!
//! Applications depend on `tracezero`, which re-exports the items that they need. All other items
//! of this package are internal, and may change with every version.

// Identity, time and values.
pub mod clock; // the trace clock
pub mod counter_value; // values of counters: integers and floats
pub mod ids; // ids of sessions, producers, buffers, writers
pub mod attributes; // which machine, boot, service and version a trace comes from
// Memory and files that survive the process.
pub mod crash_files; // shared memory and trace buffers in files
pub mod file_memory; // mapped bytes and words
mod fork_guard; // a forked child gets private pages, and closes connections
// The protocol between producers and the service.
pub mod commit; // the message by which a producer hands over chunks
pub mod coordination; // starting, stopping and flushing data sources
pub mod shm; // the shared memory
// Events of the process: forks, exits, signals, allocations.
pub mod forked_child; // a forked child stops tracing
pub mod inherited_descriptor; // descriptors that the program that started this one has left open
pub mod own_attributes; // the attributes of this process
pub mod own_process; // what this process is called
pub mod own_thread; // threads that get no signals
pub mod process_hooks; // functions to call at a fork, at the exit, and for a signal
pub mod received_file; // files that another process has sent
pub mod reentry; // trace points that run inside of the tracer, as in an allocator

pub mod packet_content; // what packets count as: events, data, descriptions
pub mod protos; // code generated from the schema
pub mod small_map; // a map for a handful of entries
