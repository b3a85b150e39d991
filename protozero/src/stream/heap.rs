//! A range source that allocates on the heap.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::{self, NonNull};
use core::slice;

use super::StreamWriter;
use super::source::{Outgoing, RANGE_MIN_BYTES, Range, RangeSource};

/// A source that hands out heap blocks of doubling size, and keeps all blocks until it is cleared.
#[derive(Debug)]
pub struct HeapSource {
    blocks: Vec<Block>,
    /// The first block, which [`HeapSource::clear`] kept for the next range.
    cached: Option<Block>,
    first_block_bytes: usize,
}

/// The size in bytes up to which blocks double.
const BLOCK_MAX_BYTES: usize = 128 * 1024;

impl HeapSource {
    /// Creates a source whose first block has `first_block_bytes` bytes (at least 4). Each
    /// following block is twice as large as the one before, up to 128 KiB. If the first block is
    /// larger than that, all blocks have its size. Nothing is allocated yet.
    #[must_use]
    pub const fn new(first_block_bytes: usize) -> Self {
        let first_block_bytes = if first_block_bytes < RANGE_MIN_BYTES {
            RANGE_MIN_BYTES
        } else {
            first_block_bytes
        };
        Self {
            blocks: Vec::new(),
            cached: None,
            first_block_bytes,
        }
    }

    /// Iterates over the written bytes of each block, in order.
    ///
    /// `last_used_bytes` must be the number of used bytes in the stream's current range.
    pub(crate) fn slices(&self, last_used_bytes: usize) -> impl Iterator<Item = &[u8]> {
        let last = self.blocks.len().saturating_sub(1);
        self.blocks.iter().enumerate().map(move |(index, block)| {
            let used = if index == last {
                last_used_bytes
            } else {
                block.used_bytes
            };
            &block.as_slice()[..used]
        })
    }

    /// Returns true if there is only the first block.
    pub(crate) fn is_one_block(&self) -> bool {
        self.blocks.len() == 1
    }

    /// Drops all blocks except the first, which is kept for the next range.
    fn clear(&mut self) {
        self.cached = self.blocks.drain(..).next().or(self.cached.take());
    }
}

impl StreamWriter<HeapSource> {
    /// Discards all written bytes, and starts again in the first block.
    pub(crate) fn restart(&mut self) {
        // The range lies in a block that may be dropped below.
        self.release_range();
        self.source.clear();
        self.next_range();
    }
}

// SAFETY: a block stays allocated until the source is cleared or dropped. Only `restart` clears the
// source, after the stream has released the range. The stream drops the source together with
// itself, and a caller that replaces the source promises that there is no range
// (`StreamWriter::source_mut`).
unsafe impl RangeSource for HeapSource {
    fn next_range(&mut self, outgoing: Outgoing<'_>) -> Range {
        let next_bytes = match self.blocks.last_mut() {
            Some(last) => {
                last.used_bytes = outgoing.used_bytes();
                (last.len * 2).min(BLOCK_MAX_BYTES.max(self.first_block_bytes))
            }
            None => self.first_block_bytes,
        };
        let block = self.cached.take().unwrap_or_else(|| Block::new(next_bytes));
        let range = Range::new(block.begin.as_ptr(), block.len);
        self.blocks.push(block);
        range
    }
}

/// A heap block, held as a raw pointer. A `Box` would claim unique access to the bytes while the
/// stream writes to them.
#[derive(Debug)]
struct Block {
    /// The start of a leaked `Box<[u8]>` of `len` bytes.
    begin: NonNull<u8>,
    len: usize,
    /// The number of written bytes, at most `len`. Set when the stream moves on to another block.
    used_bytes: usize,
}

// SAFETY: a block is owned memory; nothing in it is tied to a thread.
unsafe impl Send for Block {}
// SAFETY: through a shared reference, a block can only be read.
unsafe impl Sync for Block {}

impl Block {
    fn new(len: usize) -> Self {
        let memory = Box::leak(alloc::vec![0; len].into_boxed_slice());
        Self {
            begin: NonNull::from(memory).cast(),
            len,
            used_bytes: 0,
        }
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: the memory is initialized (zeroed at first) and stays allocated as long as the
        // block; the stream that writes to it is borrowed for as long as the slice.
        unsafe { slice::from_raw_parts(self.begin.as_ptr(), self.len) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let memory = ptr::slice_from_raw_parts_mut(self.begin.as_ptr(), self.len);
        // SAFETY: `new` leaked a box of exactly this pointer and length.
        drop(unsafe { Box::from_raw(memory) });
    }
}
