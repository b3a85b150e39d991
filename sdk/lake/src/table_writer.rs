//! Writes the rows of a table into files.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use parquet::errors::ParquetError;

use crate::batch::{Batch, Row};
use crate::encode::{ColumnChunk, Format};
use crate::error::LakeError;
use crate::file_writer::FileWriter;
use crate::staging::Staging;
use crate::table::Table;
use crate::workers::{Pending, Workers};

/// The size from which a file gets no further rows.
const FILE_MAX_BYTES: usize = 128 << 20;
/// The number of batches that are encoded while rows are added to the next one.
const ENCODING_MAX: usize = 2;

/// Writes the rows of a table. They must come in the order in which they should be in the file.
#[derive(Debug)]
pub(crate) struct TableWriter {
    table: Table,
    format: Arc<Format>,
    trace_id: Arc<str>,
    batch: Batch,
    encoding: VecDeque<Pending<Result<Vec<ColumnChunk>, ParquetError>>>,
    workers: Workers,
    file: Option<FileWriter>,
    /// The complete files.
    files: Vec<PathBuf>,
    rows: u64,
}

/// The files that were written.
#[derive(Debug)]
pub(crate) struct TableFiles {
    pub(crate) table: Table,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) rows: u64,
}

impl TableWriter {
    pub(crate) fn new(
        table: Table,
        format: Arc<Format>,
        trace_id: Arc<str>,
        workers: &Workers,
    ) -> Self {
        Self {
            table,
            batch: Batch::new(&format.columns),
            format,
            trace_id,
            encoding: VecDeque::new(),
            workers: workers.clone(),
            file: None,
            files: Vec::new(),
            rows: 0,
        }
    }

    pub(crate) const fn table(&self) -> Table {
        self.table
    }

    /// Returns the number of rows so far.
    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    /// Begins a row.
    #[inline]
    pub(crate) fn row(&mut self, staging: &Staging) -> Result<Row<'_>, LakeError> {
        if self.batch.is_full() {
            self.flush(staging)?;
        }
        self.rows += 1;
        Ok(self.batch.row())
    }

    /// Completes the last file. Without rows, there is a file only if `needs_file`.
    pub(crate) fn finish(
        mut self,
        staging: &Staging,
        needs_file: bool,
    ) -> Result<TableFiles, LakeError> {
        if self.batch.rows > 0 {
            self.flush(staging)?;
        }
        while let Some(next) = self.encoding.pop_front() {
            self.append(next, staging)?;
        }
        if needs_file && self.file.is_none() && self.files.is_empty() {
            self.open(staging)?;
        }
        self.close()?;
        Ok(TableFiles {
            table: self.table,
            paths: self.files,
            rows: self.rows,
        })
    }

    fn flush(&mut self, staging: &Staging) -> Result<(), LakeError> {
        let empty = Batch::new(&self.format.columns);
        let batch = std::mem::replace(&mut self.batch, empty);
        let (format, trace_id) = (Arc::clone(&self.format), Arc::clone(&self.trace_id));
        let encode = move || format.encode(batch, &trace_id);
        self.encoding.push_back(self.workers.run(encode));
        if self.encoding.len() > ENCODING_MAX
            && let Some(next) = self.encoding.pop_front()
        {
            self.append(next, staging)?;
        }
        Ok(())
    }

    /// Appends a row group.
    fn append(
        &mut self,
        encoded: Pending<Result<Vec<ColumnChunk>, ParquetError>>,
        staging: &Staging,
    ) -> Result<(), LakeError> {
        if self.file.is_none() {
            self.open(staging)?;
        }
        if let Some(file) = &mut self.file {
            let chunks = encoded.wait().map_err(LakeError::in_parquet(file.path()))?;
            file.append(chunks)?;
            if file.bytes() >= FILE_MAX_BYTES {
                self.close()?;
            }
        }
        Ok(())
    }

    fn open(&mut self, staging: &Staging) -> Result<(), LakeError> {
        let name = format!("{}-{:03}.parquet", self.table.name(), self.files.len());
        self.file = Some(FileWriter::create(staging.path(&name), &self.format)?);
        Ok(())
    }

    fn close(&mut self) -> Result<(), LakeError> {
        if let Some(file) = self.file.take() {
            self.files.push(file.finish()?);
        }
        Ok(())
    }
}
