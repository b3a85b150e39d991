//! Finds the traces that are in a lake.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use crate::error::LakeError;
use crate::table::Table;

/// How a trace was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Existing {
    /// Describes the export.
    pub(crate) format: String,
    /// Tells the contents of the trace.
    pub(crate) source_hash: String,
    /// The size of the trace.
    pub(crate) bytes: u64,
    /// The folder of each table that the rows are in.
    pub(crate) partition: String,
    /// True if the rows are in files that have several traces.
    pub(crate) is_compacted: bool,
}

impl Existing {
    /// Returns true if an export like `other` would write the same rows.
    pub(crate) fn has_same_rows(&self, other: &Self) -> bool {
        self.format == other.format && self.source_hash == other.source_hash
    }

    /// Returns true if `other` is a copy that has less of the trace, such as an earlier file of a flight recorder.
    pub(crate) fn has_more_than(&self, other: &Self) -> bool {
        self.source_hash != other.source_hash && self.bytes > other.bytes
    }
}

/// Returns the traces of a lake, by id.
pub(crate) fn traces(lake: &Path) -> Result<HashMap<String, Existing>, LakeError> {
    let mut found = HashMap::new();
    let table = lake.join(Table::Trace.name());
    for day in folders(&table)? {
        for service in folders(&day)? {
            for path in parquet_files(&service)? {
                add_traces(&path, &table, &mut found)?;
            }
        }
    }
    Ok(found)
}

/// Returns the files of a trace whose files have no other trace.
pub(crate) fn files(
    lake: &Path,
    trace_id: &str,
    existing: &Existing,
) -> Result<Vec<PathBuf>, LakeError> {
    let mut found = Vec::new();
    for table in Table::ALL {
        let folder = lake.join(table.name()).join(&existing.partition);
        let files = parquet_files(&folder)?.into_iter();
        found.extend(files.filter(|path| is_file_of(path, trace_id)));
    }
    Ok(found)
}

/// Returns true if a table has a file that is not one of this trace. Does not look further than to the first.
pub(crate) fn has_file_beside(lake: &Path, table: Table, trace_id: &str) -> bool {
    let paths = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.flatten().map(|entry| entry.path())
    };
    let days = paths(&lake.join(table.name()));
    let services = days.flat_map(|day| paths(&day));
    let mut files = services.flat_map(|service| paths(&service));
    files.any(|path| is_parquet(&path) && !is_file_of(&path, trace_id))
}

/// Returns true if a file is named after a trace.
fn is_file_of(path: &Path, trace_id: &str) -> bool {
    let name = path.file_stem().unwrap_or_default().as_encoded_bytes();
    let rest = name.strip_prefix(trace_id.as_bytes());
    rest.is_some_and(|rest| rest.first() == Some(&b'-'))
}

/// Adds the traces of a file of table `trace`.
fn add_traces(
    path: &Path,
    table: &Path,
    found: &mut HashMap<String, Existing>,
) -> Result<(), LakeError> {
    let failed = LakeError::in_parquet(path);
    let file = File::open(path).map_err(LakeError::at(path))?;
    let reader = SerializedFileReader::new(file).map_err(&failed)?;
    let partition = path
        .parent()
        .and_then(|folder| folder.strip_prefix(table).ok());
    let partition = partition
        .unwrap_or(Path::new(""))
        .to_string_lossy()
        .into_owned();
    for row in reader.get_row_iter(None).map_err(&failed)? {
        let row = row.map_err(&failed)?;
        let (mut trace_id, mut format, mut source_hash) = Default::default();
        let mut bytes = 0;
        for (name, value) in row.get_column_iter() {
            match (name.as_str(), value) {
                ("trace_id", Field::Str(text)) => trace_id = text.clone(),
                ("export_format", Field::Str(text)) => format = text.clone(),
                ("source_hash", Field::Str(text)) => source_hash = text.clone(),
                ("bytes", Field::Long(count)) => bytes = count.cast_unsigned(),
                _ => {}
            }
        }
        let own_name = format!("{trace_id}-000.parquet");
        let is_compacted = path
            .file_name()
            .is_none_or(|name| name != own_name.as_str());
        let existing = Existing {
            format,
            source_hash,
            bytes,
            partition: partition.clone(),
            is_compacted,
        };
        found.insert(trace_id, existing);
    }
    Ok(())
}

/// Returns the folders in a folder, in order; none if there is no such folder.
pub(crate) fn folders(path: &Path) -> Result<Vec<PathBuf>, LakeError> {
    Ok(entries(path)?
        .into_iter()
        .filter(|path| path.is_dir())
        .collect())
}

/// Returns the Parquet files in a folder, in order; none if there is no such folder.
pub(crate) fn parquet_files(path: &Path) -> Result<Vec<PathBuf>, LakeError> {
    let entries = entries(path)?.into_iter();
    Ok(entries.filter(|path| is_parquet(path)).collect())
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "parquet")
}

/// Returns the entries of a folder, in order; none if there is no such folder.
fn entries(path: &Path) -> Result<Vec<PathBuf>, LakeError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LakeError::at(path)(error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths
        .collect::<Result<Vec<_>, _>>()
        .map_err(LakeError::at(path))?;
    paths.sort();
    Ok(paths)
}
