//! Memory shared between a producer and the service.
//!
//! The *shared memory buffer* is an array of *pages* of equal size. A page that is in use is
//! divided into 1, 2, 4, 7 or 14 *chunks*. One *writer* at a time owns a chunk and fills it with
//! *fragments*: whole *packets*, or parts of packets that span chunks. There is no global header,
//! and memory of zeros is an empty buffer. This is Perfetto's ABI, bit for bit: a foreign service
//! can read it.
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
//! The page word says whose each chunk is. A chunk goes round in one direction, and each step is
//! taken by its present owner, or, where it has none, by the one who takes it:
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
//! Every step is an acquire-release exchange of the page word, and that is the only hand-over:
//! payload bytes are plain memory with one writer at a time. Beside the round, the service may
//! *scrape*: read the finished packets of chunks that are still being written ([`ServiceMemory::scrape`]).
//!
//! A page gets its layout together with its first chunk, in one exchange; it keeps the layout until
//! its last chunk is free.
//!
//! What is not here: memory of another process. The service's side already checks every number
//! that it reads and reads each once, but it lends out payloads as slices, which is sound only as
//! long as both sides are this code. A mapping that a foreign process can write needs a copying
//! read in place of [`ReadableChunk::payload`].

// From the numbers to the handles.
pub mod layout; // sizes, offsets, header words
mod state; // the page word: what moves are legal, and making them
mod sync; // atomics, or loom's

#[cfg(not(loom))]
mod backing; // the mapped bytes
#[cfg(loom)]
mod backing_loom; // its twin in model tests
mod memory; // geometry, bounds, the two sides
// What the sides do.
mod chunk; // handles of chunks being written and being read
mod scrape; // reading beside the writers

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
pub use layout::{ChunkFlags, ChunkPlace, PacketsWord, PageLayout};
pub use memory::{Geometry, MemoryError, NewChunk, ProducerMemory, ServiceMemory, shared_memory};
pub use scrape::ScrapedChunk;
pub use state::{ChunkMove, ChunkState, MoveError, PageWord};
