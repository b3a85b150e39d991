//! What several fuzz targets need.

/// A trace buffer that is checked at every step.
pub mod audited_buffer;
/// Writers, chunk ids and payloads out of few bytes, so that they meet.
pub mod choices;
