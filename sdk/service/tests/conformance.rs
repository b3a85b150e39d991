//! Runs the conformance scenarios of the trace buffer, in `conformance/trace_buffer_v2.txt`. The
//! head of that file describes its format.
//!
//! `TRACE_BUFFER_SCENARIOS` names another file to run instead.

#[path = "conformance/format.rs"]
mod format;
#[path = "conformance/runner.rs"]
mod runner;

use std::fmt::Write;
use std::path::PathBuf;

/// Scenarios that are known to fail, each with the reason. One that passes must be removed from the
/// list.
///
/// Lines marked `~` count like all others. Perfetto's own tests do not assert them, but they were
/// observed on Perfetto's own buffer. They hold here too, or an `ideal` scenario replaces them.
const KNOWN_FAILURES: &[(&str, &str)] = &[];

#[test]
fn conformance() {
    let path = std::env::var_os("TRACE_BUFFER_SCENARIOS").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/conformance/trace_buffer_v2.txt"
            ))
        },
        PathBuf::from,
    );
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let scenarios =
        format::parse(&text).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
    let scenarios = format::with_ideal_twins(scenarios);

    let mut passed = 0;
    let mut complaints = String::new();
    for scenario in &scenarios {
        let is_known = KNOWN_FAILURES
            .iter()
            .any(|&(name, _)| name == scenario.name);
        match runner::run(scenario) {
            Ok(()) => {
                passed += 1;
                if is_known {
                    writeln!(complaints, "{} passes: take it off the list", scenario.name).unwrap();
                }
            }
            Err(difference) => {
                println!("{}: {difference}", scenario.name);
                if !is_known {
                    writeln!(complaints, "{}: {difference}", scenario.name).unwrap();
                }
            }
        }
    }
    println!("{passed} of {} scenarios passed", scenarios.len());
    assert!(
        !scenarios.is_empty(),
        "{} holds no scenario",
        path.display()
    );
    assert!(complaints.is_empty(), "\n{complaints}");
}
