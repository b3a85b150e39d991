//! The service: takes commits from producers, owns the central buffers, and turns them into
//! traces.
//!
//! Two halves that share the buffers:
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
//! Chunks take the left side: a commit is a function call that finds the producer's buffer, copies
//! the chunk and frees it; no thread, no system call, no queue, and not the service's lock. What
//! configures and ends sessions takes the right side, under one lock (`control`), and never holds
//! it while it calls anybody (`calls`). Time is asked of an `environment`, and timers run when
//! somebody lets them (`run_due_timers`): so tests have time in their hand.
//!
//! Locks are taken in this order: the reader of a session, `control`, a producer link, a buffer (`calls.rs`).
//! `scenarios/stress.rs` runs all of it at once from many threads.

// Data: chunks in, packets out.
pub mod trace_buffer; // the central ring: chunks in, whole packets out
mod reader_lag; // how far its reader is behind, and who waits for that
mod central_buffer; // a ring in use: who writes to it, who reads it
mod producer_link; // what a producer may write to
mod packet_validator; // what writers may put into a trace
mod event_run; // events of the usual form, many at once
mod packet_framer; // packets of writers, on their way into a trace
mod compression; // batches of packets as one
mod trace_file; // a file has one writer
mod trace_output; // the file that a trace is streamed into
mod trace_reader; // the buffers of a session, read as a trace
// The books: what there is, and what is to be done.
mod environment; // time and chance
mod error; // why a session does not start, or is not cloned
mod recording; // a configuration, ready to be worked with
mod trigger_history; // triggers that were hit
mod lifecycle_events; // what happened to a session
mod extension_descriptors; // schemas of data sources
mod instance; // a data source in a session
mod pending_flush; // a flush that is under way
mod calls; // what producers and owners are to be told
mod timers; // what is done later
mod phase; // where a session is in its life
mod tracing_session; // what is kept of one session
mod context; // what a session works with, and its effects beyond itself
mod pending_clone; // a snapshot that is under way
mod control; // all of it, under one lock
// What changes the books, each by one subject.
mod limits; // what a session may not do because of others
mod data_sources; // what producers offer
mod instances; // data sources in sessions
mod flush; // flushes and scrapes
mod triggers; // events that start, end or clone sessions
mod lifecycle; // from configuration to end
mod session_clone; // snapshots
mod concurrent_sessions; // what sessions are told of each other
// What the service says in a trace, and of itself.
mod sequence_account; // what became of every packet
mod trace_stats; // statistics
mod service_packets; // its packets
mod service_state; // who is there
// What is asked of it.
mod service; // with the books locked
mod producer_endpoint; // by producers
mod reading; // a trace: its packets around those of writers
mod streaming; // a trace on its way into a file
mod requested; // what a session asked for, and whether there is any
#[cfg(test)]
mod scenarios; // what it does for producers and for the owners of sessions

pub use self::central_buffer::CentralBuffer;
pub use self::control::Limits;
pub use self::environment::{Environment, Machine};
pub use self::error::{Refusal, SessionError};
pub use self::lifecycle::SessionRequest;
pub use self::packet_framer::{ReadCounts, SERVICE_SEQUENCE_ID, read_as_trace};
pub use self::pending_clone::{CloneRequest, CloneSource};
pub use self::pending_flush::FlushOutcome;
pub use self::phase::State;
pub use self::producer_endpoint::ProducerEndpoint;
pub use self::recording::Recording;
pub use self::requested::RequestedDataSources;
pub use self::sequence_account::SequenceAccount;
pub use self::service::Service;
pub use self::service_state::{ProducerState, ServiceState, SessionState, SessionSummary};
pub use self::streaming::Writing;
pub use self::trace_file::TraceFile;
pub use self::trace_output::TraceOutput;
pub use self::trace_reader::FileEnd;
pub use self::trace_stats::{TraceStats, WriterStats};
pub use self::tracing_session::SessionOwner;
pub use self::trigger_history::ReceivedTrigger;
