//! Encodes batches as column chunks of Parquet.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::{
    ColumnCloseResult, ColumnWriter, get_column_writer, get_typed_column_writer_mut,
};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

use crate::batch::{Batch, Data, Texts, Values};
use crate::table::{Column, ColumnType, Table};

/// Level 3 makes files as small, and takes longer: the encodings leave little to compress.
const ZSTD_LEVEL: i32 = 1;
/// The number of texts that are passed to the library at once.
const TEXTS_AT_ONCE: usize = 1024;

/// The schema of the files of a table, and how they are written.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) columns: Arc<[Column]>,
    pub(crate) root: TypePtr,
    pub(crate) schema: SchemaDescPtr,
    pub(crate) properties: WriterPropertiesPtr,
}

/// An encoded column of a row group.
#[derive(Debug)]
pub(crate) struct ColumnChunk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) closed: ColumnCloseResult,
}

impl Format {
    /// Creates the format of a table with these columns. `metadata` becomes the metadata of each file.
    pub(crate) fn new(
        table: Table,
        columns: Vec<Column>,
        metadata: Vec<KeyValue>,
    ) -> Result<Self, ParquetError> {
        let fields = columns
            .iter()
            .map(|column| column_type(column).map(Arc::new));
        let root = Type::group_type_builder(table.name())
            .with_fields(fields.collect::<Result<_, _>>()?)
            .build()?;
        let root = Arc::new(root);
        let schema = Arc::new(SchemaDescriptor::new(Arc::clone(&root)));
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by(format!("tracezero {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(metadata));
        for column in &columns {
            let path = ColumnPath::from(&*column.name);
            if let ColumnType::Int | ColumnType::WallTime = column.column_type {
                // Times and ids grow by small steps, and other numbers are small.
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
            }
            if column.column_type == ColumnType::Text {
                // `summarize` looks at each different text once, the library at each value.
                properties =
                    properties.set_column_statistics_enabled(path, EnabledStatistics::None);
            }
        }
        let sorted_by = columns.iter().position(|column| column.name == "ts");
        let sorting = sorted_by.map(|index| {
            vec![SortingColumn {
                column_idx: index as i32,
                descending: false,
                nulls_first: false,
            }]
        });
        let properties = properties.set_sorting_columns(sorting);
        Ok(Self {
            columns: columns.into(),
            root,
            schema,
            properties: Arc::new(properties.build()),
        })
    }

    /// Returns the format of files that have the rows of several traces, one trace behind the other.
    pub(crate) fn without_order(self) -> Self {
        let properties = (*self.properties).clone().into_builder();
        let properties = properties.set_sorting_columns(None).build();
        Self {
            properties: Arc::new(properties),
            ..self
        }
    }

    /// Encodes the columns of a batch.
    pub(crate) fn encode(
        &self,
        batch: Batch,
        trace_id: &str,
    ) -> Result<Vec<ColumnChunk>, ParquetError> {
        let mut trace_ids = Texts::default();
        trace_ids.push_often(trace_id, batch.rows);
        let trace_ids = Values {
            data: Data::Text(trace_ids),
            levels: None,
        };
        self.encode_columns([trace_ids].into_iter().chain(batch.columns))
    }

    /// Encodes the values of all columns.
    pub(crate) fn encode_columns(
        &self,
        columns: impl IntoIterator<Item = Values>,
    ) -> Result<Vec<ColumnChunk>, ParquetError> {
        let chunks = (0..)
            .zip(columns)
            .map(|(index, values)| self.column(index, values));
        chunks.collect()
    }

    fn column(&self, index: usize, values: Values) -> Result<ColumnChunk, ParquetError> {
        let levels = values.levels.as_deref();
        match values.data {
            Data::Int(numbers) => {
                self.chunk(index, |writer| write::<Int64Type>(writer, &numbers, levels))
            }
            Data::Real(numbers) => self.chunk(index, |writer| {
                write::<DoubleType>(writer, &numbers, levels)
            }),
            Data::Text(texts) => {
                let (indexes, texts) = texts.into_values();
                let chunk = self.chunk(index, |writer| {
                    write_texts(writer, &indexes, &texts, levels)
                })?;
                match is_looked_up(&self.columns[index]) {
                    true => summarize(chunk, &texts),
                    false => Ok(chunk),
                }
            }
        }
    }

    /// Encodes the column with this index, which `fill` writes.
    fn chunk(
        &self,
        index: usize,
        fill: impl FnOnce(&mut ColumnWriter<'_>) -> Result<(), ParquetError>,
    ) -> Result<ColumnChunk, ParquetError> {
        let mut out = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut out));
        let properties = Arc::clone(&self.properties);
        let mut writer = get_column_writer(self.schema.column(index), properties, pages);
        fill(&mut writer)?;
        let closed = writer.close()?;
        Ok(ColumnChunk {
            bytes: out.into_inner()?,
            closed,
        })
    }
}

/// The share of texts that a bloom filter lets through although they are not in the column.
const FILTER_ERRORS: f64 = 0.01;
/// The maximum number of different texts of a column that has a bloom filter.
const FILTERED_TEXTS_MAX: usize = 16 * 1024;

/// Returns true if rows are looked up by the values of a text column, so that engines should know which row groups
/// have a value.
fn is_looked_up(column: &Column) -> bool {
    column.name == "trace_id" || column.name == "name"
}

/// Adds statistics and a bloom filter to a column of texts.
fn summarize(chunk: ColumnChunk, texts: &[ByteArray]) -> Result<ColumnChunk, ParquetError> {
    let first = texts.iter().min_by_key(|text| text.data());
    let last = texts.iter().max_by_key(|text| text.data());
    let statistics = Statistics::byte_array(first.cloned(), last.cloned(), None, None, false);
    let mut closed = chunk.closed;
    closed.metadata = closed
        .metadata
        .into_builder()
        .set_statistics(statistics)
        .build()?;
    if texts.len() <= FILTERED_TEXTS_MAX {
        let mut filter = Sbbf::new_with_ndv_fpp(texts.len().max(1) as u64, FILTER_ERRORS)?;
        texts.iter().for_each(|text| filter.insert(text));
        closed.bloom_filter = Some(filter);
    }
    Ok(ColumnChunk { closed, ..chunk })
}

fn column_type(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.column_type {
        ColumnType::Int => (PhysicalType::INT64, None),
        ColumnType::Real => (PhysicalType::DOUBLE, None),
        ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::WallTime => {
            let logical = LogicalType::timestamp(true, TimeUnit::MICROS);
            (PhysicalType::INT64, Some(logical))
        }
    };
    let repetition = match column.is_nullable {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}

fn write<T: DataType>(
    writer: &mut ColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let writer = get_typed_column_writer_mut::<T>(writer);
    writer.write_batch(values, levels, None)?;
    Ok(())
}

/// Writes texts a few at a time: each takes 32 bytes as a value of the library.
fn write_texts(
    writer: &mut ColumnWriter<'_>,
    indexes: &[u32],
    texts: &[ByteArray],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut values: Vec<ByteArray> = Vec::with_capacity(TEXTS_AT_ONCE);
    // The index of each value in `values`. Copies of a text share a counter, which takes longer to change than a
    // value takes to write; in most columns, many values are those of the rows before.
    let mut held: Vec<u32> = Vec::with_capacity(TEXTS_AT_ONCE);
    let rows = levels.map_or(indexes.len(), <[i16]>::len);
    let mut rest = indexes;
    for at in (0..rows).step_by(TEXTS_AT_ONCE) {
        let end = rows.min(at + TEXTS_AT_ONCE);
        let levels = levels.map(|levels| &levels[at..end]);
        let present = levels.map_or(end - at, |levels| {
            levels.iter().filter(|level| **level != 0).count()
        });
        let (next, behind) = rest.split_at(present);
        rest = behind;
        for (place, index) in next.iter().enumerate() {
            let text = &texts[*index as usize];
            match held.get_mut(place) {
                Some(held) if held == index => {}
                Some(held) => {
                    *held = *index;
                    values[place] = text.clone();
                }
                None => {
                    held.push(*index);
                    values.push(text.clone());
                }
            }
        }
        write::<ByteArrayType>(writer, &values[..present], levels)?;
    }
    Ok(())
}
