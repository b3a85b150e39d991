//! Judges trace files:
//! `judge [--extensions SCHEMA]... [--config NUMBER SCHEMA MESSAGE]... [--open-spans] [--after-loss]
//! [--tool TRACEZERO] [--report OUTPUT] [--tables OUTPUT] TRACE...`
//!
//! `--config` gives the message type of a field of data sources' configurations. `--open-spans`
//! allows spans without an end, which a snapshot has. `--after-loss` allows packets that need lost
//! definitions, which a ring buffer has. `--tool` is the command `tracezero`, whose counts must
//! equal the judge's. `--report` is a file with the output of the program that printed its
//! session's report, whose counts must be equal, too. `--tables` writes a file with what a lake must
//! have of the traces, for `engines/compare.py`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use judge::{Counts, ExtraSchema, Options, Tool, disagreements, judge_with, tables};

/// The number of problems that are shown per trace: one mistake often causes thousands.
const SHOWN_MAX: usize = 20;

fn main() -> ExitCode {
    let mut extra = ExtraSchema::new();
    let mut options = Options::default();
    let mut others = OtherCounts::default();
    let mut files = Vec::new();
    let mut tables_output = None;
    let mut tables_of_traces = serde_json::Map::new();
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
            "--tool" => {
                let binary = arguments.next().expect("a command after --tool");
                others.tool = Some(Tool::new(binary));
            }
            "--report" => {
                let output = arguments.next().expect("a file after --report");
                let text = fs::read_to_string(&output);
                let text = text.unwrap_or_else(|error| panic!("{output}: {error}"));
                others.printed_report = Some(text);
            }
            "--tables" => {
                tables_output = Some(arguments.next().expect("a file after --tables"));
            }
            _ => files.push(argument),
        }
    }
    assert!(!files.is_empty(), "no trace to judge");
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        if tables_output.is_some() {
            tables_of_traces.insert(file.clone(), tables(&bytes, &extra));
        }
        match judge_with(&bytes, &extra, options) {
            Ok(verdict) => {
                println!(
                    "{file}: {} packets, {} events, {} custom messages",
                    verdict.packets.len(),
                    verdict.events.len(),
                    verdict.custom.len()
                );
                let counts = Counts::of_verdict(&verdict, &bytes);
                for difference in others.differences(&counts, file.as_ref()) {
                    eprintln!("{file}: {difference}");
                    code = ExitCode::FAILURE;
                }
            }
            Err(problems) => {
                eprintln!("{file}: {} problems", problems.len());
                for problem in problems.iter().take(SHOWN_MAX) {
                    eprintln!("  {problem}");
                }
                code = ExitCode::FAILURE;
            }
        }
    }
    if let Some(output) = tables_output {
        let text = serde_json::Value::Object(tables_of_traces).to_string();
        fs::write(&output, text).unwrap_or_else(|error| panic!("{output}: {error}"));
    }
    code
}

/// Other sources of counts, to compare with the judge's.
#[derive(Default)]
struct OtherCounts {
    tool: Option<Tool>,
    printed_report: Option<String>,
}

impl OtherCounts {
    /// Returns a line for each count that differs from the judge's.
    fn differences(&self, judge: &Counts, file: &Path) -> Vec<String> {
        let mut differences = Vec::new();
        if let Some(tool) = &self.tool {
            let said = tool.counts(file, judge.extra_values.unwrap_or(0));
            let said = said.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let said = said.iter();
            differences.extend(said.flat_map(|(who, said)| disagreements(judge, who, said)));
        }
        if let Some(printed) = &self.printed_report {
            match Counts::of_printed_report(printed, file) {
                Some(report) => {
                    differences.extend(disagreements(judge, "the report", &report));
                }
                None => differences.push("no report of it was printed".to_owned()),
            }
        }
        differences
    }
}
