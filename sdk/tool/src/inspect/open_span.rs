//! An open span.

/// A span that has begun and not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenSpan {
    pub(super) begin_ns: u64,
    pub(super) name: String,
    /// The arguments; empty if there are none, or if only a list has the span.
    pub(super) args: String,
    /// The flow that the span is part of, for polls of futures.
    pub(super) flow_id: Option<u64>,
    /// True if a list has named the span, and its begin was not read.
    pub(super) is_listed: bool,
}
