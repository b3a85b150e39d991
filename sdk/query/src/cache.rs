//! Remembers which trace files a lake has, so that a file that is unchanged is not read again.
//!
//! The list is a file in the lake. Its name begins with `_`, so that engines leave it out. Where it is wrong or
//! missing, files are exported again, which changes nothing in the lake.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::error::QueryError;

const NAME: &str = "_query-files";

/// The trace files that a lake has.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles {
    /// What is known of each file, by its path.
    files: HashMap<String, Known>,
}

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    state: FileState,
    trace: TraceRow,
}

/// Differs if a file has changed, or would be exported in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileState(String);

/// What a row of table trace says of an export.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TraceRow {
    pub(crate) trace_id: String,
    pub(crate) source_hash: String,
    pub(crate) export_format: String,
}

impl KnownFiles {
    /// Reads the list of a lake. A lake without a list knows no files.
    pub(crate) fn load(lake: &Path) -> Self {
        let text = fs::read_to_string(lake.join(NAME)).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let files = lines.map(|line: [String; 5]| {
            let [path, state, trace_id, source_hash, export_format] = line;
            let trace = TraceRow {
                trace_id,
                source_hash,
                export_format,
            };
            let state = FileState(state);
            (path, Known { state, trace })
        });
        Self {
            files: files.collect(),
        }
    }

    /// Returns the id of the trace in a file, if the lake has the rows that an export of the file would write.
    pub(crate) fn trace_id(
        &self,
        path: &Path,
        state: &FileState,
        rows: &HashSet<TraceRow>,
    ) -> Option<&str> {
        let known = self.files.get(&name(path)?)?;
        let is_same = known.state == *state && rows.contains(&known.trace);
        is_same.then_some(&known.trace.trace_id)
    }

    /// Remembers the trace of a file. `state` is from before the file was read.
    pub(crate) fn add(&mut self, path: &Path, state: FileState, trace: &TraceRow) {
        if let Some(name) = name(path) {
            let trace = trace.clone();
            self.files.insert(name, Known { state, trace });
        }
    }

    /// Writes the list into a lake.
    pub(crate) fn store(&self, lake: &Path) -> Result<(), QueryError> {
        let mut text = String::new();
        for (path, Known { state, trace }) in &self.files {
            let line = [
                path,
                &state.0,
                &trace.trace_id,
                &trace.source_hash,
                &trace.export_format,
            ];
            text += &serde_json::to_string(&line).unwrap_or_default();
            text.push('\n');
        }
        // A reader sees the old list or the new one.
        let unfinished = lake.join(format!("{NAME}.{}.part", std::process::id()));
        let written = fs::write(&unfinished, text);
        let written = written.and_then(|()| fs::rename(&unfinished, lake.join(NAME)));
        written.map_err(|source| failed(unfinished, source))
    }
}

impl FileState {
    /// Returns the state of a file whose arguments `promote` would get a column. `None` for what is not a file.
    pub(crate) fn of(path: &Path, promote: &str) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let (bytes, nanos) = (metadata.len(), modified.as_nanos());
        let version = env!("CARGO_PKG_VERSION");
        metadata
            .is_file()
            .then(|| Self(format!("{bytes} {nanos} {version} {promote}")))
    }
}

fn failed(path: PathBuf, source: io::Error) -> QueryError {
    QueryError::File { path, source }
}

/// Returns the path of a file as the list has it: one that does not depend on the working directory.
fn name(path: &Path) -> Option<String> {
    fs::canonicalize(path)
        .ok()?
        .into_os_string()
        .into_string()
        .ok()
}
