//! Helpers for tests of trace buffers outside of the service.

mod both_ways; // compares the two ways to read
mod chunk; // chunks to commit
mod counters; // statistics by name

pub use both_ways::assert_same_both_ways;
pub use chunk::chunk;
pub use counters::counters;
