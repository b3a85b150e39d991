//! `tracezero check`.

use support::Folder;

use crate::process::{run, run_on, run_with_input};
use crate::traces::{SHOP, packets, recorded};

#[test]
fn a_recording_is_right() {
    let run = run_with_input(&["check", "--strict", "-"], &recorded()).fine();
    assert!(run.text().ends_with(": 0 errors, 0 notes\n"), "{run:?}");
}

#[test]
fn faults_are_reported_with_their_place() {
    let files = Folder::empty();
    let mut trace = SHOP.trace();
    // A second end of the outer span, then half of a packet.
    let end = packets(&trace)[11].to_vec();
    trace.extend_from_slice(&end);
    trace.extend_from_slice(&end[..10]);
    let file = files.write("shop.pftrace", &trace);
    let run = run_on(&file, &["check", "FILE"]);
    let name = file.display();
    let expected = format!(
        "{name}: error: packet 14, sequence 2, offset 331, nesting: an end on track \"main\" (101) has no begin\n\
         {name}: error: packet 15, offset 348, framing: the trace ends inside a packet, 7 bytes are \
         missing; 10 bytes are left out\n\
         {name}: 15 packets, 10 events, 2 sequences: 2 errors, 0 notes\n"
    );
    assert_eq!(run.text(), expected);
    assert_eq!(run.status, 1);
}

#[test]
fn strict_treats_notes_as_errors() {
    let files = Folder::empty();
    // A trace whose last span has no end, as if the program had been killed.
    let trace = SHOP.trace();
    let cut = packets(&trace)[..11].concat();
    let file = files.write("shop.pftrace", &cut);
    let run = run_on(&file, &["check", "FILE"]).fine();
    assert!(run.text().ends_with(": 0 errors, 1 note\n"), "{run:?}");
    let strict = run_on(&file, &["check", "--strict", "FILE"]);
    assert_eq!((strict.status, strict.text()), (1, run.text()));
}

#[test]
fn several_files_are_checked_even_if_one_cannot_be_read() {
    let files = Folder::empty();
    let good = files.write("shop.pftrace", SHOP.trace());
    let good = good.to_str().unwrap();
    let run = run(&["check", "/nowhere/app.pftrace", good]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("/nowhere/app.pftrace cannot be opened"));
    assert!(run.text().starts_with(good), "{run:?}");
}
