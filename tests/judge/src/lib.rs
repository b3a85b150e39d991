//! Checks independently whether a trace is correct.
//!
//! A foreign protobuf library decodes the trace, by a copy of Perfetto's published schema. Neither
//! is part of this project. The judge then checks the rules that readers of traces rely on. It
//! returns either a [`Verdict`], which has the trace in a form that tests can assert on, or a list
//! of all problems.
//!
//! ```no_run
//! let bytes = std::fs::read("app.pftrace").unwrap();
//! let verdict = judge::judge(&bytes, &judge::ExtraSchema::new()).unwrap();
//! assert_eq!(verdict.events[0].name.as_deref(), Some("read_file"));
//! ```
//!
//! A trace that the judge accepts must also pass the SDK's own checker, so that neither is stricter
//! than the other without a reason.
//!
//! The judge rejects compressed packets, because it does not look inside them.

mod checked; // runs the SDK's own checker
mod args; // arguments of events
mod clocks; // converts timestamps to nanoseconds of the trace clock
mod counts; // counts of packets and events, from the judge, a report, or a tool
mod examiner; // applies the rules, packet by packet in file order
mod file; // splits the bytes into packets
mod async_spans; // slices of spans, and the polls of asynchronous ones
mod problem; // problems: what is wrong, where, by which rule
mod schema; // the published schema and a test's own fields
mod sequence; // the incremental state of a sequence
mod texts; // resolves interned ids to texts
mod built_tool; // builds the command `tracezero`
mod tables; // what the tables of a lake must have
mod engines; // foreign engines that read tables
mod tool; // runs the command `tracezero` on a trace
mod tracks; // spans, counters and descriptors of tracks
mod value; // values of arguments and of custom messages
mod verdict; // the resolved trace
mod walk; // visits every field of a message and of the messages inside it

pub use async_spans::{
    AsyncSpan, Slice, async_span_named, async_spans_named, slice, slices, slices_named,
};
pub use built_tool::built_tool;
pub use counts::{Counts, disagreements};
pub use engines::Engines;
pub use examiner::counts;
pub use problem::{Problem, Rule};
pub use schema::{ExtraSchema, published, published_later};
pub use tables::tables;
pub use tool::Tool;
pub use value::Value;
pub use verdict::{Custom, Event, EventKind, Loss, OpenSpan, Verdict};

/// Rules that a test may relax, because it breaks them on purpose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// True if spans without an end are allowed. [`Verdict::open_spans`] lists them.
    pub allow_open_spans: bool,
    /// True if packets are allowed that need the definitions of a lost packet, and ends whose begin
    /// was lost. The verdict leaves them out, as readers do.
    pub allow_unreadable_after_loss: bool,
    /// True if the trace may be that of a recording that did not come to its end.
    pub allow_early_end: bool,
    /// True if programs may have been killed while they recorded. The descriptor of a track may then
    /// be there without that of its parent, which is written after it.
    pub allow_killed_programs: bool,
}

/// Checks the bytes of a trace file by all rules.
///
/// `extra` declares the fields outside Perfetto's schema that the trace may carry.
///
/// # Errors
///
/// Everything that is wrong with the trace, in file order as far as it has one.
pub fn judge(trace_bytes: &[u8], extra: &ExtraSchema) -> Result<Verdict, Vec<Problem>> {
    judge_with(trace_bytes, extra, Options::default())
}

/// Checks as [`judge`] does, but lets pass what `options` allow.
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
