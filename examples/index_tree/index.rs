//! Files to words.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracezero::{DataSource as _, counter, span};

use crate::stats::FileStatsSource;

/// Bytes at the start of a file that show whether it is text.
const PROBE_BYTES: usize = 8 * 1024;

/// In which files each word occurs, and how often.
#[derive(Default)]
pub struct Index {
    occurrences: Mutex<HashMap<String, Vec<(PathBuf, u32)>>>,
    /// Bytes of the files indexed so far.
    bytes: AtomicU64,
}

/// A file that was indexed.
pub struct IndexedFile {
    /// Relative to the directory.
    pub path: PathBuf,
    pub bytes: usize,
    pub words: u64,
    pub duration: Duration,
}

impl Index {
    /// Adds the words of a file; `None` if it is not text, or cannot be read.
    pub fn add_file(&self, path: &Path, directory: &Path) -> Option<IndexedFile> {
        let started = Instant::now();
        let name = path.strip_prefix(directory).unwrap_or(path);
        let _span = span!("index", "file", path = name.to_string_lossy());
        let text = read_text(path)?;
        let words = count_words(&text);
        let total: u64 = words.values().map(|&count| u64::from(count)).sum();
        FileStatsSource::trace(|cx| crate::stats::write(cx, name, &text, &words, total));
        self.merge(name, words);

        let len = text.len() as u64;
        // Relaxed: a sum, ordered with nothing.
        let bytes = self.bytes.fetch_add(len, Ordering::Relaxed) + len;
        counter!("index", "indexed_bytes", bytes);
        Some(IndexedFile {
            path: name.to_owned(),
            bytes: text.len(),
            words: total,
            duration: started.elapsed(),
        })
    }

    /// Words that occur anywhere.
    pub fn distinct_words(&self) -> usize {
        self.occurrences.lock().expect("no thread panics").len()
    }

    fn merge(&self, path: &Path, words: HashMap<&str, u32>) {
        let _span = span!("index", "merge", distinct_words = words.len());
        let mut occurrences = self.occurrences.lock().expect("no thread panics");
        for (word, count) in words {
            let place = (path.to_owned(), count);
            match occurrences.get_mut(word) {
                Some(places) => places.push(place),
                None => {
                    occurrences.insert(word.to_owned(), vec![place]);
                }
            }
        }
    }
}

/// The file's text, if it is text.
fn read_text(path: &Path) -> Option<String> {
    let _span = span!("index", "read");
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("skipped {}: {error}", path.display());
            return None;
        }
    };
    let probe = &bytes[..bytes.len().min(PROBE_BYTES)];
    if probe.contains(&0) {
        return None;
    }
    String::from_utf8(bytes).ok()
}

fn count_words(text: &str) -> HashMap<&str, u32> {
    let _span = span!("index", "tokenize", bytes = text.len());
    let mut words = HashMap::new();
    for word in words_of(text) {
        *words.entry(word).or_insert(0) += 1;
    }
    words
}

/// The words of a text: runs of letters, digits and underscores.
pub fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}
