//! The rows of the table of writers: in `meta` if the process has crash files, otherwise in
//! anonymous memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::folder::ProcessFolder;
use super::format::{ROW_BYTES, ROW_WORDS, WriterRow};
use crate::file_memory::{SharedWords, Words};
use crate::ids::{BufferId, WriterId};

/// The number of rows by which a table in anonymous memory grows: one page.
const ANONYMOUS_ROWS: usize = 4096 / ROW_BYTES;

/// The rows of all writers of one producer.
#[derive(Debug, Default)]
pub struct WriterRows {
    folder: Option<Arc<ProcessFolder>>,
    /// The number of blocks in the file.
    file_blocks: usize,
    free: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row(Words<ROW_WORDS>);

impl WriterRows {
    /// Creates a table in the folder of the process.
    #[must_use]
    pub fn of_folder(folder: Arc<ProcessFolder>) -> Self {
        Self {
            folder: Some(folder),
            ..Self::default()
        }
    }

    /// Takes an unused row, with all counters 0.
    ///
    /// # Panics
    ///
    /// If the system refuses a page of memory.
    pub fn take(
        &mut self,
        writer_id: Option<WriterId>,
        target_buffer: BufferId,
        thread_name: Option<&str>,
    ) -> Row {
        if self.free.is_empty() {
            let block = Arc::new(self.new_block().expect("memory for counters of writers"));
            let rows = block.len_words() / ROW_WORDS;
            let row = |index| Row(block.words(index * ROW_WORDS));
            self.free.extend((0..rows).rev().map(row));
        }
        let row = self.free.pop().expect("a block has rows");
        row.set_name(thread_name);
        for counter in row.counters() {
            // Relaxed: the store of the key below publishes it to a recovery, which comes after a
            // kill. So the order of instructions is what counts.
            counter.store(0, Ordering::Relaxed);
        }
        row.set_key(writer_id, target_buffer, true);
        row
    }

    fn new_block(&mut self) -> io::Result<SharedWords> {
        if let Some(folder) = &self.folder
            && let Ok(block) = folder.add_rows(self.file_blocks)
        {
            self.file_blocks += 1;
            return Ok(block);
        }
        // Without crash files, or without room for them. Then a recovery does not know the counts
        // of these writers.
        SharedWords::anonymous(ANONYMOUS_ROWS * ROW_BYTES)
    }

    /// Gives a row back.
    pub fn give_back(&mut self, row: Row) {
        // Release: the counters change later.
        row.0[0].store(0, Ordering::Release);
        self.free.push(row);
    }
}

impl Row {
    /// Writes whose row this is.
    pub fn set_key(&self, writer_id: Option<WriterId>, target_buffer: BufferId, is_living: bool) {
        let key = WriterRow::key_word(writer_id, target_buffer, is_living);
        // Release: the name and the counters come before.
        self.0[0].store(key, Ordering::Release);
    }

    /// Writes the name of the writer's thread.
    pub fn set_name(&self, thread_name: Option<&str>) {
        let name = WriterRow::name_words(thread_name.unwrap_or_default());
        for (word, part) in self.0[1..WriterRow::COUNTS_AT].iter().zip(name) {
            // Relaxed: see `WriterRows::take`.
            word.store(part, Ordering::Relaxed);
        }
    }

    /// Returns the counters: of packets begun, empty and dropped, and of times in which packets
    /// were dropped.
    #[inline]
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "a row has more words than counters"
    )]
    pub fn counters(&self) -> &[AtomicU64; 4] {
        self.0
            .last_chunk()
            .expect("a row has more words than counters")
    }
}
