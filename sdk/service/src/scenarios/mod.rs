//! Tests of what the service does for producers and for owners of sessions. They follow Perfetto's
//! own tests of its service. `README.md` in this folder numbers Perfetto's tests, and names the
//! test here for each of them.
//!
//! Time advances only when a test advances it, and everything happens on the test's own thread.

mod harness;
mod manual_producer; // producers whose chunks the test writes
mod trace_file; // a file for traces

mod life_cycle; // sessions from setup to end
mod data_sources; // which producers and data sources take part
mod foreign_configs; // configurations that other programs make
mod stopping; // data sources that report when they have stopped
mod observers; // what owners and traces learn about starts and stops
mod named_buffers; // the buffers that packets are written to
mod limits; // conflicts between sessions
mod concurrent_sessions; // sessions whose traces tell of each other
mod trace_contents; // what a trace says about itself
mod accounts; // what became of the packets of each sequence
mod reading; // traces read in parts
mod folded_states; // states that a ring keeps of overwritten packets
mod files; // traces streamed into files, and clones of them
mod segments; // traces streamed into a row of files
#[cfg(any(feature = "deflate", feature = "zstd"))]
mod compression; // compressed batches of packets
mod compression_choice; // the compressions that a build supports
mod triggers; // triggers that start, end and clone sessions
mod flush; // data sources commit what they hold
mod events; // what a trace says about its session
mod scraping; // packets that writers have not committed
mod clones; // clones of sessions
mod calls; // calls to producers and owners, and what they may do meanwhile
mod hostile_memory; // shared memory that changes while it is read
mod hostile_producers; // producers that write where they must not
mod hostile_packets; // packets that producers must not write
mod floods; // producers that ask for too much
mod day; // a day of a busy service: each account closes
mod stress; // all operations at once, from many threads
