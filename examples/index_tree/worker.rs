//! A worker: takes files from the queue and indexes them, one after the other.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use indicatif::{HumanBytes, ProgressBar};
use tracezero::{counter, instant, span};

use crate::file_stats;
use crate::index::Words;
use crate::queue::Queue;
use crate::read::{self, NoText};
use crate::report::{FileTime, Outcome, Unreadable};
use crate::walk;

/// The state that the threads of one run share.
pub struct Shared<'r> {
    root: &'r Path,
    pub queue: Queue,
    pub progress: ProgressBar,
    /// The number of bytes that all workers have read.
    read_bytes: AtomicU64,
}

impl<'r> Shared<'r> {
    pub fn new(root: &'r Path, progress: ProgressBar) -> Self {
        Self {
            root,
            queue: Queue::default(),
            progress,
            read_bytes: AtomicU64::new(0),
        }
    }

    fn note_read(&self, bytes: usize) {
        let bytes = bytes as u64;
        // Relaxed: the number is only shown, so it needs no ordering with other memory.
        let total = self.read_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        counter!("file", "read_bytes", total);
        self.progress.set_message(HumanBytes(total).to_string());
    }
}

/// Indexes files until the queue is closed and empty. Returns the results.
pub fn work(shared: &Shared<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    while let Some(path) = shared.queue.pop() {
        index_file(shared, &path, &mut outcome);
        shared.progress.inc(1);
    }
    outcome
}

fn index_file(shared: &Shared<'_>, path: &Path, outcome: &mut Outcome) {
    let name = walk::relative_name(shared.root, path);
    let _span = span!("file", "index_file", path = name);
    let started = Instant::now();
    let text = match read::text(path) {
        Ok(text) => text,
        Err(NoText::Binary) => {
            instant!("file", "skip_binary", path = name);
            outcome.binary_files += 1;
            return;
        }
        Err(NoText::Unreadable(reason)) => {
            instant!("file", "skip_unreadable", path = name, reason = reason);
            outcome.unreadable.push(Unreadable { path: name, reason });
            return;
        }
    };
    shared.note_read(text.len());
    let words = {
        let _span = span!("file", "tokenize", bytes = text.len());
        Words::of(&text)
    };
    {
        let _span = span!("file", "record_stats");
        file_stats::record(&name, &text, &words);
    }
    {
        let _span = span!("file", "add_to_index", distinct_words = words.distinct());
        outcome.index.add_file(&words);
    }
    outcome.words += words.total;
    outcome.files.push(FileTime {
        path: name,
        bytes: text.len() as u64,
        duration: started.elapsed(),
    });
}
