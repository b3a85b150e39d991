//! Judges trace files:
//! `judge [--extensions SCHEMA]... [--config NUMBER SCHEMA MESSAGE]... [--open-spans] [--after-loss] TRACE...`
//!
//! `--config` says what a field of data sources' configurations is.
//! `--open-spans` lets spans without an end pass, as a snapshot has them, and `--after-loss` packets
//! that need what was lost, as a ring has them.

use std::env;
use std::fs;
use std::process::ExitCode;

use judge::{ExtraSchema, Options, judge_with};

/// Problems of one trace that are shown: one mistake often makes thousands.
const SHOWN_MAX: usize = 20;

fn main() -> ExitCode {
    let mut extra = ExtraSchema::new();
    let mut options = Options::default();
    let mut files = Vec::new();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--open-spans" => options.allow_open_spans = true,
            "--after-loss" => options.allow_unreadable_after_loss = true,
            "--extensions" => {
                let schema = arguments.next().expect("a schema after --extensions");
                extra = extra.extensions(schema);
            }
            "--config" => {
                let mut next = || arguments.next().expect("three words after --config");
                let (number, schema, message) = (next(), next(), next());
                let number = number.parse().expect("a field number");
                extra = extra.config_field(number, schema, &message);
            }
            _ => files.push(argument),
        }
    }
    assert!(!files.is_empty(), "no trace to judge");
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        match judge_with(&bytes, &extra, options) {
            Ok(verdict) => println!(
                "{file}: {} packets, {} events, {} custom messages",
                verdict.packets.len(),
                verdict.events.len(),
                verdict.custom.len()
            ),
            Err(problems) => {
                eprintln!("{file}: {} problems", problems.len());
                for problem in problems.iter().take(SHOWN_MAX) {
                    eprintln!("  {problem}");
                }
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
