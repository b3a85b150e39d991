//! Runs the SDK's own checker on a trace.

use tracezero::reader::{self, Level, check};

use crate::{Options, Problem, Rule};

/// Accepts a trace in which the SDK's checker finds no errors.
///
/// # Errors
///
/// The errors that the checker finds. Its notes are ignored, since a note need not be a mistake.
pub(crate) fn accept(trace_bytes: &[u8], options: Options) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    let read = check(trace_bytes, |finding| {
        let is_allowed = match finding.rule {
            reader::Rule::Recording => options.allow_early_end,
            reader::Rule::TrackTree => {
                let is_orphan = finding.text.contains("which has no descriptor");
                options.allow_killed_programs && is_orphan
            }
            _ => false,
        };
        if finding.level == Level::Error && !is_allowed {
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
