//! The producer side: from a trace point to committed chunks.
//!
//! ```text
//!  Packet ---> TraceWriter ---> ChunkStream -------------> WriterPort ---> Arbiter ---> service
//!  a message   packets          bytes in chunks; open      chunk ids,      chunks,
//!              and losses       lengths become patches     patches         commits
//! ```
//!
//! A packet that fits into its writer's chunk takes no lock, no exchange and no system call: one
//! store of the chunk's packet count, besides its bytes. Everything else happens once per chunk.

// In the order of a packet's journey.
mod trace_writer; // packets: begin, finish, flush
mod state_start; // whether packets may build on earlier ones
mod chunk_stream; // chunks as ranges for the stream; packets that span chunks, or are dropped
mod patches; // lengths that come after their chunk was returned
mod port; // one writer's standing with the arbiter
mod arbiter; // free chunks for writers, commits for the service
mod free_chunks; // which pages have any, and how the next page is divided
mod commit_builder; // the commit that a writer puts together
mod writer_ids; // which ids are in use
mod account; // what became of every packet
// Data sources, and the sessions that they are recorded in.
mod active_slots; // which sessions record something, as a mask
mod realm; // which service in this process
mod setup; // what an instance is told
mod answers; // starting, stopping, flushing: done when dropped
mod instance; // a data source in one session, with a writer and a state for each thread
mod switches; // choices that are finer than a data source
mod data_source_state; // what is kept for a type of data source
mod pending_flushes; // which data sources have not flushed yet
mod registry; // which there are, and which sessions record them
mod application; // calls of it, whose panics end there
mod thread_writers; // the writers of each thread
mod data_sources; // data sources, call sites and services come and go
#[cfg_attr(not(feature = "testing"), path = "no_captures.rs")]
mod captures; // data sources in captures of tests
mod process_producer; // what the service asks of data sources
mod data_source; // packets with a schema of one's own
mod own_data_source; // data sources of the SDK itself

#[cfg(test)]
mod testing; // a service that reassembles packets
#[cfg(test)]
mod tests; // the whole journey, with many threads

pub use active_slots::{ActiveSlots, generation};
pub use answers::{Flushing, Starting, Stopping};
pub use arbiter::{Arbiter, ArbiterConfig};
#[cfg(feature = "testing")]
pub use captures::disconnect;
pub use data_source::{DataSource, TraceContext};
pub use data_source_state::{DataSourceState, ENABLED};
pub use data_sources::{activate_triggers, connect, declarations_changed, with_recording};
pub use instance::Instance;
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
