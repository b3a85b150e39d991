//! A lake: a folder of tables, to which traces are exported.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::compact::{self, Compacted};
use crate::error::LakeError;
use crate::existing::{self, Existing};
use crate::export::{self, Request};
use crate::promoted::Promoted;
use crate::staging::{self, Staging};
use crate::table::Table;
use crate::workers::Workers;

/// A folder of Parquet files, which hold tables of traces.
///
/// A file of table `slice` is at `slice/day=2026-11-21/service=api/<trace id>-000.parquet`; the others likewise.
/// The day is that of the first event, in UTC. Several processes may export to a lake at the same time.
///
/// ```
/// use tracezero::{InMemorySession, span};
/// use tracezero_lake::{ExportOptions, ExportOutcome, Lake};
///
/// let session = InMemorySession::start()?;
/// drop(span!("app", "work"));
/// let (trace, _) = session.finish();
///
/// # let folder = support::Folder::empty();
/// # let path = folder.path();
/// let mut lake = Lake::open(path)?;
/// let options = ExportOptions::default();
/// let exported = lake.export(&trace[..], "app.pftrace", &options)?;
/// assert_eq!(exported.outcome, ExportOutcome::Added);
/// // Nothing happens if the trace is in the lake.
/// let exported = lake.export(&trace[..], "app.pftrace", &options)?;
/// assert_eq!(exported.outcome, ExportOutcome::Unchanged);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lake {
    path: PathBuf,
    workers: Workers,
    /// The traces that are in the lake, by id.
    existing: HashMap<String, Existing>,
}

/// Options of an export.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The arguments that get a column of their own.
    pub promoted: Promoted,
    /// The name of the service. `None` takes it from the trace: the attribute `service.name`, or else the name of
    /// the process.
    pub service: Option<String>,
}

impl ExportOptions {
    /// Describes exports with these options.
    fn format(&self) -> String {
        export::export_format(&self.promoted, self.service.as_deref())
    }
}

/// What an export did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The id of the trace: its uuid if it has one, or else a hash of its beginning.
    pub trace_id: String,
    /// What became of the trace in the lake.
    pub outcome: ExportOutcome,
    /// The number of rows of each table.
    pub rows: Vec<(Table, u64)>,
    /// The size of the trace.
    pub trace_bytes: u64,
    /// The size of the files that were written.
    pub lake_bytes: u64,
    /// The number of packets that are known to be lost.
    pub lost_packets: u64,
    /// The number of errors in the trace, which are in table `finding`.
    pub errors: u64,
    /// The names of promoted arguments whose columns are empty: no slice has such an argument with a value of the
    /// column's type.
    pub unused_promoted: Vec<String>,
}

/// What became of a trace in a lake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExportOutcome {
    /// The trace is new.
    Added,
    /// A shorter copy of the trace was there, or the trace was exported with other promoted arguments. The new tables have
    /// taken the place of the old ones.
    Replaced,
    /// The trace was there already, or a longer copy of it was.
    Unchanged,
}

impl Lake {
    /// Opens a lake. A folder that does not exist is created by the first export.
    ///
    /// # Errors
    ///
    /// If a folder or file of the lake cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LakeError> {
        let path = path.as_ref();
        staging::recover(path)?;
        Ok(Self {
            existing: existing::traces(path)?,
            path: path.to_owned(),
            workers: Workers::start(),
        })
    }

    /// Returns true if an [`export`](Self::export) of a trace with these options would change nothing. Reads little of
    /// a trace that is new, and all of one that is there, which takes a small part of the time of an export.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read.
    pub fn has(&self, source: impl Read, options: &ExportOptions) -> Result<bool, LakeError> {
        let (trace_id, read_rest) = export::identify(source)?;
        match self.existing.get(&trace_id) {
            Some(known) if known.format == options.format() => {
                Ok(known.source_hash == read_rest()?)
            }
            _ => Ok(false),
        }
    }

    /// Exports a trace. `source` is the trace, and `name` the name of its file.
    ///
    /// The lake has all tables of the trace, or none: files are written apart and renamed at the end.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read or the lake cannot be written. The lake is then as it was before. Damage inside
    /// of a trace is no error: the lake gets what is sound, and the table `finding` tells what is not.
    pub fn export(
        &mut self,
        source: impl Read,
        name: &str,
        options: &ExportOptions,
    ) -> Result<Exported, LakeError> {
        let mut staging = Staging::create(&self.path)?;
        let format = options.format();
        let request = Request {
            source: name,
            promoted: &options.promoted,
            service: options.service.as_deref(),
            format: &format,
            needs_file: &|table, trace_id| !existing::has_file_beside(&self.path, table, trace_id),
        };
        let trace = export::export(source, &request, &staging, &self.workers)?;
        let existing = Existing {
            format: format.clone(),
            source_hash: trace.source_hash,
            bytes: trace.bytes,
            partition: format!("day={}/service={}", trace.day, trace.service),
            is_compacted: false,
        };
        let known = self.existing.get(&trace.trace_id);
        let outcome = match known {
            None => ExportOutcome::Added,
            Some(known) if known.has_same_rows(&existing) || known.has_more_than(&existing) => {
                ExportOutcome::Unchanged
            }
            Some(known) if known.is_compacted => {
                return Err(LakeError::Compacted {
                    trace_id: trace.trace_id,
                });
            }
            Some(_) => ExportOutcome::Replaced,
        };
        let mut lake_bytes = 0;
        let mut rows = Vec::new();
        for files in &trace.tables {
            rows.push((files.table, files.rows));
            for (index, path) in files.paths.iter().enumerate() {
                let size = fs::metadata(path).map_err(LakeError::at(path))?.len();
                lake_bytes += size;
                let name = format!("{}-{index:03}.parquet", trace.trace_id);
                let folder = Path::new(files.table.name()).join(&existing.partition);
                staging.add(path.clone(), folder.join(name));
            }
        }
        if outcome != ExportOutcome::Unchanged {
            let replaced = match known {
                Some(known) => existing::files(&self.path, &trace.trace_id, known)?,
                None => Vec::new(),
            };
            staging.commit(&replaced)?;
            self.existing.insert(trace.trace_id.clone(), existing);
        }
        Ok(Exported {
            trace_id: trace.trace_id,
            outcome,
            rows,
            trace_bytes: trace.bytes,
            lake_bytes,
            lost_packets: trace.lost_packets,
            errors: trace.check.errors,
            unused_promoted: trace.unused_promoted,
        })
    }

    /// Joins small files: those of each table, day and service that have the same columns, into files of up to
    /// 128 MiB. Engines take much longer to open files than to read few rows. Traces that were joined are not
    /// exported again.
    ///
    /// A query that runs at the same time may find rows twice, or not at all.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written. The lake has all rows once all the same.
    pub fn compact(&mut self) -> Result<Compacted, LakeError> {
        let compacted = compact::compact(&self.path)?;
        self.existing = existing::traces(&self.path)?;
        Ok(compacted)
    }
}
