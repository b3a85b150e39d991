//! `tracezero flamegraph`.

use crate::process::run_on;
use crate::traces::{Files, SHOP};

#[test]
fn stacks_are_folded_by_self_time() {
    let files = Files::new();
    let file = files.with("shop.pftrace", &SHOP.trace());
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
    let files = Files::new();
    let file = files.with("shop.pftrace", &SHOP.trace());
    let picture = files.path("shop.svg");
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
fn a_track_that_there_is_not_is_an_error_and_leaves_no_file() {
    let files = Files::new();
    let file = files.with("shop.pftrace", &SHOP.trace());
    let picture = files.path("shop.svg");
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
        "error: {}: no track called \"worker\" has spans that ended\n",
        file.display()
    );
    assert_eq!(run.stderr, message);
    assert!(!picture.exists());
}
