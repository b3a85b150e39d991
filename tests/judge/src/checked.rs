//! What the SDK's own checker says of a trace.

use tracezero::reader::{Level, check};

use crate::{Problem, Rule};

/// # Errors
///
/// The checker's errors. Its notes say what need not be wrong.
pub(crate) fn accept(trace_bytes: &[u8]) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    let read = check(trace_bytes, |finding| {
        if finding.level == Level::Error {
            problems.push(Problem {
                packet: finding
                    .packet
                    .map(|packet| usize::try_from(packet).expect("the trace is in memory")),
                sequence_id: finding.sequence_id,
                rule: Rule::Checked,
                text: finding.to_string(),
            });
        }
    });
    if let Err(error) = read {
        problems.push(Problem {
            packet: None,
            sequence_id: None,
            rule: Rule::Checked,
            text: error.to_string(),
        });
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}
