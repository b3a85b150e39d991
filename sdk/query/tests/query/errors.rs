//! What is wrong, and what there is instead.

use support::Folder;

use crate::process::{run, run_with_input};
use crate::traces::traces;

fn error(sql: &str) -> String {
    run([sql, traces().lake.to_str().unwrap()]).error()
}

#[test]
fn unknown_tables_and_columns_are_named_beside_those_that_exist() {
    let message = error("SELECT * FROM slices");
    assert!(
        message.contains("no table slices; tables are args, counter, "),
        "{message}"
    );
    let message = error("SELECT duration FROM slice WHERE dur > 0");
    assert!(
        message.contains("no column duration; columns are "),
        "{message}"
    );
    assert!(message.contains("slice.dur"), "{message}");
    let message = error("SELECT t.dur FROM thread t");
    assert!(
        message.contains("no column t.dur; columns are t.trace_id, t.utid"),
        "{message}"
    );
    let message = error("SELECT n FROM generate_series(1, 3)");
    assert!(message.contains("no column n; columns are "), "{message}");
    let message = error("SELECT p99(dur) FROM slice");
    assert!(message.contains("p99"), "{message}");
}

#[test]
fn texts_that_are_not_sql_are_refused_with_a_place() {
    let message = error("SELECT name FORM slice WHERE");
    assert!(message.contains("not SQL"), "{message}");
    assert!(message.contains("Line: 1"), "{message}");
    assert!(error("").contains("SQL"));
    assert!(error("SELECT 1; SELECT 2").contains("single"));
}

#[test]
fn queries_only_read() {
    let folder = Folder::empty();
    let path = folder.file("copy.csv");
    let path = path.to_str().unwrap();
    for sql in [
        &format!("COPY slice TO '{path}'"),
        "INSERT INTO slice SELECT * FROM slice",
        "CREATE TABLE t AS SELECT 1",
        &format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{path}'"),
        "DROP TABLE slice",
        "SET datafusion.execution.batch_size = 1",
    ] {
        let message = error(sql);
        assert!(message.contains("only read"), "{sql}: {message}");
    }
    assert!(!folder.file("copy.csv").exists());
}

#[test]
fn folders_that_are_no_lake_are_refused() {
    let folder = Folder::empty();
    let path = folder.path().to_str().unwrap();
    let message = run(["SELECT 1", path]).error();
    assert!(
        message.contains(path) && message.contains("no lake"),
        "{message}"
    );
    assert!(message.contains("tracezero export parquet"), "{message}");
    std::fs::create_dir_all(folder.file("trace/day=2026-01-01")).unwrap();
    let message = run(["SELECT 1", path]).error();
    assert!(message.contains("has no traces"), "{message}");
}

#[test]
fn inputs_that_do_not_fit_together_are_refused() {
    let traces = traces();
    let (lake, file) = (
        traces.lake.to_str().unwrap(),
        traces.files[0].to_str().unwrap(),
    );
    let message = run(["SELECT 1", lake, file]).error();
    assert!(message.contains("the only input"), "{message}");
    let message = run(["SELECT 1", lake, "--promote", "size"]).error();
    assert!(message.contains("--promote"), "{message}");
    let message = run(["SELECT 1", lake, "--cache", "other"]).error();
    assert!(message.contains("--cache"), "{message}");
    let message = run(["SELECT 1", file, "--promote", "size:uint"]).error();
    assert!(message.contains("argument size"), "{message}");
    let message = run(["-", "-"]).error();
    assert!(message.contains("standard input"), "{message}");
    assert_eq!(run(["SELECT 1"]).status, 2);
    assert_eq!(run(["SELECT 1", file, "--format", "xml"]).status, 2);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = Folder::empty();
    let missing = folder.file("missing.pftrace");
    let message = run(["SELECT 1", missing.to_str().unwrap()]).error();
    assert!(
        message.contains("missing.pftrace: No such file"),
        "{message}"
    );
    let text = folder.write("notes.txt", "These are no packets.");
    let file = traces().files[0].to_str().unwrap();
    let message = run(["SELECT 1", file, text.to_str().unwrap()]).error();
    assert!(message.contains("notes.txt"), "{message}");
    let message = run(["@missing.sql", file]).error();
    assert!(message.contains("missing.sql: No such file"), "{message}");
}

#[test]
fn damaged_files_of_a_lake_are_named() {
    let folder = Folder::empty();
    let damaged = folder.file("trace/day=2026-01-01/service=a/b-000.parquet");
    std::fs::create_dir_all(damaged.parent().unwrap()).unwrap();
    std::fs::write(&damaged, "no table").unwrap();
    let message = run(["SELECT * FROM trace", folder.path().to_str().unwrap()]).error();
    assert!(message.contains("b-000.parquet"), "{message}");
}

#[test]
fn traces_that_are_given_twice_count_once() {
    let file = traces().files[2].to_str().unwrap();
    let result = run([
        "SELECT count(*) AS n FROM trace",
        "--format",
        "csv",
        file,
        file,
    ]);
    assert!(result.stderr.contains("counts once"), "{}", result.stderr);
    assert_eq!(result.answer(), "n\n1\n");
}

/// Returns a condition with this number of terms.
fn any_of(terms: usize) -> String {
    let terms: Vec<String> = (0..terms).map(|number| format!("dur = {number}")).collect();
    format!(
        "SELECT count(*) AS n FROM slice WHERE {}",
        terms.join(" OR ")
    )
}

#[test]
fn expressions_may_have_many_levels_but_not_any_number() {
    let lake = traces().lake.to_str().unwrap();
    let answer = run_with_input(["-", "--format", "csv", lake], any_of(900).as_bytes());
    assert!(answer.fine().starts_with("n\n"));
    for terms in [1100, 100_000] {
        let message = run_with_input(["-", lake], any_of(terms).as_bytes()).error();
        assert!(message.contains("more than 1000 levels"), "{message}");
    }
    let deep = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    let message = run_with_input(["-", lake], deep.as_bytes()).error();
    assert!(message.contains("nested too deeply"), "{message}");
}
