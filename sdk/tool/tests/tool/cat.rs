//! `tracezero cat`.

use std::process::Stdio;

use support::Folder;

use crate::process::{command, run_on};
use crate::traces::{SHOP, recorded};

#[test]
fn packets_are_text_with_the_names_of_the_schema() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let args = ["cat", "--from-packet", "5", "--packets", "2", "FILE"];
    let run = run_on(&file, &args).fine();
    let expected = "\
# packet 5, offset 112
packet {
  timestamp: 1000000
  track_event {
    type: TYPE_SLICE_BEGIN
    track_uuid: 101
    categories: \"shop\"
    name: \"checkout\"
  }
  trusted_packet_sequence_id: 2
  trusted_pid: 10
}
# packet 6, offset 147
packet {
  timestamp: 1001000
  track_event {
    type: TYPE_SLICE_BEGIN
    track_uuid: 101
    categories: \"shop\"
    name: \"read\"
  }
  trusted_packet_sequence_id: 2
  trusted_pid: 10
}
";
    assert_eq!(run.text(), expected);
}

#[test]
fn raw_packets_have_numbers_only() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let args = [
        "cat",
        "--raw",
        "--from-packet",
        "7",
        "--packets",
        "1",
        "FILE",
    ];
    let run = run_on(&file, &args).fine();
    let text = run.text().lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(
        text,
        "1 {\n  8: 1004000\n  11 {\n    9: 2\n    11: 101\n  }\n  10: 2\n  79: 10\n}"
    );
}

#[test]
fn packets_of_one_sequence_are_chosen_by_its_id() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = run_on(&file, &["cat", "--sequence", "1", "FILE"]).fine();
    assert_eq!(run.text().matches("packet {").count(), 2);
    assert!(run.text().contains("trace_config {\n  }"));
}

#[test]
fn error_for_missing_packets_says_which_exist() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    for (options, message) in [
        (
            &["--sequence", "99"][..],
            "the trace has no packet of sequence 99; its sequences are 1, 2",
        ),
        (
            &["--from-packet", "99999"],
            "--from-packet 99999 is after the end; the packets of the trace are 0 to 13",
        ),
        (
            &["--sequence", "1", "--from-packet", "14"],
            "--from-packet 14 is after the end; the packets of the trace are 0 to 13",
        ),
        (
            &["--sequence", "1", "--from-packet", "13"],
            "sequence 1 has no packet from packet 13 on",
        ),
    ] {
        let run = run_on(&file, &[&["cat", "FILE"], options].concat());
        assert_eq!((run.status, run.text()), (2, ""), "{options:?}");
        assert_eq!(run.stderr, format!("error: {message}\n"));
    }
    let nothing = run_on(&file, &["cat", "FILE", "--packets", "0"]).fine();
    assert_eq!(nothing.text(), "");
}

#[test]
fn every_packet_of_a_recording_is_printed() {
    let files = Folder::empty();
    let file = files.write("app.pftrace", recorded());
    let run = run_on(&file, &["cat", "FILE"]).fine();
    assert_eq!(run.text().matches("type: TYPE_SLICE_BEGIN").count(), 200);
    assert!(
        run.text()
            .contains("[tracezero.sequences.sequence_accounts] {")
    );
    assert!(!run.text().contains("malformed"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let files = Folder::empty();
    let file = files.write("many.pftrace", SHOP.trace().repeat(10_000));
    let mut child = command(&["cat", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
}
