//! Compares the trace buffer with a model: a slow, simple implementation, written from the
//! description of the buffer and without its code. Random operations, correct and hostile ones, are
//! done to both. After each, everything that is visible is compared.
//!
//! `TRACE_BUFFER_OPERATIONS` sets the number of operations, `TRACE_BUFFER_SEED` the first run.
//! Without optimizations the default number is lower. CI runs the full number with `--release`.

#[path = "trace_buffer_model/compare.rs"]
mod compare;
#[path = "conformance/format.rs"]
mod format;
#[path = "trace_buffer_model/model.rs"]
mod model;
#[path = "trace_buffer_model/random.rs"]
mod random;
#[path = "conformance/runner.rs"]
mod runner;
#[path = "trace_buffer_model/scenario.rs"]
mod scenario;
#[path = "trace_buffer_model/shrink.rs"]
mod shrink;

use crate::random::{Operation, Run};

const OPERATIONS: usize = if cfg!(debug_assertions) {
    200_000
} else {
    1_000_000
};

fn from_environment<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).map_or(default, |value| {
        let parsed = value.parse();
        parsed.unwrap_or_else(|_| panic!("{name} is not a number: '{value}'"))
    })
}

/// Returns the first failure of a run, if there is one.
fn failure(run: &Run) -> Option<String> {
    match std::panic::catch_unwind(|| compare::run(run)) {
        Ok(Ok(())) => None,
        Ok(Err(difference)) => Some(difference.to_string()),
        Err(_) => Some("one of the two panics".to_owned()),
    }
}

#[test]
fn the_buffer_does_what_the_model_does() {
    let operations = from_environment("TRACE_BUFFER_OPERATIONS", OPERATIONS);
    let mut seed: u64 = from_environment("TRACE_BUFFER_SEED", 0);
    let mut done = 0;
    while done < operations {
        let run = random::run(seed);
        done += run.operations.len();
        if failure(&run).is_some() {
            let run = shrink::shrink(run, |run| failure(run).is_some());
            let observed = if run.observed {
                "observed"
            } else {
                "unobserved"
            };
            panic!(
                "seed {seed}, {observed}: {}\n{}",
                failure(&run).expect("shrinking keeps the failure"),
                scenario::print(&format!("SEED_{seed}"), &run)
            );
        }
        seed += 1;
    }
    println!("{done} operations without a difference");
}

#[test]
fn runs_can_be_printed_as_scenarios_and_run_as_such() {
    for seed in 0..40 {
        let text = scenario::print("RANDOM", &random::run(seed));
        let scenarios = format::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let scenarios = format::with_ideal_twins(scenarios);
        assert_eq!(scenarios.len(), 1);
        runner::run(&scenarios[0]).unwrap_or_else(|error| panic!("seed {seed}, {error}: {text}"));
    }
}

#[test]
fn a_run_shrinks_to_the_operations_it_fails_for() {
    // Simulate a fault that shows at the second patch after a clone.
    let fails = |run: &Run| {
        let mut operations = run.operations.iter();
        let mut patches = 0;
        let cloned = operations.any(|operation| matches!(operation, Operation::Clone));
        for operation in operations {
            patches += usize::from(matches!(operation, Operation::Patch(_)));
        }
        cloned && patches >= 2
    };
    let run = (0..).map(random::run).find(fails).expect("there are many");
    let shrunk = shrink::shrink(run, fails);
    assert!(
        matches!(
            shrunk.operations[..],
            [Operation::Clone, Operation::Patch(_), Operation::Patch(_)]
        ),
        "{shrunk:?}"
    );
}
