//! `tracezero view`, but for what a browser makes of it.

use std::path::Path;

use crate::process::{Run, run, run_on, run_with_input};
use crate::traces::{Files, SHOP};

/// Runs the command on a trace of three slices and an instant in 10 µs, with options.
fn view(file: &Path, page: &Path, options: &[&str]) -> Run {
    let args = [&["view", "FILE", "-o", page.to_str().unwrap()], options].concat();
    run_on(file, &args)
}

/// How many events the command says are in the page.
#[track_caller]
fn event_count(run: &Run) -> u32 {
    assert_eq!(run.status, 0, "{run:?}");
    let (_, said) = run.text().split_once(": ").unwrap();
    said.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
fn a_page_goes_beside_its_trace_unless_it_is_named() {
    let files = Files::new();
    let file = files.with("shop.pftrace", &SHOP.trace());
    let run = run_on(&file, &["view", "FILE"]).fine();
    assert_eq!(event_count(&run), 4);
    assert!(run.text().contains("shop.html: "), "{run:?}");
    let page = String::from_utf8(files.read("shop.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("<title>shop.pftrace</title>"));
}

#[test]
fn a_page_can_go_to_the_standard_output() {
    let run = run_with_input(&["view", "-", "-o", "-"], &SHOP.trace()).fine();
    assert!(run.text().starts_with("<!doctype html>"));
    assert!(run.text().ends_with("</html>\n"));
    let unnamed = run_with_input(&["view", "-"], &SHOP.trace());
    assert_eq!(unnamed.status, 2);
    assert!(unnamed.stderr.contains("-o PAGE"), "{unnamed:?}");
}

#[test]
fn a_part_has_the_slices_that_reach_into_it() {
    let files = Files::new();
    let file = files.with("shop.pftrace", &SHOP.trace());
    let page = files.path("part.html");
    for (options, events) in [
        (&["--from", "0.0000035"][..], 4),
        // The slice from 1 µs to 4 µs is over.
        (&["--from", "0.0000045"], 3),
        (&["--to", "0.000001"], 1),
        (&["--to", "0.000003"], 2),
        (&["--from", "0.0000045", "--to", "0.0000065"], 2),
        (&["--from", "1"], 0),
    ] {
        let run = view(&file, &page, options);
        assert_eq!(event_count(&run), events, "{options:?}");
    }
}

#[test]
fn what_the_limit_leaves_out_is_told_on_the_standard_error() {
    let files = Files::new();
    let file = files.with("shop.pftrace", &SHOP.trace());
    let run = view(&file, &files.path("shop.html"), &["--max-events", "2"]);
    assert_eq!(event_count(&run), 2);
    assert!(
        run.stderr.starts_with("4 later events are left out"),
        "{run:?}"
    );
}

#[test]
fn times_that_make_no_sense_are_refused() {
    for seconds in ["-1", "soon", "NaN", "inf"] {
        let option = format!("--from={seconds}");
        let run = run(&["view", "x.pftrace", &option]);
        assert_eq!(run.status, 2, "{seconds}");
        assert!(run.stderr.contains("a number of seconds"), "{run:?}");
    }
    let run = run_with_input(&["view", "-", "-o", "-", "--to", "1"], &SHOP.trace());
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("name a file"), "{run:?}");
}
