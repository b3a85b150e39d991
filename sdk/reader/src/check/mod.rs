//! Holds traces against the rules that tools which read them rely on.

mod checker; // goes through the trace
mod finding; // what is wrong, where, by which rule
mod flows; // events that flows join
mod nesting; // begins and ends
mod sequences; // what is missing of which
mod references; // ids and texts inside of events
mod schemas; // descriptors that the trace brings along
mod tracks; // what tracks are used for

pub use checker::{CheckSummary, FINDINGS_PER_RULE, check};
pub use finding::{Finding, Level, Rule};
