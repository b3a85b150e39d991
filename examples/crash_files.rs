//! Crash files: a service is killed while it records, and the trace of its last run is recovered.
//!
//! `cargo run --example crash_files` starts itself as a child process, the service, which calls
//! `abort`. It then does what the next run of the service does first. It leaves no file behind.

use std::error::Error;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs, thread};

use tracezero::crash::{self, RecoveredTrace};
use tracezero::reader::{Record, TraceReader};
use tracezero::{TraceConfig, instant, span};

/// The environment variable that tells the child process where its crash files are.
const DIRECTORY: &str = "CRASH_FILES_DIRECTORY";
const REQUESTS: u64 = 1000;
const LAST_EVENT: &str = "the last event";

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(directory) = env::var_os(DIRECTORY) {
        return serve(Path::new(&directory));
    }
    // In memory, and only for this program.
    let directory = PathBuf::from(format!("/dev/shm/tracezero-example-{}", process::id()));
    let status = Command::new(env::current_exe()?)
        .env(DIRECTORY, &directory)
        .status()?;
    println!("the service: {status}");
    assert!(status.signal().is_some(), "it was killed");

    let traces = save_last_run(&directory)?;
    assert_eq!(traces.len(), 1);
    for trace in &traces {
        println!(
            "{}: {} events, {} lost",
            trace.path.display(),
            trace.events,
            trace.lost_packets()
        );
        check(trace)?;
    }
    fs::remove_dir_all(&directory)?;
    Ok(())
}

/// Makes a trace of each session that a killed process has left, and removes its crash files.
fn save_last_run(directory: &Path) -> Result<Vec<RecoveredTrace>, Box<dyn Error>> {
    let mut traces = Vec::new();
    for leftover in crash::leftovers(directory)? {
        traces.extend(leftover.recover_into(directory.join("traces"))?);
        leftover.delete()?;
    }
    Ok(traces)
}

/// The service: saves what its last run left, and records until it is killed.
fn serve(directory: &Path) -> Result<(), Box<dyn Error>> {
    assert!(
        save_last_run(directory)?.is_empty(),
        "this is its first run"
    );
    let _session = TraceConfig::default()
        .crash_safe_in(directory)
        .record_in_memory()?;
    let answer_requests = || {
        for number in 0..REQUESTS {
            let _span = span!("service", "request", number);
        }
    };
    thread::scope(|scope| {
        scope.spawn(answer_requests);
        scope.spawn(answer_requests);
    });
    let _span = span!("service", "shut down");
    instant!("service", LAST_EVENT);
    process::abort(); // no destructor runs, and nothing is flushed
}

/// Checks that the trace has everything that the service recorded.
fn check(trace: &RecoveredTrace) -> Result<(), Box<dyn Error>> {
    let mut reader = TraceReader::open(&trace.path)?;
    let (mut events, mut has_last_event) = (0, false);
    while let Some(record) = reader.next()? {
        if let Record::Event(event) = record {
            events += 1;
            has_last_event |= event.name() == LAST_EVENT;
        }
    }
    for end in reader.recording_ends() {
        println!("{end}"); // that the trace was recovered, and when the process was killed
    }
    // Two threads with a begin and an end for each request; the begin of the last span; an instant.
    assert_eq!((events, trace.events), (4 * REQUESTS + 2, 4 * REQUESTS + 2));
    assert!(has_last_event && trace.lost_packets() == 0 && trace.damages.is_empty());
    Ok(())
}
