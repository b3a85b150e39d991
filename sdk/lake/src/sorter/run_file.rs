//! A file that has runs, one behind the other.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::SortRow;
use super::codec::{Key, RowWriter};
use crate::error::LakeError;

/// The number of encoded bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// A sorted part of the rows: the range of its bytes in the file.
pub(crate) type Run = Range<u64>;

/// The file.
#[derive(Debug)]
pub(crate) struct RunFile {
    file: File,
    path: PathBuf,
    length: Mutex<u64>,
}

impl RunFile {
    /// Creates the file at `path`.
    pub(crate) fn create(path: &Path) -> Result<Self, LakeError> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path);
        Ok(Self {
            file: file.map_err(LakeError::at(path))?,
            path: path.to_owned(),
            length: Mutex::new(0),
        })
    }

    /// Appends rows in the order of their keys.
    pub(crate) fn append<T: SortRow>(&self, rows: &[T]) -> Result<Run, LakeError> {
        // Keys and places are shorter than rows. The place keeps rows with equal keys in their order.
        let mut order: Vec<(Key, usize)> = rows.iter().map(SortRow::key).zip(0..).collect();
        order.sort_unstable();
        let mut length = self.length.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = *length;
        let mut bytes = Vec::with_capacity(WRITE_BYTES + 4096);
        let mut previous = (0, 0);
        let mut write = |bytes: &mut Vec<u8>| -> Result<(), LakeError> {
            let written = self.file.write_all_at(bytes, *length);
            written.map_err(LakeError::at(&self.path))?;
            *length += bytes.len() as u64;
            bytes.clear();
            Ok(())
        };
        for (key, place) in order {
            rows[place].write(&mut RowWriter::new(&mut bytes, key, previous));
            previous = key;
            if bytes.len() >= WRITE_BYTES {
                write(&mut bytes)?;
            }
        }
        write(&mut bytes)?;
        Ok(begin..*length)
    }

    /// Reads bytes at `offset` until `buffer` is full.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), LakeError> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(LakeError::at(&self.path))
    }

    /// Returns an error about the contents of the file.
    pub(crate) fn invalid(&self) -> LakeError {
        let error = io::Error::new(
            io::ErrorKind::InvalidData,
            "another program has changed the file",
        );
        LakeError::at(&self.path)(error)
    }
}
