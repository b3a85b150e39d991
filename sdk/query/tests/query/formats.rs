//! How rows are printed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::Folder;

use crate::process::{command, run, run_with_input};
use crate::traces::traces;

fn lake() -> &'static str {
    traces().lake.to_str().unwrap()
}

const VALUES: &str = "SELECT * FROM (VALUES
    (9223372036854775807, 0.1, 'a,b', TIMESTAMP '2026-11-26T17:52:52.123456'),
    (-9223372036854775807, 1e300, '', NULL), (NULL, NULL, NULL, NULL)) AS t (int, real, text, time)";

#[test]
fn tables_have_columns_and_say_null() {
    let answer = run([VALUES, lake()]).fine();
    let expected = "                 int   real  text  time
────────────────────  ─────  ────  ──────────────────────────
 9223372036854775807    0.1  a,b   2026-11-26T17:52:52.123456
-9223372036854775807  1e300        NULL
                NULL   NULL  NULL  NULL
(3 rows)
";
    assert_eq!(answer, expected);
}

#[test]
fn csv_has_all_digits() {
    let answer = run([VALUES, "--format", "csv", lake()]).fine();
    let expected = "\
int,real,text,time
9223372036854775807,0.1,\"a,b\",2026-11-26T17:52:52.123456
-9223372036854775807,1e300,\"\",
,,,
";
    assert_eq!(answer, expected);
}

#[test]
fn json_has_all_digits() {
    let answer = run([VALUES, "--format", "json", lake()]).fine();
    let expected = r#"[
{"int":9223372036854775807,"real":0.1,"text":"a,b","time":"2026-11-26T17:52:52.123456"},
{"int":-9223372036854775807,"real":1.0e300,"text":"","time":null},
{"int":null,"real":null,"text":null,"time":null}
]
"#;
    assert_eq!(answer, expected);
}

#[test]
fn times_of_traces_are_exact() {
    let sql =
        "SELECT start_time, CAST(start_time AS BIGINT) AS us FROM trace ORDER BY source LIMIT 1";
    let answer = run([sql, "--format", "csv", lake()]).fine();
    let (time, us) = answer.lines().nth(1).unwrap().split_once(',').unwrap();
    // Zeros at the end are left out.
    let seconds = time.strip_suffix('Z').unwrap();
    let fraction = seconds.split_once('.').map_or("", |(_, fraction)| fraction);
    assert!(us.ends_with(&format!("{fraction:0<6}")), "{answer}");
    let json = run([sql, "--format", "json", lake()]).fine();
    assert!(json.contains(time) && json.contains(us), "{json}");
}

#[test]
fn columns_of_the_same_name_are_told_apart() {
    let sql = "SELECT t.name, p.name FROM thread t JOIN process p USING (trace_id) LIMIT 0";
    assert_eq!(
        run([sql, "--format", "csv", lake()]).fine(),
        "name,name_2\n"
    );
}

#[test]
fn answers_without_rows_have_titles() {
    let sql = "SELECT name, dur FROM slice WHERE name = 'no such name'";
    assert_eq!(run([sql, "--format", "csv", lake()]).fine(), "name,dur\n");
    assert_eq!(run([sql, "--format", "json", lake()]).fine(), "[\n]\n");
    assert_eq!(
        run([sql, lake()]).fine(),
        "name  dur\n────  ───\n(0 rows)\n"
    );
}

#[test]
fn lists_are_printed() {
    let sql = "SELECT array_agg(v ORDER BY v) AS list FROM (VALUES (2), (1)) AS t (v)";
    assert_eq!(
        run([sql, "--format", "csv", lake()]).fine(),
        "list\n\"[1, 2]\"\n"
    );
    assert_eq!(
        run([sql, "--format", "json", lake()]).fine(),
        "[\n{\"list\":[1,2]}\n]\n"
    );
}

#[test]
fn queries_come_from_files_and_the_standard_input() {
    let sql = "-- A comment\nSELECT 1 AS one;\n";
    let answer = run_with_input(["-", "--format", "csv", lake()], sql.as_bytes()).fine();
    assert_eq!(answer, "one\n1\n");
    let folder = Folder::empty();
    let file = folder.write("query.sql", sql);
    let file = format!("@{}", file.display());
    assert_eq!(run([&file, "--format", "csv", lake()]).fine(), answer);
}

#[test]
fn traces_come_from_the_standard_input() {
    let trace = std::fs::read(&traces().files[2]).unwrap();
    let sql = "SELECT count(*) AS n FROM slice WHERE name = 'search'";
    let answer = run_with_input([sql, "--format", "csv", "-"], &trace).fine();
    assert_eq!(answer, "n\n40\n");
}

#[test]
fn closed_pipes_are_no_failure() {
    for format in ["table", "csv", "json"] {
        let sql = "SELECT a.value, b.value, c.value FROM generate_series(1, 1000) a,
                   generate_series(1, 1000) b, generate_series(1, 1000) c";
        let mut child = command([sql, "--format", format, lake()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr),
            (Some(0), Vec::new()),
            "{format}"
        );
    }
}
