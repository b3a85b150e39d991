//! Reads tables of a lake.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// A row: the text of each value that it has, by column.
pub(crate) type Row = BTreeMap<String, String>;

/// Returns all files of a lake, or of a folder in it, in order.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

/// Returns the rows of a table, file by file.
pub(crate) fn rows(lake: &Path, table: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for path in files(&lake.join(table)) {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let values = row.get_column_iter();
            let values = values.filter(|(_, value)| **value != Field::Null);
            let text = |value: &Field| match value {
                Field::Str(text) => text.clone(),
                other => other.to_string(),
            };
            rows.push(
                values
                    .map(|(name, value)| (name.clone(), text(value)))
                    .collect(),
            );
        }
    }
    rows
}

/// Returns the values of some columns of each row; `-` where there is none.
pub(crate) fn select(rows: &[Row], columns: &[&str]) -> Vec<String> {
    let values = rows.iter().map(|row| {
        let values = columns
            .iter()
            .map(|column| row.get(*column).map_or("-", |value| value));
        values.collect::<Vec<_>>().join(" ")
    });
    values.collect()
}
