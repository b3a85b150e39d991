//! Traces that lack the end of their recording.

use serde_json::Value;
use support::Folder;

use crate::process::{run, run_on, run_with_input};
use crate::traces::{SHOP, packets, recorded};

const CUT_OFF: &str = "recording was cut off after 0.";

/// Returns a trace as of a process that was killed: without its last packet.
fn cut_off() -> Vec<u8> {
    let trace = recorded();
    let packets = packets(&trace);
    packets[..packets.len() - 1].concat()
}

#[test]
fn check_calls_a_cut_off_recording_an_error() {
    let files = Folder::empty();
    let file = files.write("killed.pftrace", cut_off());
    let run = run_on(&file, &["check", "FILE"]);
    let name = file.display();
    let expected = format!("{name}: error: recording: {CUT_OFF}");
    assert!(run.text().starts_with(&expected), "{run:?}");
    assert!(run.text().ends_with(": 1 error, 0 notes\n"), "{run:?}");
    assert_eq!(run.status, 1);
}

#[test]
fn summary_says_that_a_recording_was_cut_off() {
    let text = run_with_input(&["summary", "-"], &cut_off()).fine();
    let line = format!("\nend        {CUT_OFF}");
    assert!(text.text().contains(&line), "{text:?}");
    let json = run_with_input(&["summary", "--json", "-"], &cut_off()).fine();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let end = &json["early_ends"][0];
    assert_eq!(end["why"], "cut_off");
    assert!(end["text"].as_str().unwrap().starts_with(CUT_OFF), "{end}");
    assert!(end["after_ns"].as_u64().unwrap() > 0, "{end}");
}

#[test]
fn summary_of_several_counts_recordings_that_were_cut_off() {
    let files = Folder::empty();
    let killed = files.write("killed.pftrace", cut_off());
    let whole = files.write("whole.pftrace", recorded());
    let paths = [&killed, &whole].map(|path| path.to_str().unwrap());
    let text = run(&[&["summary"], &paths[..]].concat()).fine();
    let line = "\nlost       1 early end, in 1 file, see below\n";
    assert!(text.text().contains(line), "{text:?}");
}

#[test]
fn whole_and_foreign_traces_are_not_reported() {
    for trace in [
        recorded(),
        SHOP.trace(),
        packets(&SHOP.trace())[..9].concat(),
    ] {
        let check = run_with_input(&["check", "-"], &trace).fine();
        assert!(!check.text().contains("recording"), "{check:?}");
        let text = run_with_input(&["summary", "-"], &trace).fine();
        assert!(!text.text().contains("\nend "), "{text:?}");
        let json = run_with_input(&["summary", "--json", "-"], &trace).fine();
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["early_ends"], serde_json::json!([]));
    }
}

#[test]
fn merged_trace_shows_that_one_part_was_cut_off() {
    let files = Folder::empty();
    let parts = [
        ("whole.pftrace", recorded()),
        ("killed.pftrace", cut_off()),
        ("other.pftrace", recorded()),
    ];
    let paths = parts.map(|(name, trace)| files.write(name, &trace));
    let paths: Vec<_> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let merged = files.file("merged.pftrace");
    let merged = merged.to_str().unwrap();
    let merge = |parts: &[&str]| {
        let run = run(&[&["merge", "-o", merged], parts].concat());
        assert_eq!(run.status, 0, "{run:?}");
        run_with_input(&["check", merged], b"")
    };
    let check = merge(&paths);
    assert_eq!(check.text().matches(CUT_OFF).count(), 1, "{check:?}");
    assert_eq!(check.status, 1);
    assert!(!merge(&[paths[0], paths[2]]).text().contains("recording:"));
}

#[test]
fn packing_keeps_both_ends_of_a_recording() {
    let files = Folder::empty();
    for (trace, count) in [(recorded(), 0), (cut_off(), 1)] {
        let file = files.write("plain.pftrace", &trace);
        let packed = files.file("packed.pftrace");
        let run = run_on(&file, &["compress", "FILE", "-o", packed.to_str().unwrap()]);
        assert_eq!(run.status, 0, "{run:?}");
        let check = run_on(&packed, &["check", "FILE"]);
        assert_eq!(check.text().matches(CUT_OFF).count(), count, "{check:?}");
    }
}
