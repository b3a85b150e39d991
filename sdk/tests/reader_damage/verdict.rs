//! Assertions on the checker's findings about a trace.

use tracezero::reader::{Finding, Level, Rule, check};

use crate::good_trace::Trace;

/// Returns all findings about the bytes of a trace.
pub fn findings(bytes: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let summary = check(bytes, |finding| findings.push(finding.clone())).expect("it can be read");
    assert_eq!(summary.not_reported, 0);
    findings
}

/// Asserts that the checker finds exactly one error in a trace: by this rule, in this packet, with
/// this text.
#[track_caller]
pub fn assert_error(trace: &Trace, packet: usize, rule: Rule, words: &str) {
    assert_finding(trace, packet, Level::Error, rule, words);
}

/// Asserts that the checker has exactly one finding about a trace, at this level.
#[track_caller]
pub fn assert_finding(trace: &Trace, packet: usize, level: Level, rule: Rule, words: &str) {
    let mut found = findings(&trace.encode());
    // Ignores notes, which follow from the error.
    found.retain(|finding| finding.level >= level);
    let [finding] = &found[..] else {
        panic!("one finding in packet {packet} is expected: {found:#?}")
    };
    assert_eq!((finding.level, finding.rule), (level, rule), "{finding}");
    assert_eq!(finding.text, words);
    let level = if level == Level::Error {
        "error"
    } else {
        "note"
    };
    let sequence = trace.sequence_id(packet);
    let sequence = sequence.map_or(String::new(), |id| format!("sequence {id}, "));
    let offset = trace.offset(packet);
    assert_eq!(
        finding.to_string(),
        format!(
            "{level}: packet {packet}, {sequence}offset {offset}, {}: {words}",
            rule.name()
        )
    );
}

#[test]
fn checker_finds_nothing_in_the_good_trace() {
    assert_eq!(findings(&Trace::good().encode()), []);
}
