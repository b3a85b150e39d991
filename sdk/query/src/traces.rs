//! Exports trace files to a lake, to query that.
//!
//! So there is one way from a trace to rows, and trace files have the same rows as a lake.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracezero_lake::{ExportOptions, ExportOutcome, Exported, Lake, Promoted};

use crate::error::QueryError;
use crate::progress::ExportProgress;

/// Asks an export to end early.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn stop(&self) {
        // Relaxed, here and below: only the value itself matters.
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the traces lack, in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    lost_packets: u64,
    traces_with_errors: u64,
}

/// Exports trace files to a lake. Returns the id of each trace.
///
/// # Errors
///
/// If a file is no trace, or the lake cannot be written, or `stop` asks for the end.
pub(crate) fn export(
    paths: &[PathBuf],
    lake_path: &Path,
    promoted: &Promoted,
    stop: &Stop,
) -> Result<Vec<String>, QueryError> {
    let mut options = ExportOptions::default();
    options.promoted = promoted.clone();
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| QueryError::Trace { path, source }
    };
    let mut lake = Lake::open(lake_path).map_err(failed(lake_path))?;
    let progress = ExportProgress::start(paths);
    let mut ids: Vec<String> = Vec::new();
    let mut faults = Faults::default();
    for (index, path) in paths.iter().enumerate() {
        progress.begin(index);
        let trace = TraceFile::open(path, &progress, stop)?;
        let exported = lake.export(trace, &path.to_string_lossy(), &options);
        let exported = exported.map_err(failed(path))?;
        if let Some(earlier) = ids.iter().position(|id| *id == exported.trace_id) {
            progress.suspend(|| warn_of_same(&paths[earlier], path, exported.outcome));
        }
        faults.add(&exported);
        ids.push(exported.trace_id);
    }
    drop(progress);
    faults.print();
    Ok(ids)
}

fn warn_of_same(earlier: &Path, path: &Path, outcome: ExportOutcome) {
    let (earlier, path) = (earlier.display(), path.display());
    match outcome {
        ExportOutcome::Replaced => {
            eprintln!(
                "warning: {earlier} and {path} are the same trace at two times; only {path} counts"
            );
        }
        _ => eprintln!("warning: {earlier} and {path} are the same trace; it counts once"),
    }
}

impl Faults {
    fn add(&mut self, exported: &Exported) {
        self.lost_packets += exported.lost_packets;
        self.traces_with_errors += u64::from(exported.errors > 0);
    }

    /// Tells what a reader of the answer should know.
    fn print(self) {
        if self.lost_packets > 0 {
            let lost = self.lost_packets;
            eprintln!(
                "warning: the traces lack {lost} packets, which were lost; table loss tells where"
            );
        }
        if self.traces_with_errors > 0 {
            let traces = self.traces_with_errors;
            eprintln!("warning: traces with errors: {traces}; table finding tells which");
        }
    }
}

/// The bytes of a trace.
struct TraceFile<'a> {
    source: Box<dyn Read>,
    progress: &'a ExportProgress,
    stop: &'a Stop,
}

impl<'a> TraceFile<'a> {
    fn open(path: &Path, progress: &'a ExportProgress, stop: &'a Stop) -> Result<Self, QueryError> {
        let source: Box<dyn Read> = match path == Path::new("-") {
            true => Box::new(io::stdin().lock()),
            false => Box::new(File::open(path).map_err(|source| QueryError::File {
                path: path.to_owned(),
                source,
            })?),
        };
        Ok(Self {
            source,
            progress,
            stop,
        })
    }
}

impl Read for TraceFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_stopped() {
            return Err(io::Error::other("the export was asked to end"));
        }
        let count = self.source.read(buffer)?;
        self.progress.add(count);
        Ok(count)
    }
}
