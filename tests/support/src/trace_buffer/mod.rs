//! Trace buffers, as tests outside of the service have them.

mod both_ways; // the two ways to read are compared
mod chunk; // chunks to commit
mod counters; // statistics by name

pub use both_ways::assert_same_both_ways;
pub use chunk::chunk;
pub use counters::counters;
