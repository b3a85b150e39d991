//! Merges runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::vec;

use super::SortRow;
use super::codec::{Key, RowReader};
use super::run_file::{Run, RunFile};
use crate::error::LakeError;

/// The size of the buffers of all runs together.
const BUFFERS_BYTES: usize = 16 << 20;
/// The smallest and the largest size of the buffer of a run.
const BUFFER_MIN_BYTES: usize = 4 << 10;
const BUFFER_MAX_BYTES: usize = 256 << 10;

/// Rows in order.
#[derive(Debug)]
pub(crate) struct Sorted<T> {
    source: Source<T>,
}

#[derive(Debug)]
enum Source<T> {
    Rows(vec::IntoIter<T>),
    Runs(Merge<T>),
}

#[derive(Debug)]
struct Merge<T> {
    runs: Vec<RunReader<T>>,
    /// The next keys of all runs but the current one. Of equal keys, that of the earlier run comes first.
    next: BinaryHeap<Reverse<(Key, usize)>>,
    /// The run that has the next row.
    current: Option<usize>,
}

/// Reads the rows of a run.
#[derive(Debug)]
struct RunReader<T> {
    file: Arc<RunFile>,
    /// The part of the run that has not been read from the file.
    unread: Run,
    buffer: Vec<u8>,
    /// The number of bytes of `buffer` that were decoded.
    decoded: usize,
    buffer_bytes: usize,
    /// The key of the row at `decoded`, once it was read.
    key: Key,
    rows: PhantomData<T>,
}

impl<T: SortRow> Sorted<T> {
    pub(super) fn of_rows(rows: Vec<T>) -> Self {
        Self {
            source: Source::Rows(rows.into_iter()),
        }
    }

    pub(super) fn of_runs(file: Arc<RunFile>, runs: &[Run]) -> Result<Self, LakeError> {
        let share = BUFFERS_BYTES / runs.len().max(1);
        let buffer_bytes = share.clamp(BUFFER_MIN_BYTES, BUFFER_MAX_BYTES);
        let mut merge = Merge {
            runs: Vec::with_capacity(runs.len()),
            next: BinaryHeap::new(),
            current: None,
        };
        for (index, run) in runs.iter().enumerate() {
            let mut reader = RunReader {
                file: Arc::clone(&file),
                unread: run.clone(),
                buffer: Vec::new(),
                decoded: 0,
                buffer_bytes,
                key: (0, 0),
                rows: PhantomData,
            };
            if reader.read_key()? {
                merge.next.push(Reverse((reader.key, index)));
            }
            merge.runs.push(reader);
        }
        merge.current = merge.next.pop().map(|Reverse((_, run))| run);
        Ok(Self {
            source: Source::Runs(merge),
        })
    }

    /// Returns the next row.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<T>, LakeError> {
        match &mut self.source {
            Source::Rows(rows) => Ok(rows.next()),
            Source::Runs(merge) => merge.next(),
        }
    }
}

impl<T: SortRow> Merge<T> {
    fn next(&mut self) -> Result<Option<T>, LakeError> {
        let Some(current) = self.current else {
            return Ok(None);
        };
        let run = &mut self.runs[current];
        let row = run.read_row()?;
        let has_more = run.read_key()?;
        let key = run.key;
        // Runs overlap little, so that the next row is mostly of the same run.
        let stays = has_more
            && self
                .next
                .peek()
                .is_none_or(|Reverse(other)| (key, current) < *other);
        if !stays {
            if has_more {
                self.next.push(Reverse((key, current)));
            }
            self.current = self.next.pop().map(|Reverse((_, run))| run);
        }
        Ok(Some(row))
    }
}

impl<T: SortRow> RunReader<T> {
    /// Reads the key of the next row. Returns false if there is none.
    fn read_key(&mut self) -> Result<bool, LakeError> {
        let previous = self.key;
        if self.decoded == self.buffer.len() && !self.fill()? {
            return Ok(false);
        }
        self.key = self.decode(|reader| reader.key(previous))?;
        Ok(true)
    }

    /// Reads the row whose key was read.
    fn read_row(&mut self) -> Result<T, LakeError> {
        let key = self.key;
        self.decode(|reader| T::read(key, reader))
    }

    /// Decodes a value. Reads from the file if the buffer has only a part of it.
    #[inline]
    fn decode<V>(
        &mut self,
        mut read: impl FnMut(&mut RowReader<'_>) -> Option<V>,
    ) -> Result<V, LakeError> {
        loop {
            let mut reader = RowReader::new(&self.buffer[self.decoded..]);
            if let Some(value) = read(&mut reader) {
                self.decoded = self.buffer.len() - reader.left();
                return Ok(value);
            }
            if !self.fill()? {
                return Err(self.file.invalid());
            }
        }
    }

    /// Reads further bytes from the file. Returns false if there are none.
    fn fill(&mut self) -> Result<bool, LakeError> {
        let missing = self.unread.end - self.unread.start;
        if missing == 0 {
            return Ok(false);
        }
        self.buffer.drain(..self.decoded);
        self.decoded = 0;
        let kept = self.buffer.len();
        let count = missing.min(self.buffer_bytes as u64);
        self.buffer.resize(kept + count as usize, 0);
        self.file
            .read(self.unread.start, &mut self.buffer[kept..])?;
        self.unread.start += count;
        Ok(true)
    }
}
