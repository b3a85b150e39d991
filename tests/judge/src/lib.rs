//! Decides whether a trace is right, as somebody who had no part in writing it.
//!
//! The trace is decoded by a protobuf library and a copy of Perfetto's published schema that this
//! project did not write, and held against the rules that readers of traces rely on. What comes
//! back is either a [`Verdict`], with the trace in a form that tests can assert on, or the list of
//! everything wrong with it.
//!
//! ```no_run
//! let bytes = std::fs::read("app.pftrace").unwrap();
//! let verdict = judge::judge(&bytes, &judge::ExtraSchema::new()).unwrap();
//! assert_eq!(verdict.events[0].name.as_deref(), Some("read_file"));
//! ```
//!
//! A trace that it accepts must be right for the SDK's own checker, too, so that neither is stricter
//! than the other without a reason.
//!
//! Compressed packets are refused: the judge does not look inside them.

mod checked; // what the SDK's own checker says
mod clocks; // from a packet's timestamp to nanoseconds of the trace
mod counts; // how many of what a trace has, whoever counts
mod examiner; // goes through the packets in file order
mod file; // the bytes, cut into packets
mod pictures; // spans as slices, and those that have a life and polls
mod problem; // what is wrong, where, by which rule
mod schema; // the published schema and a test's own fields
mod sequence; // what earlier packets of a sequence defined
mod texts; // what interned ids stand for
mod tool; // what the command `tracezero` says of a trace
mod tracks; // spans, counters and descriptors, once all packets are known
mod value; // any message as a tree of plain values
mod verdict; // the trace, resolved
mod walk; // every field of a message, however deep

pub use counts::{Counts, disagreements};
pub use examiner::counts;
pub use pictures::{Picture, Slice, picture, pictures, slice, slices, slices_named};
pub use problem::{Problem, Rule};
pub use schema::{ExtraSchema, published, published_later};
pub use tool::Tool;
pub use value::Value;
pub use verdict::{Custom, Event, EventKind, Loss, OpenSpan, Verdict};

/// What a test may let pass because it brought it about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Spans without an end are listed in [`Verdict::open_spans`] and are no problem.
    pub allow_open_spans: bool,
    /// Packets that need what a lost packet defined are left out of the verdict, as readers leave
    /// them out, and ends whose begin was lost are ignored. Otherwise both are problems.
    pub allow_unreadable_after_loss: bool,
    /// The recording need not have come to its end.
    pub allow_early_end: bool,
}

/// Judges the bytes of a trace file by all rules.
///
/// `extra` declares the fields outside Perfetto's schema that the trace may carry.
///
/// # Errors
///
/// Everything that is wrong with the trace, in file order as far as it has one.
pub fn judge(trace_bytes: &[u8], extra: &ExtraSchema) -> Result<Verdict, Vec<Problem>> {
    judge_with(trace_bytes, extra, Options::default())
}

/// [`judge`], except for what `options` let pass.
///
/// # Errors
///
/// Everything that is wrong with the trace, in file order as far as it has one.
pub fn judge_with(
    trace_bytes: &[u8],
    extra: &ExtraSchema,
    options: Options,
) -> Result<Verdict, Vec<Problem>> {
    let verdict = examiner::examine(trace_bytes, extra, options)?;
    checked::accept(trace_bytes, options)?;
    Ok(verdict)
}
