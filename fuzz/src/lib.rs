//! What several fuzz targets need.

#[path = "../../sdk/service/tests/trace_buffer_model/both_ways.rs"]
mod both_ways;

/// A trace buffer that is checked at every step.
pub mod audited_buffer;
/// Writers, chunk ids and payloads out of few bytes, so that they meet.
pub mod choices;
