//! Checks a trace against the rules that tools rely on.

mod checker; // reads the trace and applies the rules
mod finding; // findings and rules
mod flows; // flows with only one event
mod nesting; // begins and ends of slices
mod sequences; // losses of each sequence
mod references; // ids and texts inside events
mod schemas; // extension schemas in the trace
mod tracks; // descriptors and uses of tracks

pub use checker::{CheckSummary, Checker, FINDINGS_PER_RULE, check};
pub use finding::{Finding, Level, Rule};
