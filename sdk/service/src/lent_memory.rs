//! The shared memory of a producer, as the service holds it: memory of this process, whose chunks
//! are read in place, or of another process, whose chunks are copied.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use tracezero_core::ids::WriterId;
use tracezero_core::shm::{
    ChunkCopy, ChunkPlace, CopiedHeader, ForeignMemory, MoveError, PageWord, ScrapedChunk,
    ServiceMemory,
};

/// The number of pages that are scraped at a time, while no chunk can be committed: 256 KiB with
/// pages of the usual size.
const SCRAPED_PAGES_MAX: usize = 64;

/// The shared memory that a producer connects with: a [`ServiceMemory`] if the producer is in this
/// process, otherwise a [`ForeignMemory`].
#[derive(Debug)]
pub struct LentMemory(Kind);

#[derive(Debug)]
enum Kind {
    /// Commits lock it for reading. Scraping locks it for writing, so that no chunk is freed
    /// meanwhile.
    Own(RwLock<ServiceMemory>),
    Foreign(MemoryToCome),
}

/// The place for memory of a producer in another process. The producer gets the memory when a
/// session first records it, which may be after it has connected.
#[derive(Clone, Debug, Default)]
pub struct MemoryToCome(Arc<OnceLock<Mutex<(ForeignMemory, ChunkCopy)>>>);

impl MemoryToCome {
    /// Lends the memory to the service, from now on. Does nothing if the service has one already.
    pub fn lend(&self, memory: ForeignMemory) {
        let _ = self.0.set(Mutex::new((memory, ChunkCopy::new())));
    }

    /// Returns true if the service has the memory.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.0.get().is_some()
    }
}

impl From<MemoryToCome> for LentMemory {
    fn from(memory: MemoryToCome) -> Self {
        Self(Kind::Foreign(memory))
    }
}

impl From<ServiceMemory> for LentMemory {
    fn from(memory: ServiceMemory) -> Self {
        Self(Kind::Own(RwLock::new(memory)))
    }
}

impl From<ForeignMemory> for LentMemory {
    fn from(memory: ForeignMemory) -> Self {
        let place = MemoryToCome::default();
        place.lend(memory);
        place.into()
    }
}

impl LentMemory {
    /// Calls `commit` with a Complete chunk, which is then free.
    ///
    /// # Errors
    ///
    /// If there is no such chunk, or if a producer of another process has broken the rules.
    pub(super) fn take(
        &self,
        place: ChunkPlace,
        commit: impl FnOnce(&CopiedHeader, &[u8]),
    ) -> Result<(), MoveError> {
        match &self.0 {
            Kind::Own(memory) => {
                let memory = memory.read();
                let chunk = memory.acquire_for_reading(place)?;
                commit(chunk.header(), chunk.payload());
                // Dropping the chunk frees it.
            }
            Kind::Foreign(MemoryToCome(memory)) => {
                let memory = memory.get().ok_or(MoveError::NoSuchChunk)?;
                let (memory, copy) = &mut *memory.lock();
                let header = memory.take(place, copy)?;
                commit(&header, copy.payload());
            }
        }
        Ok(())
    }

    /// Calls `commit` with the finished packets of each chunk in use whose writer `is_wanted`.
    ///
    /// Writers that come to the end of a chunk meanwhile wait for one batch of pages at most. If a
    /// writer acquires a chunk after the scrape started, the scrape may miss it. Such a chunk holds
    /// only packets that were written after the start.
    pub(super) fn scrape(
        &self,
        is_wanted: impl Fn(WriterId) -> bool,
        mut commit: impl FnMut(&ScrapedChunk, &[u8]),
    ) {
        match &self.0 {
            Kind::Own(memory) => {
                let page_count = memory.read().lent_page_count();
                let mut payload = Vec::new();
                for pages in batches(page_count) {
                    let mut memory = memory.write();
                    for page_index in pages {
                        for place in used_chunks(page_index, memory.page_word(page_index)) {
                            if let Some(scraped) = memory.scrape(place, &is_wanted, &mut payload) {
                                commit(&scraped, &payload);
                            }
                        }
                    }
                }
            }
            Kind::Foreign(MemoryToCome(memory)) => {
                let Some(memory) = memory.get() else {
                    return;
                };
                let page_count = memory.lock().0.geometry().page_count();
                for pages in batches(page_count) {
                    let (memory, copy) = &mut *memory.lock();
                    for page_index in pages {
                        for place in used_chunks(page_index, memory.page_word(page_index)) {
                            if let Some(scraped) = memory.scrape(place, &is_wanted, copy) {
                                commit(&scraped, copy.payload());
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the pages that are scraped while the memory is locked once, for all of so many pages.
fn batches(page_count: u32) -> impl Iterator<Item = Range<u32>> {
    let firsts = (0..page_count).step_by(SCRAPED_PAGES_MAX);
    firsts.map(move |first| first..page_count.min(first + SCRAPED_PAGES_MAX as u32))
}

fn used_chunks(page_index: u32, word: Option<PageWord>) -> impl Iterator<Item = ChunkPlace> {
    let used = word.map(PageWord::used_chunks).into_iter().flatten();
    used.map(move |chunk_index| ChunkPlace {
        page_index,
        chunk_index,
    })
}

#[cfg(test)]
mod tests {
    use tracezero_core::ids::ChunkId;
    use tracezero_core::shm::{
        ChunkFlags, Geometry, NewChunk, PageLayout, ProducerMemory, shared_memory,
    };

    use super::*;

    #[test]
    fn a_scrape_locks_64_pages_at_a_time() {
        const PAGES: u32 = 130;
        assert!(batches(PAGES).eq([0..64, 64..128, 128..130]));
        assert!(batches(128).eq([0..64, 64..128]));
        let geometry = Geometry::new(PAGES as usize * 4096, 4096).unwrap();
        let (producer, memory) = shared_memory(geometry).unwrap();
        let memory = LentMemory::from(memory);
        let firsts_and_lasts = [0, 63, 64, 127, 128, 129];
        let _chunks = firsts_and_lasts.map(|page_index| {
            let header = NewChunk {
                writer_id: WriterId(1),
                chunk_id: ChunkId(page_index),
                flags: ChunkFlags::NONE,
            };
            let chunk = producer.acquire_for_writing(page_index, PageLayout::One, header);
            let mut chunk = chunk.unwrap();
            chunk.append_packet(b"packet");
            chunk.publish_finished();
            chunk
        });
        let mut scraped = Vec::new();
        memory.scrape(|_| true, |chunk, _| scraped.push(chunk.header.chunk_id.0));
        assert_eq!(scraped, firsts_and_lasts);
    }

    #[test]
    fn chunks_of_writers_that_are_not_wanted_are_left_alone() {
        let geometry = Geometry::new(4096, 4096).unwrap();
        let (own, service) = shared_memory(geometry).unwrap();
        let (foreign, shared) = ForeignMemory::create(geometry).unwrap();
        let attached = ProducerMemory::attach(&shared).unwrap();
        for (producer, memory) in [
            (own, LentMemory::from(service)),
            (attached, LentMemory::from(foreign)),
        ] {
            let chunk = |writer_id| {
                let header = NewChunk {
                    writer_id: WriterId(writer_id),
                    chunk_id: ChunkId(0),
                    flags: ChunkFlags::NONE,
                };
                let chunk = producer.acquire_for_writing(0, PageLayout::Two, header);
                let mut chunk = chunk.unwrap();
                chunk.append_packet(b"packet");
                chunk.publish_finished();
                chunk
            };
            let _chunks = [chunk(1), chunk(2)];
            let mut scraped = Vec::new();
            let is_wanted = |writer_id| writer_id == WriterId(2);
            memory.scrape(is_wanted, |chunk, payload| {
                scraped.push((chunk.header.writer_id, payload[..7].to_vec()));
            });
            assert_eq!(scraped, [(WriterId(2), b"\x06packet".to_vec())]);
        }
    }
}
