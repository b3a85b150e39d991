//! The tables of a lake, as the engine sees them.
//!
//! Each table has the columns that exports give it, those that its files have beside them, and the two that the
//! names of its folders tell. A file that lacks a column has no values in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::object_store::ObjectMeta;
use datafusion::prelude::{SessionContext, col, lit};
use futures::{StreamExt, TryStreamExt};
use tracezero_lake::{ColumnType, Table};
use url::Url;

use crate::error::QueryError;

/// The columns whose values are in the names of folders.
const PARTITIONS: [&str; 2] = ["day", "service"];
const EXTENSION: &str = ".parquet";
/// The number of files whose columns are read at the same time.
const FILES_AT_ONCE: usize = 32;

/// A lake whose tables can be registered.
#[derive(Clone, Debug)]
pub(crate) struct LakeTables {
    /// The folder of the lake.
    pub(crate) lake: PathBuf,
    /// The ids of the traces whose rows count. `None` if all count.
    pub(crate) traces: Option<Vec<String>>,
}

impl LakeTables {
    /// Makes a table known under its name.
    pub(crate) async fn register(
        &self,
        context: &SessionContext,
        table: Table,
    ) -> Result<(), QueryError> {
        let mut provider = provider(context, &self.lake, table).await?;
        if let Some(traces) = &self.traces {
            let traces = traces.iter().map(|id| lit(id.as_str())).collect();
            let rows = context.read_table(provider)?;
            provider = rows
                .filter(col("trace_id").in_list(traces, false))?
                .into_view();
        }
        context.register_table(table.name(), provider)?;
        Ok(())
    }
}

async fn provider(
    context: &SessionContext,
    lake: &Path,
    table: Table,
) -> Result<Arc<dyn TableProvider>, QueryError> {
    let folder = lake.join(table.name());
    if folder.is_dir() {
        let url = folder_url(&folder)?;
        let files = files(context, &url).await?;
        if !files.is_empty() {
            return listing(context, table, url, &files).await;
        }
    }
    let partitions = PARTITIONS.map(|name| Field::new(name, DataType::Utf8, true));
    let columns = Schema::new([own_columns(table), partitions.to_vec()].concat());
    let no_rows = MemTable::try_new(columns.into(), vec![Vec::new()]);
    Ok(Arc::new(no_rows?))
}

/// Returns the rows of files.
async fn listing(
    context: &SessionContext,
    table: Table,
    url: ListingTableUrl,
    files: &[ObjectMeta],
) -> Result<Arc<dyn TableProvider>, QueryError> {
    let format = Arc::new(ParquetFormat::default());
    let further = further_columns(context, &format, &url, table, files).await?;
    let columns = Schema::new([own_columns(table), further].concat());
    let partitions = PARTITIONS.map(|name| (name.to_owned(), DataType::Utf8));
    let options = ListingOptions::new(format)
        .with_file_extension(EXTENSION)
        .with_table_partition_cols(partitions.to_vec());
    let config = ListingTableConfig::new(url)
        .with_listing_options(options)
        .with_schema(columns.into());
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// Returns the address of a folder. It is no pattern, whatever characters the path has.
fn folder_url(folder: &Path) -> Result<ListingTableUrl, QueryError> {
    // An address cannot have `..` in it.
    let path = folder.canonicalize().map_err(|source| QueryError::File {
        path: folder.to_owned(),
        source,
    })?;
    let url = Url::from_directory_path(&path)
        .map_err(|()| DataFusionError::Internal("an absolute path is an address".to_owned()))?;
    Ok(ListingTableUrl::try_new(url, None)?)
}

async fn files(
    context: &SessionContext,
    url: &ListingTableUrl,
) -> Result<Vec<ObjectMeta>, QueryError> {
    let store = context.runtime_env().object_store(url)?;
    let state = context.state();
    let files = url.list_all_files(&state, store.as_ref(), EXTENSION);
    let mut files: Vec<_> = files.await?.try_collect().await?;
    files.retain(|file| file.size > 0);
    Ok(files)
}

/// Returns the columns that each export gives a table. Files of another version may lack some, so all may lack
/// values.
fn own_columns(table: Table) -> Vec<Field> {
    let columns = table.columns().iter().map(|column| {
        let data_type = match column.column_type {
            ColumnType::Int => DataType::Int64,
            ColumnType::Real => DataType::Float64,
            ColumnType::Text => DataType::Utf8View,
            ColumnType::WallTime => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        };
        Field::new(column.name.as_ref(), data_type, true)
    });
    columns.collect()
}

/// Returns the other columns that files of a table have, in the order of their names: promoted arguments. A column
/// that has several types in several files is a text.
async fn further_columns(
    context: &SessionContext,
    format: &ParquetFormat,
    url: &ListingTableUrl,
    table: Table,
    files: &[ObjectMeta],
) -> Result<Vec<Field>, QueryError> {
    let store = context.runtime_env().object_store(url)?;
    let state = context.state();
    let (state, store) = (&state, &store);
    let schemas = futures::stream::iter(files).map(|file| async move {
        let schema = format.infer_schema(state, store, std::slice::from_ref(file));
        schema.await.map_err(|source| QueryError::Table {
            path: Path::new("/").join(file.location.as_ref()),
            source,
        })
    });
    let mut schemas = schemas.buffered(FILES_AT_ONCE);
    let mut further = BTreeMap::new();
    while let Some(schema) = schemas.try_next().await? {
        for field in schema.fields() {
            if table
                .columns()
                .iter()
                .any(|column| column.name == field.name().as_str())
            {
                continue;
            }
            let data_type = further
                .entry(field.name().clone())
                .or_insert_with(|| field.data_type().clone());
            if data_type != field.data_type() {
                *data_type = DataType::Utf8View;
            }
        }
    }
    let fields = further.into_iter();
    Ok(fields
        .map(|(name, data_type)| Field::new(name, data_type, true))
        .collect())
}
