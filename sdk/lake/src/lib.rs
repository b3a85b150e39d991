//! Exports traces as tables in Parquet files, which DuckDB, Spark, DataFusion and other engines read.
//!
//! A [`Lake`] is a folder of files, by table, day and service. [`Lake::export`] adds the rows of a trace. Memory is
//! bounded, however long the trace is: rows that must be sorted are sorted on disk. Tables and columns are listed at
//! [`Table`]. The command `tracezero export parquet` does the same for files.
//! [A thousand traces](a_thousand_traces) shows how to query them.

#[doc = include_str!("a_thousand_traces.md")]
pub mod a_thousand_traces {}

mod table; // tables and columns
mod promoted; // arguments with a column of their own
mod error; // errors
// Reading traces.
mod workers; // threads for sorting and encoding
mod sorter; // sorts rows in bounded memory
mod export; // from a trace to rows
// Writing files.
mod batch; // rows of a row group, column by column
mod encode; // batches as Parquet
mod file_writer; // a file of a table
mod table_writer; // files of a table
mod staging; // files that are not complete
mod existing; // traces that are in the lake
mod compact; // joins small files
mod lake; // the lake

pub use compact::Compacted;
pub use error::LakeError;
pub use lake::{ExportOptions, ExportOutcome, Exported, Lake};
pub use promoted::Promoted;
pub use table::{Column, ColumnType, Table};
