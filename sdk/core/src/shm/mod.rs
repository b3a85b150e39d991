//! Memory shared between a producer and the service.
//!
//! The *shared memory buffer* is an array of *pages* of equal size. A page that is in use is
//! divided into 1, 2, 4, 7 or 14 *chunks*. One *trace writer* at a time owns a chunk and fills it
//! with *fragments*: whole *packets*, or parts of packets that span several chunks. There is no
//! global header; memory of all zeros is an empty buffer. The format is exactly Perfetto's ABI, so
//! another service could read it.
//!
//! ```text
//! shared memory buffer
//! +---------------+---------------+---------------+-- - -
//! |    page 0     |    page 1     |    page 2     |
//! +---------------+---------------+---------------+-- - -
//!                /                 \
//!  +-----------+----------+---------+---------+-- - - --+-------+
//!  | page word | reserved | chunk 0 | chunk 1 |         | slack |
//!  | 4         | 4        |         |         |         |       |
//!  +-----------+----------+---------+---------+-- - - --+-------+
//!   layout and           /           \
//!   chunk states        /             \
//!      +----------+-----------+---------------+--------------------------+
//!      | chunk id | writer id | count | flags |         payload          |
//!      | 4        | 2         | 2     |       |                          |
//!      +----------+-----------+---------------+--------------------------+
//!                                              /                        \
//!                                   +------+----------+------+----------+- - - - - -+
//!                                   | size | fragment | size | fragment | stale     |
//!                                   +------+----------+------+----------+- - - - - -+
//! ```
//!
//! The page word has the state of each chunk, which tells who owns it. The states form a cycle.
//! Each step is taken by the chunk's present owner or, if it has none, by the next owner:
//!
//! ```text
//!              producer: ProducerMemory::acquire_for_writing
//!      Free ---------------------------------------------> BeingWritten
//!        ^                                                      |
//!        | service: ReadableChunk::free          producer: WritableChunk::complete
//!        | (the page's last one frees the page)                 |
//!        |                                                      v
//!    BeingRead <------------------------------------------- Complete
//!                service: ServiceMemory::acquire_for_reading
//! ```
//!
//! [`ForeignMemory::take`] makes both steps of the service.
//!
//! Every step is an acquire-release operation on the page word. Nothing else hands a chunk over:
//! payload bytes are plain memory with one writer at a time. In addition, the service may *scrape*,
//! which means to read the finished packets of a chunk that is still being written
//! ([`ServiceMemory::scrape`]).
//!
//! One exchange of the page word sets the page's layout and takes its first chunk. The page keeps
//! the layout until its last chunk is free.
//!
//! The two sides may be in two processes: a producer attaches memory that a service has made
//! ([`SharedFd`]), and does not depend on what the service stores there. A service has a
//! [`ForeignMemory`] for each producer in another process, and does not depend on what the producer
//! stores there. It copies chunks and never lends out their bytes, while [`ServiceMemory`] does, and
//! is for memory of the service's own process.

// The format and the memory.
pub mod layout; // sizes, offsets, header words
mod state; // the page word: the states of chunks, and the moves between them
mod sync; // atomics, or loom's in model tests
#[cfg(fuzzing)]
pub mod watched_sync; // atomics that tell a fuzz target of each access

#[cfg(not(loom))]
mod backing; // the mapped bytes
#[cfg(loom)]
mod backing_loom; // the bytes in model tests
mod header; // copying and clearing the headers of chunks
mod held_chunks; // chunks in memory of another process that this process is writing
mod memory; // geometry, bounds, the handles of the two sides
mod shared_fd; // memory that processes share by a file descriptor
// Writing and reading chunks.
mod chunk; // handles of chunks that are being written or read
mod foreign; // copying chunks of a process that is not trusted
mod scrape; // reading chunks that are still being written
mod used_chunks; // the chunks in use, in their order

#[cfg(test)]
#[cfg(not(loom))]
mod foreign_tests;
#[cfg(test)]
#[cfg(loom)]
mod loom_models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use chunk::{
    ABANDONED_FRAGMENT_SIZE, FRAGMENT_SIZE_BYTES, PACKET_ROOM_MIN_BYTES, PACKETS_PER_CHUNK_MAX,
    ReadableChunk, WritableChunk, WritableRange,
};
pub use foreign::{ChunkCopy, ForeignMemory};
pub use header::CopiedHeader;
pub use layout::{CHUNKS_PER_PAGE_MAX, ChunkFlags, ChunkPlace, PacketsWord, PageLayout};
pub use memory::{
    Geometry, MemoryError, NewChunk, ProducerMemory, ServiceMemory, shared_memory,
    shared_memory_of_file,
};
pub use scrape::ScrapedChunk;
pub use shared_fd::{SharedFd, SharedFdError};
pub use state::{ChunkMove, ChunkState, MoveError, PageWord};
pub use used_chunks::UsedChunk;
