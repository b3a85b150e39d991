//! The results, and the text that shows them to the user.

use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::HumanBytes;
use tracezero::span;

use crate::index::Index;

/// The results of one worker, or of all.
#[derive(Default)]
pub struct Outcome {
    pub index: Index,
    /// The number of words, counting each occurrence.
    pub words: u64,
    /// The files that were indexed.
    pub files: Vec<FileTime>,
    pub binary_files: u64,
    pub unreadable: Vec<Unreadable>,
}

/// The time that indexing one file took.
pub struct FileTime {
    pub path: String,
    pub bytes: u64,
    pub duration: Duration,
}

/// A file or directory that could not be read.
pub struct Unreadable {
    pub path: String,
    pub reason: String,
}

impl Outcome {
    /// Adds the results of another worker.
    pub fn merge(&mut self, other: Self) {
        let _span = span!("main", "merge", distinct_words = other.index.distinct());
        self.index.merge(other.index);
        self.words += other.words;
        self.files.extend(other.files);
        self.binary_files += other.binary_files;
        self.unreadable.extend(other.unreadable);
    }

    /// Returns the report, whose tables have at most `rows` rows.
    pub fn report(mut self, root: &Path, duration: Duration, rows: usize) -> String {
        let mut text = String::new();
        let written = self.write(&mut text, root, duration, rows);
        written.expect("a string takes everything");
        text
    }

    fn write(
        &mut self,
        out: &mut String,
        root: &Path,
        duration: Duration,
        rows: usize,
    ) -> fmt::Result {
        let bytes = self.files.iter().map(|file| file.bytes).sum();
        writeln!(
            out,
            "{}: {} files, {}, {} words, {} of them distinct, in {:.1} ms",
            root.display(),
            self.files.len(),
            HumanBytes(bytes),
            self.words,
            self.index.distinct(),
            milliseconds(duration),
        )?;
        writeln!(out, "skipped: {} binary files", self.binary_files)?;
        for Unreadable { path, reason } in &self.unreadable {
            writeln!(out, "unreadable: {path}: {reason}")?;
        }

        writeln!(
            out,
            "\n{:>12}  {:>8}  most frequent words",
            "count", "files"
        )?;
        for (word, occurrences) in self.index.top(rows) {
            let (count, files) = (occurrences.count, occurrences.files);
            writeln!(out, "{count:>12}  {files:>8}  {word}")?;
        }

        writeln!(out, "\n{:>12}  {:>12}  slowest files", "ms", "bytes")?;
        self.files.sort_by_key(|file| Reverse(file.duration));
        for file in self.files.iter().take(rows) {
            let (ms, bytes) = (milliseconds(file.duration), file.bytes);
            writeln!(out, "{ms:>12.3}  {bytes:>12}  {}", file.path)?;
        }
        writeln!(out)
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
