//! Queries that take more memory than they may.

use support::Folder;

use crate::process::{command, run};
use crate::traces::traces;

/// A query that sorts 16 MB of numbers.
const SORTED: &str = "SELECT count(*) AS n, sum(step) AS sum FROM (
    SELECT value - lag(value) OVER (ORDER BY value * 7919 % 1000003) AS step FROM generate_series(1, 2000000))";

#[test]
fn rows_beyond_the_limit_go_to_files_that_are_removed() {
    let folder = Folder::empty();
    let lake = traces().lake.to_str().unwrap();
    let answer = |sql: &str, mib: &str| {
        let mut command = command([sql, "--format", "csv", "--memory", mib, lake]);
        let output = command.env("TMPDIR", folder.path()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.as_str()), (Some(0), ""));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(answer(SORTED, "24"), answer(SORTED, "1000"));
    let account = answer(&format!("EXPLAIN ANALYZE {SORTED}"), "24");
    assert!(account.contains("spilled_rows=2.00 M"), "{account}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn queries_that_cannot_do_with_the_limit_say_so() {
    let lake = traces().lake.to_str().unwrap();
    let sql = "SELECT array_agg(value) FROM generate_series(1, 3000000)";
    let error = run([sql, "--memory", "4", lake]).error();
    assert!(error.contains("--memory raises the limit"), "{error}");
}
