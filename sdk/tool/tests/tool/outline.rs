//! `tracezero outline`.

use support::Folder;

use crate::process::{run_on, run_with_input};
use crate::traces::{Maker, SHOP, recorded};

#[test]
fn outline_does_not_depend_on_times_and_ids() {
    let files = Folder::empty();
    let file = files.write("shop.pftrace", SHOP.trace());
    let run = run_on(&file, &["outline", "FILE"]).fine();
    let expected = "\
thread \"main\"
  checkout
    read x2
    * paid
counter \"queue\": 4 2
";
    assert_eq!(run.text(), expected);
    let later = Maker {
        pid: 20,
        uuid: 200,
        start_ns: 5_000_000,
        ..SHOP
    };
    let again = run_with_input(&["outline", "-"], &later.trace()).fine();
    assert_eq!(again.text(), expected);
}

#[test]
fn what_is_alike_is_one_line() {
    let run = run_with_input(&["outline", "-"], &recorded()).fine();
    // Requests have different arguments, so they are not merged.
    assert!(run.text().contains("    query\n"), "{run:?}");
    assert!(run.text().lines().count() < 220, "{run:?}");
}
