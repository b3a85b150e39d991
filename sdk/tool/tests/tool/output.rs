//! Files that commands must not overwrite.

use std::process::Stdio;

use support::Folder;

use crate::process::{command, run_on};
use crate::traces::SHOP;

#[test]
fn no_command_overwrites_the_trace_that_it_reads() {
    let files = Folder::empty();
    let trace = SHOP.trace();
    let file = files.write("shop.pftrace", &trace);
    let other = files.write("other.pftrace", &trace);
    let link = files.file("link.pftrace");
    std::fs::hard_link(&file, &link).unwrap();
    let (path, other, link) = (
        file.to_str().unwrap(),
        other.to_str().unwrap(),
        link.to_str().unwrap(),
    );
    for output in [path, link] {
        for command in [
            &["view", "FILE", "-o", output][..],
            &["flamegraph", "FILE", "-o", output],
            &["merge", other, "FILE", "-o", output],
            &["compress", "FILE", "-o", output],
            &["decompress", "FILE", "-o", output],
        ] {
            let run = run_on(&file, command);
            assert_eq!(run.status, 2, "{run:?}");
            let message =
                format!("error: {output} is an input, too; give the output another name\n");
            assert_eq!(run.stderr, message);
            assert!(files.read("shop.pftrace") == trace);
        }
    }
}

#[test]
fn page_does_not_replace_a_trace_named_html() {
    let files = Folder::empty();
    let file = files.write("shop.html", SHOP.trace());
    let run = run_on(&file, &["view", "FILE"]);
    assert_eq!(run.status, 2);
    assert!(
        run.stderr.contains("give the output another name"),
        "{run:?}"
    );
}

#[test]
fn file_behind_standard_input_is_not_overwritten() {
    let files = Folder::empty();
    let trace = SHOP.trace();
    let file = files.write("shop.pftrace", &trace);
    let output = command(&["compress", "-", "-o", file.to_str().unwrap()])
        .stdin(Stdio::from(std::fs::File::open(&file).unwrap()))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(files.read("shop.pftrace") == trace);
}
