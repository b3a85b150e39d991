//! The service: takes commits from producers, owns the trace buffers, and turns their contents into
//! traces.
//!
//! The service consists of two halves that share the buffers:
//!
//! ```text
//!  producers   commit                  set up, start, stop, flush           owners of sessions
//!     |   '----------.                .--------------------------.              |
//!     |      +-------v--------+  allow, revoke, scrape  +--------+--------+     |
//!     |      | ProducerLink   |<------------------------|     Control     |<----'
//!     |      +-------+--------+                         | sessions,timers |
//!     |   chunks     |                                  +--------+--------+
//!     |      +-------v--------+                 service packets  |
//!     |      | CentralBuffer  |-----> TraceReader <--------------'
//!     |      +----------------+            '--> trace, file
//! ```
//!
//! Chunks take the left side. A commit is a function call that finds the target buffer, copies the
//! chunk and frees it. It needs no thread, system call or queue, and does not take the service's
//! lock.
//!
//! Requests that configure and end sessions take the right side. They work under one lock
//! (`control`), which is never held during a call to a producer or an owner (`calls`). The service
//! asks an `environment` for the time, and timers run when `run_due_timers` is called. So tests
//! control time.
//!
//! Locks are taken in this order: the reader of a session, `control`, a producer link, a buffer
//! (see `calls.rs`). `scenarios/stress.rs` runs all of this at once from many threads.

// Data: chunks in, packets out.
pub mod trace_buffer; // the central ring: takes chunks, returns whole packets
mod reader_lag; // how far the reader of a buffer is behind, and when writers wait for it
mod buffer_counts; // packet counts over the trace buffers of a buffer
mod state_log; // the states that a ring keeps, in crash files
mod folded_state; // what a ring keeps of the packets that it overwrites
mod buffer_states; // the states of a buffer, or of a clone
mod central_buffer; // a trace buffer in use: its writers and its reader
mod lent_memory; // the shared memory of a producer
mod producer_link; // the buffers that a producer may write to
mod packet_validator; // checks packets of writers before they go into a trace
mod event_run; // frames runs of events of the usual form
mod packet_framer; // turns packets of writers into packets of a trace
mod compression; // compresses a batch of packets into one packet
mod trace_file; // a file that one session at a time may write to
mod file_end; // why a file ends before its trace
mod sequence_account; // what became of the packets of a sequence
mod trace_stats; // statistics
mod segment_store; // where segments go
mod segment_accounts; // the accounts of segments
mod trace_output; // the file that a trace is streamed into
mod read_positions; // how far sequences were read, for a recovery
mod announced_states; // which states a trace has
mod trace_reader; // reads the buffers of a session as a trace
// State: what exists, and what is to be done.
mod limit_log; // which producers have reached a limit, for a log
mod environment; // clocks, random numbers and the log
mod error; // why a session cannot start or cannot be cloned
mod recording; // a configuration with target buffers resolved and patterns compiled
mod trigger_history; // triggers that were hit
mod lifecycle_events; // events in the life of a session, which its trace reports
mod extension_descriptors; // schemas of data sources
mod instance; // a data source in a session
mod pending_flush; // a flush that is not complete
mod calls; // calls to producers and owners of sessions
mod timers; // timers of sessions
mod phase; // the phases of a session
mod tracing_session; // the state of one session
mod context; // the state that a session's methods work with, and their effects
mod pending_clone; // a clone that is not complete
mod control; // the state of the service, under one lock
// Methods that change the state, one subject per file.
mod limits; // what other sessions forbid a session to do
mod data_sources; // the data sources that producers offer
mod instances; // data sources in sessions
mod flush; // flushes and scrapes
mod triggers; // events that start, end or clone sessions
mod lifecycle; // sessions from configuration to end
mod session_clone; // clones of sessions
mod concurrent_sessions; // events that tell sessions of each other
// Packets and reports that the service itself makes.
mod sequence_accounts; // collects the accounts of sequences
mod session_stats; // collects statistics
mod service_packets; // packets that the service writes into traces
mod service_state; // lists producers and sessions
// Requests to the service.
mod service; // its public methods, which lock the state
mod producer_endpoint; // requests of producers
mod reading; // reading a trace: packets of writers and of the service
mod streaming; // streaming a trace into a file
mod segments; // streaming a trace into a row of files
mod crash_preamble; // what a recovered trace begins with
mod recovered_states; // the states that a ring had kept in crash files
mod recovery; // a trace of what a dead process left behind
mod requested; // which data sources a session asks for, and whether a producer offers them
#[cfg(test)]
mod scenarios; // tests of what the service does for producers and owners of sessions

pub use self::central_buffer::CentralBuffer;
pub use self::control::Limits;
pub use self::environment::{ClockReading, Environment, Machine};
pub use self::error::{Refusal, SessionError};
pub use self::file_end::FileEnd;
pub use self::folded_state::StateStats;
pub use self::lent_memory::{LentMemory, MemoryToCome};
pub use self::lifecycle::SessionRequest;
pub use self::limit_log::{LimitReached, ProducerLimit};
pub use self::packet_framer::{ReadCounts, SERVICE_SEQUENCE_ID, read_as_trace};
pub use self::pending_clone::{CloneRequest, CloneSource};
pub use self::pending_flush::FlushOutcome;
pub use self::phase::State;
pub use self::producer_endpoint::{ConnectRequest, ProducerEndpoint};
pub use self::producer_link::VIOLATIONS_MAX;
pub use self::recording::Recording;
pub use self::recovered_states::{DamagedStates, RecoveredStates};
pub use self::recovery::{
    Preamble, RecordingState, RecoveredBuffer, RecoveredCounts, recording_id, write_recovered,
};
pub use self::requested::RequestedDataSources;
pub use self::segment_store::{EndedSegment, SegmentStore};
pub use self::segments::{OlderSegment, SegmentProgress};
pub use self::sequence_account::SequenceAccount;
pub use self::service::Service;
pub use self::service_packets::VERSION;
pub use self::service_state::{
    InstanceSummary, ProducerState, ServiceState, SessionState, SessionSummary,
};
pub use self::streaming::FileProgress;
pub use self::trace_file::TraceFile;
pub use self::trace_output::TraceOutput;
pub use self::trace_stats::{TraceStats, WriterStats};
pub use self::tracing_session::SessionOwner;
pub use self::trigger_history::ReceivedTrigger;
pub use tracezero_config::LockdownMode;
