//! Sorts any number of rows in bounded memory.
//!
//! Rows are collected until a buffer is full. Then they are sorted, encoded and appended to a file, as a run.
//! At the end, the runs are merged. If all rows fit into one buffer, no file is written.

mod codec; // rows as bytes
mod merge; // merges runs
mod run_file; // the file that has the runs

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use self::codec::{Key, RowReader, RowWriter};
pub(crate) use self::merge::Sorted;
use self::run_file::{Run, RunFile};
use crate::error::LakeError;
use crate::workers::{Pending, Workers};

/// A row that can be sorted.
pub(crate) trait SortRow: Sized + Send + 'static {
    /// Returns what rows are ordered by. Of rows with equal keys, the one that was added first comes first.
    fn key(&self) -> Key;

    /// Appends all but the key.
    fn write(&self, out: &mut RowWriter<'_>);

    /// Reads what [`write`](Self::write) has appended; `None` if the bytes are not a whole row.
    fn read(key: Key, input: &mut RowReader<'_>) -> Option<Self>;

    /// Returns the memory that the row takes beside itself.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// The memory that the rows of a buffer may take beside themselves.
const HEAP_MAX_BYTES: usize = 8 << 20;

/// Collects rows, and returns them in order.
#[derive(Debug)]
pub(crate) struct Sorter<T> {
    rows: Vec<T>,
    rows_max: usize,
    heap_bytes: usize,
    workers: Workers,
    path: PathBuf,
    file: Option<Arc<RunFile>>,
    runs: Vec<Run>,
    /// The run that is being written. There is at most one, so that memory is bounded.
    writing: Option<Pending<Written<T>>>,
    /// A buffer for the next rows: new memory would cost a page fault for each of its pages.
    spare: Vec<T>,
    count: u64,
}

/// A run that was written, and the buffer that had its rows.
#[derive(Debug)]
struct Written<T> {
    run: Result<Run, LakeError>,
    buffer: Vec<T>,
}

impl<T: SortRow> Sorter<T> {
    /// Creates a sorter that keeps up to `rows_max` rows in memory twice, and writes further ones to a file
    /// at `path`.
    pub(crate) fn new(rows_max: usize, workers: &Workers, path: PathBuf) -> Self {
        Self {
            rows: Vec::new(),
            rows_max,
            heap_bytes: 0,
            workers: workers.clone(),
            path,
            file: None,
            runs: Vec::new(),
            writing: None,
            spare: Vec::new(),
            count: 0,
        }
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn push(&mut self, row: T) -> Result<(), LakeError> {
        if self.rows.len() >= self.rows_max || self.heap_bytes >= HEAP_MAX_BYTES {
            self.write_run()?;
        }
        self.heap_bytes += row.heap_bytes();
        self.rows.push(row);
        self.count += 1;
        Ok(())
    }

    /// Returns the number of rows.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the rows in order.
    pub(crate) fn finish(mut self) -> Result<Sorted<T>, LakeError> {
        if self.file.is_some() && !self.rows.is_empty() {
            self.write_run()?;
        }
        self.await_run()?;
        match self.file {
            None => {
                self.rows.sort_by_key(SortRow::key);
                Ok(Sorted::of_rows(self.rows))
            }
            Some(file) => Sorted::of_runs(file, &self.runs),
        }
    }

    fn write_run(&mut self) -> Result<(), LakeError> {
        self.await_run()?;
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new(RunFile::create(&self.path)?))),
        };
        let mut rows = mem::replace(&mut self.rows, mem::take(&mut self.spare));
        self.rows.reserve(rows.len());
        self.heap_bytes = 0;
        self.writing = Some(self.workers.run(move || {
            let run = file.append(&rows);
            rows.clear();
            Written { run, buffer: rows }
        }));
        Ok(())
    }

    fn await_run(&mut self) -> Result<(), LakeError> {
        if let Some(writing) = self.writing.take() {
            let written = writing.wait();
            self.runs.push(written.run?);
            self.spare = written.buffer;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::Folder;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Number(u64, u64);

    impl SortRow for Number {
        fn key(&self) -> Key {
            (self.0, 0)
        }

        fn write(&self, out: &mut RowWriter<'_>) {
            out.uint(self.1);
        }

        fn read(key: Key, input: &mut RowReader<'_>) -> Option<Self> {
            Some(Self(key.0, input.uint()?))
        }
    }

    /// Sorts numbers with buffers of `rows_max`, and checks the result against the standard library's sort.
    fn check(numbers: &[u64], rows_max: usize) {
        let folder = Folder::empty();
        let mut sorter = Sorter::new(rows_max, &Workers::start(), folder.path().join("runs"));
        let rows = numbers
            .iter()
            .zip(0..)
            .map(|(key, index)| Number(*key, index));
        for row in rows.clone() {
            sorter.push(row).unwrap();
        }
        assert_eq!(sorter.count(), numbers.len() as u64);
        let mut found = Vec::new();
        let mut sorted = sorter.finish().unwrap();
        while let Some(row) = sorted.next().unwrap() {
            found.push(row);
        }
        let mut expected: Vec<Number> = rows.collect();
        expected.sort_by_key(|row| row.0);
        assert_eq!(found, expected);
    }

    #[test]
    fn rows_come_in_order_of_their_keys_and_of_addition() {
        let mut state = 7_u64;
        let numbers: Vec<u64> = (0..5000)
            .map(|index| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // Some keys are equal, and some are large.
                match index % 10 {
                    0 => u64::MAX - (state >> 62),
                    _ => state >> 52,
                }
            })
            .collect();
        for rows_max in [1, 7, 500, 4999, 5000, 10_000] {
            check(&numbers, rows_max);
        }
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Text(u64, String);

    impl SortRow for Text {
        fn key(&self) -> Key {
            (self.0, 0)
        }

        fn write(&self, out: &mut RowWriter<'_>) {
            out.text(&self.1);
        }

        fn read(key: Key, input: &mut RowReader<'_>) -> Option<Self> {
            Some(Self(key.0, input.text()?))
        }

        fn heap_bytes(&self) -> usize {
            self.1.len()
        }
    }

    #[test]
    fn rows_of_any_length_are_sorted() {
        let folder = Folder::empty();
        let path = folder.path().join("runs");
        let mut sorter = Sorter::new(1000, &Workers::start(), path.clone());
        let rows = (0..40).map(|key| Text(40 - key, "x".repeat(1 << (key / 2))));
        for row in rows.clone() {
            sorter.push(row).unwrap();
        }
        assert!(!path.exists());
        sorter.push(Text(100, "y".repeat(HEAP_MAX_BYTES))).unwrap();
        sorter.push(Text(0, "z".repeat(HEAP_MAX_BYTES))).unwrap();
        assert!(path.exists(), "long texts should not stay in memory");
        let mut found = Vec::new();
        let mut sorted = sorter.finish().unwrap();
        while let Some(row) = sorted.next().unwrap() {
            found.push(row);
        }
        let mut expected: Vec<Text> = rows.rev().collect();
        expected.insert(0, Text(0, "z".repeat(HEAP_MAX_BYTES)));
        expected.push(Text(100, "y".repeat(HEAP_MAX_BYTES)));
        assert!(found == expected);
    }

    #[test]
    fn no_rows_and_one_row_are_sorted() {
        check(&[], 1);
        check(&[3], 1);
    }

    #[test]
    fn rows_that_fit_into_memory_need_no_file() {
        let folder = Folder::empty();
        let path = folder.path().join("runs");
        let mut sorter = Sorter::new(2, &Workers::start(), path.clone());
        sorter.push(Number(1, 1)).unwrap();
        sorter.push(Number(0, 2)).unwrap();
        assert_eq!(sorter.finish().unwrap().next().unwrap(), Some(Number(0, 2)));
        assert!(!path.exists());
    }
}
