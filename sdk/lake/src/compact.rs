//! Joins small files of a lake.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::Type;
use twox_hash::XxHash3_128;

use crate::batch::{Data, ROWS_MAX, Values};
use crate::encode::Format;
use crate::error::LakeError;
use crate::existing::{folders, parquet_files};
use crate::file_writer::FileWriter;
use crate::staging::Staging;
use crate::table::{Column, ColumnType, Table};

/// The size from which a file is left as it is, and up to which files are joined.
const FILE_MAX_BYTES: u64 = 128 << 20;

/// The result of [`Lake::compact`](crate::Lake::compact).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The number of files that were joined.
    pub files_before: u64,
    /// The number of files that have taken their place.
    pub files_after: u64,
    /// The size of the files that were joined.
    pub bytes_before: u64,
    /// The size of the files that have taken their place.
    pub bytes_after: u64,
}

/// A small file.
struct SmallFile {
    path: PathBuf,
    bytes: u64,
}

/// Joins the small files of each table and partition.
pub(crate) fn compact(lake: &Path) -> Result<Compacted, LakeError> {
    let mut total = Compacted::default();
    for table in Table::ALL {
        for day in folders(&lake.join(table.name()))? {
            for service in folders(&day)? {
                for group in groups(&service)? {
                    total.add(join(lake, table, &service, &group)?);
                }
            }
        }
    }
    Ok(total)
}

impl Compacted {
    fn add(&mut self, other: Self) {
        self.files_before += other.files_before;
        self.files_after += other.files_after;
        self.bytes_before += other.bytes_before;
        self.bytes_after += other.bytes_after;
    }
}

/// Returns the small files of a folder in groups: files with the same columns, which together are not too large.
fn groups(folder: &Path) -> Result<Vec<Vec<SmallFile>>, LakeError> {
    let mut by_columns: BTreeMap<String, Vec<Vec<SmallFile>>> = BTreeMap::new();
    for path in parquet_files(folder)? {
        let bytes = fs::metadata(&path).map_err(LakeError::at(&path))?.len();
        if bytes >= FILE_MAX_BYTES {
            continue;
        }
        let reader = open(&path)?;
        let metadata = reader.metadata().file_metadata();
        let columns = format!("{:?}", columns(metadata.schema()));
        let groups = by_columns.entry(columns).or_default();
        let file = SmallFile { path, bytes };
        match groups.last_mut() {
            Some(group) if size(group) + bytes <= FILE_MAX_BYTES => group.push(file),
            _ => groups.push(vec![file]),
        }
    }
    let groups = by_columns.into_values().flatten();
    Ok(groups.filter(|group| group.len() > 1).collect())
}

fn size(files: &[SmallFile]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

/// Joins the files of a group into one.
fn join(
    lake: &Path,
    table: Table,
    folder: &Path,
    files: &[SmallFile],
) -> Result<Compacted, LakeError> {
    let mut staging = Staging::create(lake)?;
    let mut joined: Option<Joined> = None;
    for file in files {
        let reader = open(&file.path)?;
        let failed = LakeError::in_parquet(&file.path);
        let joined = match &mut joined {
            Some(joined) => joined,
            None => {
                let metadata = reader.metadata().file_metadata();
                let columns = columns(metadata.schema());
                let pairs = metadata.key_value_metadata().cloned().unwrap_or_default();
                joined.insert(Joined::create(&staging, table, columns, pairs)?)
            }
        };
        for index in 0..reader.num_row_groups() {
            let group = reader.get_row_group(index).map_err(&failed)?;
            let rows = group.metadata().num_rows() as usize;
            for (column, values) in joined.values.iter_mut().enumerate() {
                let reader = group.get_column_reader(column).map_err(&failed)?;
                read_column(reader, rows, values).map_err(&failed)?;
            }
            joined.rows += rows;
            if joined.rows >= ROWS_MAX {
                joined.flush()?;
            }
        }
    }
    let Some(joined) = joined else {
        return Ok(Compacted::default());
    };
    let path = joined.finish()?;
    let bytes_after = fs::metadata(&path).map_err(LakeError::at(&path))?.len();
    let names: Vec<_> = files
        .iter()
        .map(|file| file.path.to_string_lossy())
        .collect();
    let hash = XxHash3_128::oneshot(names.join("\n").as_bytes());
    let target = folder.strip_prefix(lake).unwrap_or(folder);
    staging.add(path, target.join(format!("compacted-{hash:032x}.parquet")));
    let replaced: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
    staging.commit(&replaced)?;
    Ok(Compacted {
        files_before: files.len() as u64,
        files_after: 1,
        bytes_before: size(files),
        bytes_after,
    })
}

fn open(path: &Path) -> Result<SerializedFileReader<File>, LakeError> {
    let file = File::open(path).map_err(LakeError::at(path))?;
    SerializedFileReader::new(file).map_err(LakeError::in_parquet(path))
}

/// Returns the columns of a file of the lake.
fn columns(schema: &Type) -> Vec<Column> {
    let columns = schema.get_fields().iter().map(|field| {
        let info = field.get_basic_info();
        let has_logical = info.logical_type_ref().is_some();
        Column {
            name: info.name().to_owned().into(),
            column_type: match field.get_physical_type() {
                PhysicalType::DOUBLE => ColumnType::Real,
                PhysicalType::INT64 if has_logical => ColumnType::WallTime,
                PhysicalType::INT64 => ColumnType::Int,
                _ => ColumnType::Text,
            },
            is_nullable: field.is_optional(),
        }
    });
    columns.collect()
}

/// The file that has the rows of several files.
struct Joined {
    format: Format,
    file: FileWriter,
    /// The rows of the next row group.
    rows: usize,
    values: Vec<Values>,
}

impl Joined {
    fn create(
        staging: &Staging,
        table: Table,
        columns: Vec<Column>,
        metadata: Vec<KeyValue>,
    ) -> Result<Self, LakeError> {
        let path = staging.path("joined.parquet");
        // Rows are sorted by time within each trace alone.
        let format = Format::new(table, columns, metadata).map_err(LakeError::in_parquet(&path))?;
        let format = format.without_order();
        Ok(Self {
            file: FileWriter::create(path, &format)?,
            rows: 0,
            values: format.columns.iter().map(Values::new).collect(),
            format,
        })
    }

    fn flush(&mut self) -> Result<(), LakeError> {
        let empty = self.format.columns.iter().map(Values::new).collect();
        let values = std::mem::replace(&mut self.values, empty);
        self.rows = 0;
        let chunks = self.format.encode_columns(values);
        let chunks = chunks.map_err(LakeError::in_parquet(self.file.path()))?;
        self.file.append(chunks)
    }

    fn finish(mut self) -> Result<PathBuf, LakeError> {
        if self.rows > 0 {
            self.flush()?;
        }
        self.file.finish()
    }
}

/// Appends the values of a column of a row group.
fn read_column(reader: ColumnReader, rows: usize, values: &mut Values) -> Result<(), ParquetError> {
    let levels = &mut values.levels;
    match &mut values.data {
        Data::Int(numbers) => {
            numbers.extend(read::<Int64Type>(reader, rows, levels)?);
        }
        Data::Real(numbers) => {
            numbers.extend(read::<DoubleType>(reader, rows, levels)?);
        }
        Data::Text(texts) => {
            let mut known: HashMap<Vec<u8>, u32> = HashMap::new();
            for text in read::<ByteArrayType>(reader, rows, levels)? {
                match known.get(text.data()) {
                    Some(index) => texts.push_again(*index),
                    None => {
                        let index = texts.push(text.as_utf8()?);
                        known.insert(text.data().to_vec(), index);
                    }
                }
            }
        }
    }
    Ok(())
}

fn read<T: DataType>(
    reader: ColumnReader,
    rows: usize,
    levels: &mut Option<Vec<i16>>,
) -> Result<Vec<T::T>, ParquetError>
where
    ColumnReaderImpl<T>: Sized,
{
    let mut reader = get_typed_column_reader::<T>(reader);
    let mut values = Vec::with_capacity(rows);
    let mut left = rows;
    while left > 0 {
        let (read, _, _) = reader.read_records(left, levels.as_mut(), None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General(
                "a column has fewer rows than others".to_owned(),
            ));
        }
        left -= read;
    }
    Ok(values)
}
