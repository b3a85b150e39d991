//! Trace files and lakes have the same rows.

use std::path::PathBuf;

use crate::process::run;
use crate::queries::QUERIES;
use crate::traces::{PROMOTE, traces};

/// Returns the rows of an answer as JSON objects: in their order if the query has one.
fn rows(sql: &str, inputs: &[PathBuf], options: &[&str]) -> Vec<String> {
    let inputs = inputs.iter().map(|path| path.to_str().unwrap());
    let args = [sql, "--format", "json"].into_iter();
    let args = args.chain(options.iter().copied()).chain(inputs);
    let answer = run(args).answer();
    let lines = answer
        .strip_prefix("[\n")
        .unwrap()
        .strip_suffix("]\n")
        .unwrap();
    let lines = lines
        .lines()
        .map(|line| line.trim_end_matches(',').to_owned());
    let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    if !is_ordered(sql) {
        lines.sort();
    }
    lines
}

/// Returns true if the rows of an answer have an order: one that does not stand in parentheses.
fn is_ordered(sql: &str) -> bool {
    let end = sql.rsplit(')').next().unwrap_or_default();
    end.contains("ORDER BY")
}

#[test]
fn trace_files_and_lakes_give_the_same_rows() {
    let traces = traces();
    assert!(QUERIES.len() >= 30);
    for query in QUERIES {
        let of_files = rows(query.sql, &traces.files, &["--promote", PROMOTE]);
        match query.rows {
            Some(count) => assert_eq!(of_files.len(), count, "{}: {of_files:#?}", query.name),
            None => assert!(!of_files.is_empty(), "{}", query.name),
        }
        for lake in [&traces.lake, &traces.compacted] {
            let of_lake = rows(query.sql, std::slice::from_ref(lake), &[]);
            assert_eq!(of_lake, of_files, "{} of {}", query.name, lake.display());
        }
    }
}

#[test]
fn approximate_percentiles_are_near() {
    // Durations of few real slices can be far apart, and so can what lies between two of them.
    let sql = "SELECT approx_percentile_cont(value, 0.99) AS near,
                      percentile_cont(value, 0.99) AS exact FROM generate_series(1, 10000)";
    let answer = run([sql, "--format", "csv", traces().lake.to_str().unwrap()]).fine();
    let values: Vec<f64> = answer
        .lines()
        .nth(1)
        .unwrap()
        .split(',')
        .map(|it| it.parse().unwrap())
        .collect();
    let [near, exact] = values[..] else {
        panic!("{answer}")
    };
    assert!(
        exact > 0.0 && (near - exact).abs() / exact < 0.02,
        "{answer}"
    );
}

#[test]
fn sums_are_those_of_the_account() {
    let traces = traces();
    let sql = "SELECT t.source, t.lost_packets = coalesce(sum(l.packets), 0) AS same FROM trace t
               LEFT JOIN loss l ON t.trace_id = l.trace_id
               GROUP BY t.source, t.lost_packets ORDER BY t.source";
    let answer = run([sql, "--format", "csv", traces.lake.to_str().unwrap()]).fine();
    assert_eq!(
        answer
            .lines()
            .filter(|line| line.ends_with(",true"))
            .count(),
        4,
        "{answer}"
    );
}
