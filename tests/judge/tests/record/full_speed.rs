//! Many programs at full speed. By default they are few, and for a short time: the environment variables
//! `TRACEZERO_RECORD_PROGRAMS` and `TRACEZERO_RECORD_SECONDS` say other numbers.

use std::{env, fs};

use support::Folder;

use crate::program::{COUNTS_FOLDER, PROGRAMS, SECONDS, command};
use crate::recording::Recorded;

/// More events than this are not read by a foreign reader, which takes seconds for each million.
const JUDGED_MAX: u64 = 400_000;

fn variable(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Returns the number before the first of these words in the report.
#[track_caller]
fn number_before(said: &str, words: &str) -> u64 {
    let (before, _) = said.split_once(words).expect(said);
    let digits = before.rsplit([' ', '\n']).next().unwrap();
    digits.parse().expect(said)
}

#[test]
fn the_account_of_many_programs_closes() {
    let counts = Folder::empty();
    let programs = variable(PROGRAMS, "8");
    let mut program = command("many at full speed");
    program
        .env(PROGRAMS, &programs)
        .env(SECONDS, variable(SECONDS, "0.03"))
        .env(COUNTS_FOLDER, counts.path());
    let recorded = Recorded::of(&[], &program);
    assert_eq!(recorded.status.code(), Some(0), "{}", recorded.said);
    println!("{}", recorded.said);
    let files = fs::read_dir(counts.path()).unwrap();
    let counts: Vec<u64> = files
        .map(|file| {
            let count = fs::read_to_string(file.unwrap().path()).unwrap();
            count.parse().unwrap()
        })
        .collect();
    assert_eq!(counts.len().to_string(), programs);
    let events = number_before(&recorded.said, " events of ");
    let lost = number_before(&recorded.said, " lost: ");
    let sum: u64 = counts.iter().sum();
    // Packets that start the state of a sequence again may be lost as well.
    assert!(
        (sum - lost..=sum).contains(&events),
        "{sum}: {}",
        recorded.said
    );
    assert!(lost > 0 || events == sum, "{sum}: {}", recorded.said);
    if sum <= JUDGED_MAX && lost == 0 {
        let verdict = recorded.judged();
        assert_eq!(verdict.events_named("fast").count() as u64, sum);
    }
}
