//! Files that are not traces, or are damaged.

use std::path::Path;

use support::Folder;

use crate::process::{Run, run_on};
use crate::traces::SHOP;

/// Each command that reads a trace, with its output discarded.
const COMMANDS: [&[&str]; 8] = [
    &["summary", "FILE"],
    &["outline", "FILE"],
    &["flamegraph", "--folded", "FILE"],
    &["cat", "FILE"],
    &["view", "FILE", "-o", "/dev/null"],
    &["compress", "FILE", "-o", "/dev/null"],
    &["decompress", "FILE", "-o", "/dev/null"],
    &["merge", "FILE", "FILE", "-o", "/dev/null"],
];

fn run_all(file: &Path) -> impl Iterator<Item = Run> {
    COMMANDS
        .into_iter()
        .map(move |command| run_on(file, command))
}

#[test]
fn a_trace_that_ends_early_is_read_as_far_as_it_goes() {
    let files = Folder::empty();
    let trace = SHOP.trace();
    let file = files.write("cut.pftrace", &trace[..trace.len() - 3]);
    for run in run_all(&file) {
        assert_eq!(run.status, 1, "{run:?}");
        assert!(run.stderr.contains("after packet 12"), "{run:?}");
        assert!(run.stderr.contains("3 bytes are missing"), "{run:?}");
    }
    let run = run_on(&file, &["summary", "FILE"]);
    assert!(run.text().contains("size       "), "{run:?}");
    assert!(run.text().contains("13 packets, 8 events"), "{run:?}");
    assert!(run.text().contains("\ndamaged    1 place\n"), "{run:?}");
}

#[test]
fn damage_is_reported_and_the_rest_is_read() {
    let files = Folder::empty();
    let mut trace = SHOP.trace();
    // The tag of the first packet with a span.
    assert_eq!(trace[112], 0x0a);
    trace[112] = 0xff;
    let file = files.write("broken.pftrace", &trace);
    for run in run_all(&file) {
        assert_eq!(run.status, 1, "{run:?}");
        assert!(run.stderr.contains("offset 112, after packet 4"), "{run:?}");
    }
    let run = run_on(&file, &["summary", "FILE"]);
    assert!(run.text().contains("13 packets, 8 events"), "{run:?}");
    assert!(run.text().contains("  1 end without a begin"), "{run:?}");
}

#[test]
fn other_files_are_called_what_they_are() {
    let files = Folder::empty();
    let file = files.write("trace.json", b"{\"traceEvents\": []}");
    for run in run_all(&file) {
        assert_eq!(run.status, 2, "{run:?}");
        assert!(run.stderr.starts_with("error: "), "{run:?}");
        assert!(run.stderr.contains("a JSON trace"), "{run:?}");
    }
    for run in run_all(Path::new("/nowhere/app.pftrace")) {
        assert_eq!(run.status, 2, "{run:?}");
        assert!(
            run.stderr.contains("/nowhere/app.pftrace cannot be opened"),
            "{run:?}"
        );
    }
}

#[test]
fn trace_without_packets_is_an_error() {
    let files = Folder::empty();
    // An empty file, and a bundle without packets.
    for bytes in [
        &[][..],
        &[
            0x0a, 0x0b, 0x92, 0x03, 0x08, 0x78, 0x9c, 0x03, 0, 0, 0, 0, 1,
        ],
    ] {
        let file = files.write("empty.pftrace", bytes);
        let message = format!("error: {}: the trace has no packets\n", file.display());
        let check = run_on(&file, &["check", "FILE"]);
        for run in run_all(&file).chain([check]) {
            assert_eq!((run.status, &run.stderr), (2, &message), "{run:?}");
            assert!(run.stdout.is_empty(), "{run:?}");
        }
    }
}

#[test]
fn no_input_makes_a_command_panic() {
    let files = Folder::empty();
    let mut trace = SHOP.trace();
    let mut random = 1_u64;
    for round in 0..40 {
        for _ in 0..4 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let place = (random >> 33) as usize % trace.len();
            trace[place] ^= 1 << (random >> 29 & 7);
        }
        let file = files.write("broken.pftrace", &trace);
        for command in [COMMANDS[round % COMMANDS.len()], &["check", "FILE"]] {
            let run = run_on(&file, command);
            assert!((0..=2).contains(&run.status), "{run:?}");
            assert!(!run.stderr.contains("panicked"), "{run:?}");
        }
    }
}
