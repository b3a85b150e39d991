//! A benchmark that counts the instructions of single steps, so that an increase is noticed.
//!
//! Callgrind counts the instructions, on x86-64. The bench starts itself under Callgrind for each
//! subject: a function that takes one step, and another that takes nine. An eighth of the
//! difference is the cost of a step among others, without the call. Counts do not depend on the
//! machine or its load, so they are compared with exact limits. They may depend on the compiler:
//! the limits hold for `rustc` 1.95. After an improvement, lower the limit.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A kind of step and its limit. `F` is the type of the functions that take the step.
pub struct Subject<F> {
    pub name: &'static str,
    /// The maximum number of instructions of one step.
    pub limit: u64,
    /// Earlier subjects that are a part of this step; their instructions are subtracted.
    pub without: &'static [&'static str],
    pub once: F,
    pub nine_times: F,
}

/// Declares `SUBJECTS`, and their functions in a module `counted`, whose name selects them for
/// Callgrind.
macro_rules! subjects {
    (
        |$state:ident: &mut $State:ty, $values:ident: &$Values:ty|
        $($name:ident: $limit:literal $(- $without:ident)?, $step:expr;)*
    ) => {
        mod counted {
            $(pub mod $name {
                use super::super::*;

                #[inline(always)]
                fn step($state: &mut $State, $values: &$Values) {
                    let _ = (&$state, &$values); // Not every step needs both.
                    $step;
                }

                #[inline(never)]
                pub fn once($state: &mut $State, $values: &$Values) {
                    step($state, $values);
                }

                #[inline(never)]
                pub fn nine_times($state: &mut $State, $values: &$Values) {
                    step($state, $values);
                    step($state, $values);
                    step($state, $values);
                    step($state, $values);
                    step($state, $values);
                    step($state, $values);
                    step($state, $values);
                    step($state, $values);
                    step($state, $values);
                }
            })*
        }

        const SUBJECTS: &[callgrind::Subject<fn(&mut $State, &$Values)>] = &[
            $(callgrind::Subject {
                name: stringify!($name),
                limit: $limit,
                without: &[$(stringify!($without))?],
                once: counted::$name::once,
                nine_times: counted::$name::nine_times,
            },)*
        ];
    };
}
pub(crate) use subjects;

/// Checks all subjects. If the first argument names a subject, as it does under Callgrind, only
/// runs both functions of that subject.
pub fn main<F>(subjects: &[Subject<F>], run: impl Fn(&F)) -> ExitCode {
    let name = match env::args().nth(1) {
        Some(name) if !name.starts_with('-') => name,
        _ => return check_all(subjects),
    };
    let Some(subject) = subjects.iter().find(|subject| subject.name == name) else {
        eprintln!("there is no subject '{name}'");
        return ExitCode::FAILURE;
    };
    run(&subject.once);
    run(&subject.nine_times);
    ExitCode::SUCCESS
}

fn check_all<F>(subjects: &[Subject<F>]) -> ExitCode {
    if !cfg!(target_arch = "x86_64") {
        println!("instructions are counted on x86-64 alone");
        return ExitCode::SUCCESS;
    }
    let this = env::current_exe().expect("a program knows where it is");
    let mut counts: Vec<(&str, u64)> = Vec::new();
    let mut too_many = false;
    println!("{:24} {:>12} {:>6}", "step", "instructions", "limit");
    for subject in subjects {
        let once = count(&this, subject.name, "once");
        let nine_times = count(&this, subject.name, "nine_times");
        let each = (nine_times - once).div_ceil(8);
        let others: u64 = counts
            .iter()
            .filter(|(name, _)| subject.without.contains(name))
            .map(|(_, count)| count)
            .sum();
        counts.push((subject.name, each));
        let own = each - others;
        let verdict = if own > subject.limit {
            "  too many"
        } else {
            ""
        };
        too_many |= own > subject.limit;
        println!("{:24} {own:12} {:6}{verdict}", subject.name, subject.limit);
    }
    if too_many {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Counts the instructions of one function of a subject, including all functions that it calls.
fn count(this: &Path, subject: &str, function: &str) -> u64 {
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg("--callgrind-out-file=/dev/null")
        .arg(format!("--toggle-collect=*counted::{subject}::{function}*"))
        .arg(this)
        .arg(subject)
        .output()
        .expect("valgrind is installed");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    messages
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
        .filter(|count| *count > 0)
        .unwrap_or_else(|| panic!("no count for {subject}::{function} in:\n{messages}"))
}
