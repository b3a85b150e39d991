//! Findings about bytes that are not packets.

use tracezero::reader::{Finding, Level, ReadError, Rule, check};

use crate::good_trace::{Trace, put_frame};
use crate::verdict::findings;

#[track_caller]
fn assert_damage(bytes: &[u8], packet: usize, offset: usize, words: &str) {
    let mut found = findings(bytes);
    found.retain(|finding| finding.level == Level::Error);
    let facts = |it: &Finding| {
        (
            it.rule,
            it.packet,
            it.sequence_id,
            it.offset,
            it.text.clone(),
        )
    };
    let found: Vec<_> = found.iter().map(facts).collect();
    let (packet, offset) = (Some(packet as u64), Some(offset as u64));
    let expected = (Rule::Framing, packet, None, offset, words.to_owned());
    assert_eq!(found, [expected]);
}

#[test]
fn trace_that_ends_inside_a_packet_is_damaged() {
    let trace = Trace::good();
    let mut bytes = trace.encode();
    let last = trace.packets.len() - 1;
    let offset = trace.offset(last);
    let left_out = bytes.len() - 2 - offset;
    bytes.truncate(bytes.len() - 2);
    let words = format!(
        "the trace ends inside a packet, 2 bytes are missing; {left_out} bytes are left out"
    );
    // The packet that is cut off is the one that reports the end of the recording.
    let found = findings(&bytes);
    let errors: Vec<_> = found
        .iter()
        .filter(|finding| finding.level == Level::Error)
        .map(|finding| (finding.rule, finding.packet, finding.offset))
        .collect();
    let framing = (Rule::Framing, Some(last as u64), Some(offset as u64));
    assert_eq!(errors, [framing, (Rule::Recording, None, None)]);
    assert_eq!(
        found.iter().filter(|finding| finding.text == words).count(),
        1
    );
}

#[test]
fn bytes_between_packets_are_damage() {
    let trace = Trace::good();
    let packet = trace.event("ready");
    let offset = trace.offset(packet);
    let mut bytes = trace.encode();
    bytes.splice(offset..offset, [0xff; 100]);
    let words = "no packet begins here; 100 bytes are left out";
    assert_damage(&bytes, packet, offset, words);
}

#[test]
fn wrong_packet_tag_is_damage() {
    let trace = Trace::good();
    let packet = trace.event("ready");
    let offset = trace.offset(packet);
    let frame_bytes = trace.offset(packet + 1) - offset;
    let mut bytes = trace.encode();
    bytes[offset] = 0x0b;
    let words = format!("no packet begins here; {frame_bytes} bytes are left out");
    assert_damage(&bytes, packet, offset, &words);
}

#[test]
fn length_that_spans_next_packets_is_damage() {
    let trace = Trace::good();
    let packet = trace.event("ready");
    let offset = trace.offset(packet);
    let frame_bytes = trace.offset(packet + 1) - offset;
    let mut bytes = trace.encode();
    assert!(bytes[offset + 1] < 60, "a short packet");
    bytes[offset + 1] += 60;
    let mut found = findings(&bytes);
    found.retain(|finding| finding.level == Level::Error);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].rule, Rule::Framing);
    assert_eq!(found[0].offset, Some(offset as u64));
    let left_out = format!("; {frame_bytes} bytes are left out");
    assert!(found[0].text.ends_with(&left_out), "{}", found[0].text);
}

#[test]
fn impossible_packet_length_is_damage() {
    let trace = Trace::good();
    let packet = trace.event("ready");
    let offset = trace.offset(packet);
    let mut bytes = trace.encode();
    bytes.splice(offset..offset, [0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    let words = format!(
        "a packet claims to have {} bytes; 6 bytes are left out",
        0x7_ffff_ffff_u64
    );
    assert_damage(&bytes, packet, offset, &words);
}

#[test]
fn packet_with_malformed_fields_is_found() {
    let trace = Trace::good();
    let packet = trace.event("ready");
    let offset = trace.offset(packet);
    let mut bytes = Vec::new();
    put_frame(&mut bytes, &[0xff; 20]);
    let frame_bytes = bytes.len();
    let all = trace.encode();
    let bytes = [&all[..offset], &bytes, &all[offset..]].concat();
    let mut found = findings(&bytes);
    found.retain(|finding| finding.level == Level::Error);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].packet, Some(packet as u64));
    assert_eq!(found[0].offset, Some(offset as u64));
    let text = &found[0].text;
    assert!(text.starts_with("the packet is malformed: "), "{text}");
    let left_out = format!("; {frame_bytes} bytes are left out");
    assert!(text.ends_with(&left_out), "{text}");
}

#[test]
fn files_of_other_formats_are_named() {
    let cases: [(&[u8], &str); 6] = [
        (b"{\"traceEvents\": []}", "a JSON trace"),
        (b"  [{\"ph\": \"B\"}]", "a JSON trace"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "compressed by gzip"),
        (b"PK\x03\x04\x14\0", "a zip archive"),
        (b"<!DOCTYPE html>", "an HTML page"),
        (b"PERFILE2\0\0", "a recording of `perf`"),
    ];
    for (bytes, words) in cases {
        let error = check(bytes, |_| {}).expect_err("it is no trace");
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("this is not a Perfetto trace, but {words}")),
            "{text}"
        );
    }
    let error = check(&[0xee; 5000][..], |_| {}).expect_err("it is no trace");
    assert!(
        matches!(error, ReadError::NotATrace { found: None }),
        "{error}"
    );
}
