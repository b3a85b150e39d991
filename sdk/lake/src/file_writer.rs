//! A file of a table, to which encoded row groups are appended.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::file::writer::SerializedFileWriter;

use crate::encode::{ColumnChunk, Format};
use crate::error::LakeError;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct FileWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl FileWriter {
    /// Creates the file at `path`.
    pub(crate) fn create(path: PathBuf, format: &Format) -> Result<Self, LakeError> {
        let file = File::create(&path).map_err(LakeError::at(&path))?;
        let (root, properties) = (Arc::clone(&format.root), Arc::clone(&format.properties));
        let writer = SerializedFileWriter::new(file, root, properties);
        let writer = writer.map_err(LakeError::in_parquet(&path))?;
        Ok(Self { path, writer })
    }

    /// Appends a row group.
    pub(crate) fn append(&mut self, chunks: Vec<ColumnChunk>) -> Result<(), LakeError> {
        let failed = LakeError::in_parquet(&self.path);
        let mut group = self.writer.next_row_group().map_err(&failed)?;
        for chunk in chunks {
            let bytes = Bytes::from(chunk.bytes);
            group.append_column(&bytes, chunk.closed).map_err(&failed)?;
        }
        group.close().map_err(&failed)?;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file so far.
    pub(crate) fn bytes(&self) -> usize {
        self.writer.bytes_written()
    }

    /// Completes the file, and returns its path.
    pub(crate) fn finish(self) -> Result<PathBuf, LakeError> {
        let closed = self.writer.close();
        closed.map_err(LakeError::in_parquet(&self.path))?;
        Ok(self.path)
    }
}
