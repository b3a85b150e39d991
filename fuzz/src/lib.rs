//! Code that several fuzz targets share.

/// A trace buffer that is checked at every step.
pub mod audited_buffer;
/// Writers, chunk ids and payloads, chosen by a few input bytes, so that inputs often hit the same
/// ones.
pub mod choices;
