//! Collects the counts of all sources, and compares them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use judge::{Counts, Tool, built_tool, counts, disagreements};
use support::alone;
use tracezero::{InMemorySession, Report};

/// The judge's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgeCounts {
    pub packets: u64,
    pub events: u64,
    pub data_packets: u64,
    pub undecodable: u64,
}

/// Records `work`, and asserts that all counts of the trace agree.
#[track_caller]
pub fn recorded(name: &str, work: impl FnOnce()) -> JudgeCounts {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    work();
    let (trace, report) = session.finish();
    agreed(name, &trace, Some(&report))
}

/// Asserts that all counts of a trace agree. Other sessions may record meanwhile.
#[track_caller]
pub fn agreed(name: &str, trace: &[u8], report: Option<&Report>) -> JudgeCounts {
    let file = scratch(&format!("{name}.pftrace"));
    fs::write(&file, trace).unwrap();
    let judged = agreed_on_file(&file, report);
    fs::remove_file(file).unwrap();
    judged
}

#[track_caller]
pub fn agreed_on_file(file: &Path, report: Option<&Report>) -> JudgeCounts {
    let judge = judge_of(file);
    let differences = differences(&judge, file, report);
    assert!(
        differences.is_empty(),
        "{}:\n{}",
        file.display(),
        differences.join("\n")
    );
    JudgeCounts {
        packets: judge.packets.unwrap(),
        events: judge.events.unwrap(),
        data_packets: judge.data_packets.unwrap(),
        undecodable: judge.undecodable.unwrap(),
    }
}

/// Returns the judge's counts of a file. Decompresses it first, since the judge does not read
/// compressed packets.
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

/// Returns a line for each count that differs from the judge's.
pub fn differences(judge: &Counts, file: &Path, report: Option<&Report>) -> Vec<String> {
    let of_tool = TOOL.counts(file, judge.extra_values.unwrap()).unwrap();
    let of_report = report.map(|report| ("the report", Counts::from(report)));
    of_report
        .into_iter()
        .chain(of_tool)
        .flat_map(|(who, counts)| disagreements(judge, who, &counts))
        .collect()
}

/// The command `tracezero`.
pub static TOOL: LazyLock<Tool> =
    LazyLock::new(|| built_tool(Path::new(env!("CARGO_BIN_EXE_judge"))));

pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("counts_agree");
    fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}
