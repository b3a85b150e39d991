//! `tracezero flamegraph`.

use support::Folder;

use crate::process::{run_on, run_with_input};
use crate::traces::{SHOP, futures, named_track, slices};

#[test]
fn stacks_are_folded_by_self_time() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = run_on(&file, &["flamegraph", "--folded", "FILE"]).fine();
    let expected = "shop 10;main 11;checkout 6000\nshop 10;main 11;checkout;read 4000\n";
    assert_eq!(run.text(), expected);
    let args = [
        "flamegraph",
        "--folded",
        "--merged",
        "--track",
        "main",
        "FILE",
    ];
    let run = run_on(&file, &args).fine();
    assert_eq!(run.text(), "checkout 6000\ncheckout;read 4000\n");
}

#[test]
fn a_picture_is_drawn() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let picture = files.file("shop.svg");
    let args = ["flamegraph", "FILE", "-o", picture.to_str().unwrap()];
    run_on(&file, &args).fine();
    let svg = String::from_utf8(files.read("shop.svg")).unwrap();
    assert!(
        svg.contains("<title>read (4,000 ns, 40.00%)</title>"),
        "{svg}"
    );
    assert!(svg.trim_end().ends_with("</svg>"));
}

#[test]
fn other_tracks_are_drawn_only_if_asked_for() {
    let trace = futures();
    let on_threads = "shop 10;main 10;request 3000\n";
    let on_tracks = "shop 10;request;request 7000\n";
    let folded = |options: &[&str]| {
        let args = [&["flamegraph", "--folded", "-"], options].concat();
        let run = run_with_input(&args, &trace).fine();
        run.text().to_owned()
    };
    assert_eq!(folded(&[]), on_threads);
    assert_eq!(
        folded(&["--all-tracks"]),
        format!("{on_threads}{on_tracks}")
    );
    assert_eq!(folded(&["--track", "request"]), on_tracks);
    assert_eq!(folded(&["--merged"]), "request 3000\n");
    let picture = run_with_input(&["flamegraph", "-"], &trace).fine();
    assert!(picture.text().contains("--all-tracks draws"), "{picture:?}");

    let run = run_with_input(&["flamegraph", "-"], &slices(&[(1, "a")]));
    assert_eq!(run.status, 2);
    assert!(
        run.stderr
            .contains("draw those on other tracks with --all-tracks"),
        "{run:?}"
    );
}

#[test]
fn names_that_look_like_markup_are_text() {
    let evil = "</title></text><script>alert(1)</script>\u{1b}[2J;";
    let trace = slices(&[(1, evil), (1, &"long ".repeat(1000))]);
    let run = run_with_input(&["flamegraph", "--all-tracks", "-"], &trace).fine();
    let harmless = run_with_input(
        &["flamegraph", "--all-tracks", "-"],
        &slices(&[(1, "a"), (1, "b")]),
    )
    .fine();
    for tag in ["<script", "</script", "<text", "</title"] {
        let count = |text: &str| text.matches(tag).count();
        assert_eq!(count(run.text()), count(harmless.text()), "{tag}");
    }
    assert!(run.text().contains("&lt;script&gt;alert(1)"), "{run:?}");
    assert!(!run.text().contains('\u{1b}'));
    let folded = run_with_input(&["flamegraph", "--all-tracks", "--folded", "-"], &trace).fine();
    assert!(
        folded.text().lines().all(|line| line.len() < 300),
        "{folded:?}"
    );
}

#[test]
fn error_names_only_some_of_many_tracks() {
    let names: Vec<String> = (0..30).map(|number| format!("t{number:02}")).collect();
    let mut trace = slices(&[(1, "on a track without a name")]);
    for (uuid, name) in (1000..).zip(&names) {
        trace.extend(named_track(uuid, name));
        trace.extend(slices(&[(uuid, "work")]));
    }
    let run = run_with_input(&["flamegraph", "--track", "nobody", "-"], &trace);
    assert_eq!(run.status, 2);
    assert!(
        run.stderr
            .contains("tracks that have them: \"t00\", \"t01\", "),
        "{run:?}"
    );
    assert!(run.stderr.ends_with("\"t19\" and 10 more\n"), "{run:?}");
}

#[test]
fn unknown_track_is_an_error_and_leaves_no_file() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let picture = files.file("shop.svg");
    let args = [
        "flamegraph",
        "--track",
        "worker",
        "FILE",
        "-o",
        picture.to_str().unwrap(),
    ];
    let run = run_on(&file, &args);
    assert_eq!(run.status, 2);
    let message = format!(
        "error: {}: no track named \"worker\" has spans that ended; tracks that have them: \"main\"\n",
        file.display()
    );
    assert_eq!(run.stderr, message);
    assert!(!picture.exists());
}
