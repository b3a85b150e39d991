//! The chunks in use, in the order in which their trace writers have acquired them.
//!
//! Trace writers go on while the service looks at one page after the other, and a writer may use any
//! page. So one look may find a chunk and miss an earlier one of the same writer. If the service then
//! took the later one, readers would go past the earlier one. So it looks twice, and leaves out what
//! is newer than the first look. The second look finds all chunks up to there, for these reasons:
//!
//! 1. Chunks in use stay in use meanwhile: only the service frees them, and it has the handle.
//! 2. A trace writer has acquired all earlier chunks before. The first look has loaded, with acquire,
//!    the page word of the last chunk that it has found. So the second look sees the words and
//!    headers of the earlier ones.
//! 3. A header may not be stored yet, and its bytes may be anything. Its count is stored last, and is
//!    loaded with acquire. So chunks without packets are left out, which have nothing to read anyway.
//!
//! Models check this with loom: `a_look_finds_no_chunk_without_the_one_before`.

#![allow(unsafe_code)] // Reads headers of chunks that trace writers still write to.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::layout::ChunkPlace;
use super::memory::{Mapping, ServiceMemory};
use super::scrape::ScrapedChunk;
use super::state;
use crate::ids::{ChunkId, WriterId};

/// A chunk that a trace writer is writing, or has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedChunk {
    /// The place of the chunk.
    pub place: ChunkPlace,
    /// The trace writer.
    pub writer_id: WriterId,
    /// The position of the chunk in the writer's sequence.
    pub chunk_id: ChunkId,
}

impl UsedChunk {
    /// Returns true if this is the chunk that was scraped. Otherwise it was freed meanwhile, and its
    /// place has another one.
    #[must_use]
    pub fn is(&self, scraped: &ScrapedChunk) -> bool {
        let header = &scraped.header;
        (self.writer_id, self.chunk_id) == (header.writer_id, header.chunk_id)
    }
}

impl ServiceMemory {
    /// Returns the chunks in use of the trace writers that are wanted. Those of each writer are in the
    /// order of their ids, from the oldest on, and none that has packets is left out between them. Chunks
    /// that a writer acquires meanwhile may be missing at the end.
    pub fn used_chunks(&mut self, is_wanted: impl Fn(WriterId) -> bool) -> Vec<UsedChunk> {
        // SAFETY: the chunks stay in use during the call, because only this handle frees them, and it
        // is borrowed mutably. So the bytes of their headers stay headers.
        unsafe {
            self.mapping
                .used_chunks(|| self.lent_page_count(), is_wanted)
        }
    }
}

impl Mapping {
    /// Returns the chunks in use of the trace writers that are wanted, as
    /// [`ServiceMemory::used_chunks`] says. `page_count` returns the number of pages that may be in
    /// use.
    ///
    /// # Safety
    ///
    /// During the call, this process accesses the headers of chunks in use by atomics alone.
    pub(super) unsafe fn used_chunks(
        &self,
        page_count: impl Fn() -> u32,
        is_wanted: impl Fn(WriterId) -> bool,
    ) -> Vec<UsedChunk> {
        let mut newest = HashMap::<WriterId, ChunkId>::new();
        // SAFETY: the caller's promise.
        let look = || unsafe { self.look_at_used_chunks(page_count(), &is_wanted) };
        for chunk in look() {
            let newest = newest.entry(chunk.writer_id).or_insert(chunk.chunk_id);
            if chunk.chunk_id.is_newer_than(*newest) {
                *newest = chunk.chunk_id;
            }
        }
        in_order(&look(), &newest)
    }

    /// Looks at all pages once.
    ///
    /// # Safety
    ///
    /// As for [`used_chunks`](Self::used_chunks).
    unsafe fn look_at_used_chunks(
        &self,
        page_count: u32,
        is_wanted: impl Fn(WriterId) -> bool,
    ) -> Vec<UsedChunk> {
        let mut found = Vec::new();
        for page_index in 0..page_count {
            let Some(word) = self.page_word(page_index).map(state::load) else {
                break;
            };
            for chunk_index in word.used_chunks() {
                let place = ChunkPlace {
                    page_index,
                    chunk_index,
                };
                let extent = word.layout().and_then(|layout| self.extent(place, layout));
                let Some(extent) = extent else {
                    continue;
                };
                // SAFETY: the caller's promise.
                let header = unsafe { self.chunk_header(extent) }.load();
                if header.packets.count() > 0 && is_wanted(header.writer_id) {
                    found.push(UsedChunk {
                        place,
                        writer_id: header.writer_id,
                        chunk_id: header.chunk_id,
                    });
                }
            }
        }
        found
    }
}

/// Returns those of `chunks` that are no newer than the newest ones of their trace writers, ordered by
/// writer, the oldest first.
fn in_order(chunks: &[UsedChunk], newest: &HashMap<WriterId, ChunkId>) -> Vec<UsedChunk> {
    let chunks = chunks.iter().filter_map(|chunk| {
        let newest = newest.get(&chunk.writer_id)?;
        let age = newest.0.wrapping_sub(chunk.chunk_id.0);
        let is_known = !chunk.chunk_id.is_newer_than(*newest);
        is_known.then_some((chunk.writer_id.0, Reverse(age), *chunk))
    });
    let mut chunks: Vec<_> = chunks.collect();
    chunks.sort_unstable_by_key(|(writer, age, _)| (*writer, *age));
    chunks.into_iter().map(|(_, _, chunk)| chunk).collect()
}
