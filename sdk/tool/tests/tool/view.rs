//! `tracezero view`. `tests/browser/` tests how a browser shows the page.

use std::path::Path;

use support::Folder;

use crate::process::{Run, run, run_on, run_with_input};
use crate::traces::SHOP;

/// Runs the command with options on a trace of three slices and an instant in 10 µs.
fn view(file: &Path, page: &Path, options: &[&str]) -> Run {
    let args = [&["view", "FILE", "-o", page.to_str().unwrap()], options].concat();
    run_on(file, &args)
}

/// Returns the number of events in the page, as printed by the command.
#[track_caller]
fn event_count(run: &Run) -> u32 {
    assert_eq!(run.status, 0, "{run:?}");
    let (_, said) = run.text().split_once(": ").unwrap();
    said.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
fn default_page_is_beside_its_trace() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = run_on(&file, &["view", "FILE"]).fine();
    assert_eq!(event_count(&run), 4);
    assert!(run.text().contains("shop.html: "), "{run:?}");
    let page = String::from_utf8(files.read("shop.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("<title>shop.pftrace</title>"));
}

#[test]
fn default_page_replaces_only_pages() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let page = files.write("shop.html", b"<!doctype html>\n<html>about shops</html>\n");
    let refused = run_on(&file, &["view", "FILE"]);
    assert_eq!((refused.status, refused.text()), (2, ""));
    let message = format!(
        "error: {} exists and was not written by this command; name another page with -o PAGE, or \
         name that one to replace it\n",
        page.display()
    );
    assert_eq!(refused.stderr, message);
    assert!(files.read("shop.html").ends_with(b"about shops</html>\n"));

    assert_eq!(event_count(&view(&file, &page, &[])), 4);
    let again = run_on(&file, &["view", "FILE", "--to", "0.000001"]).fine();
    assert_eq!(event_count(&again), 1);
    files.write("shop.html", b"");
    assert_eq!(run_on(&file, &["view", "FILE"]).status, 2);
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
fn window_has_the_slices_that_reach_into_it() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let page = files.file("part.html");
    for (options, events) in [
        (&["--from", "0.0000035"][..], 4),
        // The slice from 1 µs to 4 µs has ended.
        (&["--from", "0.0000045"], 3),
        (&["--to", "0.000001"], 1),
        (&["--to", "0.000003"], 2),
        (&["--from", "0.0000045", "--to", "0.0000065"], 2),
    ] {
        let run = view(&file, &page, options);
        assert_eq!(event_count(&run), events, "{options:?}");
    }
}

#[test]
fn window_without_events_is_an_error_with_the_range() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let page = files.file("part.html");
    for (options, what) in [
        (&["--from", "1"][..], "--from 1 is after the end"),
        (
            &["--from", "5", "--to", "1"],
            "--from 5 is not before --to 1",
        ),
        (&["--to", "0"], "--to 0 is not after the begin"),
    ] {
        let run = view(&file, &page, options);
        assert_eq!(run.status, 2, "{run:?}");
        let message = format!("error: {what}; the events of the trace are from 0 s to 0.00001 s\n");
        assert_eq!(run.stderr, message);
        assert!(!page.exists());
    }
}

#[test]
fn page_from_the_first_left_out_event_has_the_rest() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let page = files.file("part.html");
    let run = view(&file, &page, &["--max-events", "2"]);
    let (_, rest) = run.stderr.split_once("`--from ").unwrap();
    let (from, _) = rest.split_once('`').unwrap();
    assert_eq!(
        from, "0.000002",
        "a counter's value, before the second read"
    );
    // The slice that reaches into the window, the other one in it, and the instant.
    assert_eq!(event_count(&view(&file, &page, &["--from", from])), 4);
}

#[test]
fn standard_error_reports_events_beyond_the_limit() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = view(&file, &files.file("shop.html"), &["--max-events", "2"]);
    assert_eq!(event_count(&run), 2);
    assert!(
        run.stderr.starts_with("4 later events are left out"),
        "{run:?}"
    );
}

#[test]
fn invalid_times_are_refused() {
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
