//! Counts agree on files that are compressed, full, cut off, damaged or merged.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::alone;
use tracezero::{
    BufferConfig, Compression, InMemorySession, SessionState, TraceConfig, counter, instant, span,
};

use crate::agreement::{JudgeCounts, TOOL, agreed, agreed_on_file, scratch};
use crate::own_process::{file_of_process, process};

fn record(number: u64) {
    let _span = span!("counts", "span", number, text = "some text");
    counter!("counts", "counter", number);
}

/// Records a trace of 600 events.
fn a_trace() -> Vec<u8> {
    let session = InMemorySession::start().unwrap();
    (0..200).for_each(record);
    session.finish().0
}

#[test]
fn counts_agree_on_traces_compressed_by_the_service() {
    let _guard = alone();
    for (name, compression) in [
        ("deflate", Compression::Deflate),
        ("zstd", Compression::Zstd { level: 3 }),
    ] {
        let config = TraceConfig::empty()
            .add_buffer(BufferConfig::ring(1024))
            .record_all()
            .compression(compression);
        let session = config.clone().record_in_memory().unwrap();
        (0..1_000).for_each(record);
        let (trace, report) = session.finish();
        let judged = agreed(name, &trace, Some(&report));
        assert_eq!(judged.events, 3_000);
        assert!(trace.len() < 20_000, "{} bytes", trace.len());

        let file = scratch(&format!("{name} streamed.pftrace"));
        let session = config
            .file_write_period(Duration::from_millis(10))
            .record_to_file(&file)
            .unwrap();
        (0..3_000).for_each(record);
        let report = session.finish().unwrap();
        agreed_on_file(&file, Some(&report));
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn counts_agree_on_traces_compressed_by_the_command() {
    let _guard = alone();
    let plain = scratch("plain.pftrace");
    let packed = scratch("packed.pftrace");
    fs::write(&plain, a_trace()).unwrap();
    for packing in ["--zstd", "--level=9"] {
        let args = ["compress", packing, text(&plain), "-o", text(&packed)];
        TOOL.run(&args).unwrap();
        assert_eq!(agreed_on_file(&packed, None), agreed_on_file(&plain, None));
    }
    fs::remove_file(plain).unwrap();
    fs::remove_file(packed).unwrap();
}

#[test]
fn counts_agree_on_file_at_its_size_limit() {
    let _guard = alone();
    let file = scratch("full.pftrace");
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024))
        .record_all()
        .file_write_period(Duration::from_millis(10))
        .max_file_size_bytes(100_000)
        .record_to_file(&file)
        .unwrap();
    trace_until_ended(session.control().clone());
    let report = session.finish().unwrap();
    assert!(report.losses.file_full > 0, "{report}");
    agreed_on_file(&file, Some(&report));
    fs::remove_file(file).unwrap();
}

fn trace_until_ended(control: tracezero::SessionControl) {
    let mut number = 0;
    while control.state() != SessionState::Ended {
        record(number);
        number += 1;
    }
}

#[test]
fn counts_agree_on_file_on_full_disk() {
    let file = scratch("disk.pftrace");
    let role = "files::process_whose_disk_is_full";
    let output = process(role, &file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!file.exists(), "the process has looked at it: {output:?}");
}

#[test]
#[ignore = "a process of its own: no file of it may grow beyond the limit"]
fn process_whose_disk_is_full() {
    let Some(file) = file_of_process() else {
        return;
    };
    // Builds the command before the limit applies.
    TOOL.run(&["--version"]).unwrap();
    let unlimited = getrlimit(Resource::Fsize);
    let limited = Rlimit {
        current: Some(64 * 1024),
        ..unlimited
    };
    setrlimit(Resource::Fsize, limited).unwrap();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024))
        .record_all()
        .file_write_period(Duration::from_millis(10))
        .record_to_file(&file)
        .unwrap();
    trace_until_ended(session.control().clone());
    setrlimit(Resource::Fsize, unlimited).unwrap();
    let error = session.finish().unwrap_err();
    let report = error.report().unwrap();
    assert!(report.losses.write_failed > 0, "{report}");
    let judged = agreed_on_file(&file, Some(report));
    assert!(judged.events > 100, "{judged:?}");
    fs::remove_file(file).unwrap();
}

#[test]
fn counts_agree_on_file_cut_off_inside_a_packet() {
    let _guard = alone();
    let trace = a_trace();
    let mut judged = Vec::new();
    for cut in [1, 7, 100, trace.len() / 3, trace.len() / 2] {
        let rest = &trace[..trace.len() - cut];
        judged.push(agreed("cut off", rest, None));
    }
    assert!(judged.is_sorted_by_key(|it: &JudgeCounts| std::cmp::Reverse(it.events)));
    assert!(judged[4].events < judged[0].events, "{judged:?}");
}

#[test]
fn counts_agree_on_copy_of_growing_file() {
    let _guard = alone();
    let (file, copy) = (scratch("written.pftrace"), scratch("copy.pftrace"));
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(256))
        .record_all()
        .file_write_period(Duration::from_millis(1))
        .record_to_file(&file)
        .unwrap();
    for _ in 0..3 {
        (0..500).for_each(record);
        assert!(session.control().flush());
        fs::copy(&file, &copy).unwrap();
        agreed_on_file(&copy, None);
    }
    let report = session.finish().unwrap();
    assert_eq!(agreed_on_file(&file, Some(&report)).events, 3 * 1_500);
    fs::remove_file(file).unwrap();
    fs::remove_file(copy).unwrap();
}

#[test]
fn counts_agree_on_merged_traces() {
    let _guard = alone();
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(16))
        .record_all()
        .record_in_memory()
        .unwrap();
    (0..5_000).for_each(record);
    let lapped = session.finish().0;
    instant!("counts", "in none of them");
    let traces = [a_trace(), lapped, a_trace()];
    let mut paths = Vec::new();
    let mut sum = 0;
    for (number, trace) in traces.iter().enumerate() {
        let path = scratch(&format!("part {number}.pftrace"));
        fs::write(&path, trace).unwrap();
        sum += agreed_on_file(&path, None).events;
        paths.push(path);
    }
    let merged = scratch("merged.pftrace");
    let mut args = vec!["merge", "-o", text(&merged)];
    args.extend(paths.iter().map(|path| text(path)));
    TOOL.run(&args).unwrap();
    assert_eq!(agreed_on_file(&merged, None).events, sum);
    paths.push(merged);
    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
