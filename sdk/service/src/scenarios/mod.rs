//! What the tracing service does for producers and for the owners of sessions, as the reference
//! checks it: `tracing-service.md`, section 6. `README.md` beside this file maps its numbers to
//! tests.
//!
//! Time stands still until a test moves it, and everything happens on the test's own thread.

mod harness;
mod trace_file; // a file that a trace is written into

mod life_cycle; // sessions from set-up to end
mod data_sources; // which producers and data sources take part
mod stopping; // data sources that say when they are done
mod observers; // who is told of starts and ends
mod named_buffers; // where packets go
mod limits; // sessions in each other's way
mod concurrent_sessions; // sessions that tell of each other
mod trace_contents; // what a trace says of itself
mod accounts; // what became of every packet
mod files; // traces streamed into files, and clones of them
#[cfg(any(feature = "deflate", feature = "zstd"))]
mod compression; // batches of packets as one
mod compression_choice; // ways to compress that a build knows
mod triggers; // what starts, ends and clones sessions from outside
mod flush; // data sources hand over what they hold
mod events; // what a trace tells about its session
mod scraping; // what writers did not hand over is taken all the same
mod clones; // snapshots
mod calls; // what the service asks of others, and what they may do meanwhile
mod stress; // all of it at once, from many threads
