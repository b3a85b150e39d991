//! The producer: writes the packets of trace points into chunks of shared memory, and commits the
//! chunks to the service.
//!
//! ```text
//!  Packet ---> TraceWriter ---> ChunkStream -------------> WriterPort ---> Arbiter ---> service
//!  a message   packets          bytes in chunks; open      chunk ids,      chunks,
//!              and losses       lengths become patches     patches         commits
//! ```
//!
//! Writing a packet that fits into its writer's chunk takes no lock, no atomic exchange and no
//! system call. The writer only stores the packet's bytes, and then the chunk's packet count.
//! Everything else happens once per chunk.

// From the packet to the commit.
mod trace_writer; // begins, finishes and flushes packets
mod state_start; // the start of a sequence's incremental state, and whether it is still valid
mod chunk_stream; // a byte stream over chunks; packets that span chunks or are dropped
mod patches; // lengths that become known after their chunk was returned
mod port; // one writer's connection to the arbiter
mod arbiter; // lends chunks to writers, and commits them to the service
mod free_chunks; // tracks free chunks, and chooses how the next page is divided
mod commit_builder; // builds a writer's commits
mod writer_ids; // allocates writer ids
mod account; // counts what became of every packet
// Data sources, and the sessions that record them.
mod active_slots; // bit masks of the sessions that record a data source
mod realm; // identifies a service that the process has a connection to
mod setup; // the session and configuration of an instance
mod answers; // guards for starts, stops and flushes: answered when dropped
mod instance; // a data source in one session; its writer and state on each thread
mod switches; // switches inside of a data source, such as those of categories
mod data_source_state; // the static state of a type of data source
mod pending_flushes; // the instances that have not flushed yet
mod registry; // all data sources, and the instances that record
mod application; // calls code of the application, and catches its panics
mod thread_writers; // the writers of each thread
mod data_sources; // registers data sources and services
#[cfg_attr(not(feature = "testing"), path = "no_captures.rs")]
mod captures; // data sources in captures of tests
mod process_producer; // the service's calls to data sources
mod data_source; // data sources of applications
mod own_data_source; // data sources of the SDK itself

#[cfg(test)]
mod testing; // a fake service that reassembles packets
#[cfg(test)]
mod tests; // the whole producer, with many threads

pub use active_slots::{ActiveSlots, generation};
pub use answers::{Flushing, Starting, Stopping};
pub use arbiter::{Arbiter, ArbiterConfig};
pub use data_source::{DataSource, TraceContext};
pub use data_source_state::{DataSourceState, ENABLED};
pub use data_sources::{
    activate_triggers, connect, declarations_changed, disconnect, restart_state, set_arbiter,
    with_recording,
};
pub use instance::{Instance, LocalStart};
pub use own_data_source::{OwnDataSource, OwnInstance};
pub use process_producer::ProcessProducer;
pub use realm::Realm;
pub use setup::Setup;
pub use state_start::StateStart;
pub use switches::{Recording, Switches};
pub use thread_writers::{
    Attached, CAPTURES, attach, captured_in, current_capture, is_capture, is_in_other_capture,
    is_nested, nested_count, unattached_count,
};
pub use trace_writer::{Packet, TraceWriter};
pub use tracezero_core::coordination::{BufferExhaustedPolicy, PacketCounts, WriterTotals};
