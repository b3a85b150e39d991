//! Who counts, and whether all agree.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use judge::{Counts, Tool, counts, disagreements};
use support::alone;
use tracezero::{InMemorySession, Report};

/// What the judge counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    pub packets: u64,
    pub events: u64,
    pub data_packets: u64,
    pub undecodable: u64,
}

/// Records `work`, and expects that all agree about it.
#[track_caller]
pub fn recorded(name: &str, work: impl FnOnce()) -> Judged {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    work();
    let (trace, report) = session.finish();
    agreed(name, &trace, Some(&report))
}

/// Expects that all who count agree about a trace. What is recorded meanwhile is no matter.
#[track_caller]
pub fn agreed(name: &str, trace: &[u8], report: Option<&Report>) -> Judged {
    let file = scratch(&format!("{name}.pftrace"));
    fs::write(&file, trace).unwrap();
    let judged = agreed_on_file(&file, report);
    fs::remove_file(file).unwrap();
    judged
}

#[track_caller]
pub fn agreed_on_file(file: &Path, report: Option<&Report>) -> Judged {
    let judge = judge_of(file);
    let differences = differences(&judge, file, report);
    assert!(
        differences.is_empty(),
        "{}:\n{}",
        file.display(),
        differences.join("\n")
    );
    Judged {
        packets: judge.packets.unwrap(),
        events: judge.events.unwrap(),
        data_packets: judge.data_packets.unwrap(),
        undecodable: judge.undecodable.unwrap(),
    }
}

/// What the judge counts in a file. It does not look into compressed packets, so it gets them unpacked.
pub fn judge_of(file: &Path) -> Counts {
    let unpacked = file.with_extension("unpacked");
    let args = ["decompress".as_ref(), file.as_os_str(), "-o".as_ref()];
    TOOL.run(&[&args[..], &[unpacked.as_os_str()]].concat())
        .unwrap();
    let trace = fs::read(file).unwrap();
    let plain = fs::read(&unpacked).unwrap();
    fs::remove_file(unpacked).unwrap();
    Counts {
        bytes: Some(trace.len() as u64),
        ..counts(&plain)
    }
}

/// Where others count something else than the judge.
pub fn differences(judge: &Counts, file: &Path, report: Option<&Report>) -> Vec<String> {
    let of_tool = TOOL.counts(file, judge.extra_values.unwrap()).unwrap();
    let of_report = report.map(|report| ("the report", Counts::from(report)));
    of_report
        .into_iter()
        .chain(of_tool)
        .flat_map(|(who, counts)| disagreements(judge, who, &counts))
        .collect()
}

/// The command. Cargo hands an executable to the tests of its own package alone; whoever runs all
/// tests has it beside the judge's. Else it is built.
pub static TOOL: LazyLock<Tool> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_BIN_EXE_judge")).parent().unwrap();
    let binary = folder.join("tracezero");
    if !is_newer_than_its_source(&binary) {
        build_tool(folder);
    }
    Tool::new(binary)
});

/// What the command is built of.
const SOURCES: [&str; 6] = [
    "protozero/src",
    "protozero-codegen/src",
    "sdk/schema/protos",
    "sdk/core/src",
    "sdk/reader/src",
    "sdk/tool/src",
];

fn is_newer_than_its_source(binary: &Path) -> bool {
    let Ok(built) = fs::metadata(binary).and_then(|file| file.modified()) else {
        return false;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<_> = SOURCES.map(|folder| root.join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let file = entry.metadata().unwrap();
            if file.is_dir() {
                folders.push(entry.path());
            } else if file.modified().unwrap() > built {
                return false;
            }
        }
    }
    true
}

/// Builds the command into the folder of a profile.
fn build_tool(folder: &Path) {
    let profile = match folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--locked", "--offline", "--profile", profile])
        .args(["--package", "tracezero-cli", "--bin", "tracezero"])
        .arg("--target-dir")
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("counts_agree");
    fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}
