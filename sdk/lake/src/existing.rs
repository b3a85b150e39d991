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
    /// Describes the columns.
    pub(crate) format: String,
    /// Tells the contents of the trace.
    pub(crate) source_hash: String,
    /// The folder of each table that the rows are in.
    pub(crate) partition: String,
    /// True if the rows are in files that have several traces.
    pub(crate) is_compacted: bool,
}

impl Existing {
    /// Returns true if an export like `other` would write the same rows.
    pub(crate) fn has_same_rows(&self, other: &Self) -> bool {
        let is_at_home = self.partition == other.partition;
        self.format == other.format && self.source_hash == other.source_hash && is_at_home
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
        for path in parquet_files(&folder)? {
            let name = path.file_stem().unwrap_or_default().as_encoded_bytes();
            let rest = name.strip_prefix(trace_id.as_bytes());
            if rest.is_some_and(|rest| rest.first() == Some(&b'-')) {
                found.push(path);
            }
        }
    }
    Ok(found)
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
        for (name, value) in row.get_column_iter() {
            let Field::Str(text) = value else { continue };
            match name.as_str() {
                "trace_id" => trace_id = text.clone(),
                "export_format" => format = text.clone(),
                "source_hash" => source_hash = text.clone(),
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
    let is_parquet = |path: &PathBuf| path.extension().is_some_and(|it| it == "parquet");
    Ok(entries(path)?.into_iter().filter(is_parquet).collect())
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
