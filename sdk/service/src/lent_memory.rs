//! The shared memory of a producer, as the service holds it: memory of this process, whose chunks
//! are read in place, or of another process, whose chunks are copied.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use tracezero_core::ids::WriterId;
use tracezero_core::shm::{
    ChunkCopy, ChunkPlace, CopiedHeader, ForeignMemory, MoveError, ScrapedChunk, ServiceMemory,
};

/// The number of chunks that are copied at a time, while no chunk can be committed: 256 KiB with
/// chunks of 4 KiB.
const SCRAPED_CHUNKS_MAX: usize = 64;

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
    /// Returns true if another process has the memory.
    pub(super) const fn is_foreign(&self) -> bool {
        matches!(self.0, Kind::Foreign(_))
    }

    /// Calls `commit` with a Complete chunk, which is then free. Returns what `commit` returns.
    ///
    /// # Errors
    ///
    /// If there is no such chunk, or if a producer of another process has broken the rules.
    pub(super) fn take<R>(
        &self,
        place: ChunkPlace,
        commit: impl FnOnce(&CopiedHeader, &[u8]) -> R,
    ) -> Result<R, MoveError> {
        match &self.0 {
            Kind::Own(memory) => {
                let memory = memory.read();
                let chunk = memory.acquire_for_reading(place)?;
                // Dropping the chunk frees it.
                Ok(commit(chunk.header(), chunk.payload()))
            }
            Kind::Foreign(MemoryToCome(memory)) => {
                let memory = memory.get().ok_or(MoveError::NoSuchChunk)?;
                let (memory, copy) = &mut *memory.lock();
                let header = memory.take(place, copy)?;
                Ok(commit(&header, copy.payload()))
            }
        }
    }

    /// Calls `commit` with the finished packets of each chunk in use whose writer `is_wanted`. The
    /// chunks of a writer come in their order.
    ///
    /// Writers that come to the end of a chunk meanwhile wait until all headers of chunks were looked
    /// at, or one batch of chunks was copied. If a writer acquires a chunk after the scrape started,
    /// the scrape may miss it. Such a chunk holds only packets that were written after the start.
    pub(super) fn scrape(
        &self,
        is_wanted: impl Fn(WriterId) -> bool,
        mut commit: impl FnMut(&ScrapedChunk, &[u8]),
    ) {
        match &self.0 {
            Kind::Own(memory) => {
                let chunks = memory.write().used_chunks(is_wanted);
                let mut payload = Vec::new();
                for batch in chunks.chunks(SCRAPED_CHUNKS_MAX) {
                    let mut memory = memory.write();
                    for chunk in batch {
                        let scraped = memory.scrape(chunk.place, &mut payload);
                        if let Some(scraped) = scraped.filter(|it| chunk.is(it)) {
                            commit(&scraped, &payload);
                        }
                    }
                }
            }
            Kind::Foreign(MemoryToCome(memory)) => {
                let Some(memory) = memory.get() else {
                    return;
                };
                let chunks = memory.lock().0.used_chunks(is_wanted);
                for batch in chunks.chunks(SCRAPED_CHUNKS_MAX) {
                    let (memory, copy) = &mut *memory.lock();
                    for chunk in batch {
                        let scraped = memory.scrape(chunk.place, copy);
                        if let Some(scraped) = scraped.filter(|it| chunk.is(it)) {
                            commit(&scraped, copy.payload());
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tracezero_core::ids::ChunkId;
    use tracezero_core::shm::{
        ChunkFlags, Geometry, NewChunk, PageLayout, ProducerMemory, WritableChunk, shared_memory,
    };

    use super::*;

    fn header(writer_id: u16, chunk_id: u32) -> NewChunk {
        NewChunk {
            writer_id: WriterId(writer_id),
            chunk_id: ChunkId(chunk_id),
            flags: ChunkFlags::NONE,
        }
    }

    /// Writes a packet into a new chunk of a page, which stays in use.
    fn begin(producer: &ProducerMemory, page_index: u32, chunk_id: u32) -> WritableChunk {
        let chunk = producer.acquire_for_writing(page_index, PageLayout::One, header(1, chunk_id));
        let mut chunk = chunk.unwrap();
        chunk.append_packet(b"packet");
        chunk.publish_finished();
        chunk
    }

    /// Memory of this process and of another one, each with its producer.
    fn memories(page_count: usize) -> [(ProducerMemory, LentMemory); 2] {
        let geometry = Geometry::new(page_count * 4096, 4096).unwrap();
        let (own, service) = shared_memory(geometry).unwrap();
        let (foreign, shared) = ForeignMemory::create(geometry).unwrap();
        let attached = ProducerMemory::attach(&shared).unwrap();
        [(own, service.into()), (attached, foreign.into())]
    }

    fn scraped_ids(memory: &LentMemory, is_wanted: impl Fn(WriterId) -> bool) -> Vec<u32> {
        let mut ids = Vec::new();
        memory.scrape(is_wanted, |chunk, _| ids.push(chunk.header.chunk_id.0));
        ids
    }

    #[test]
    fn chunks_come_in_their_order_on_whatever_pages() {
        for (producer, memory) in memories(8) {
            let pages_of_ids = [(5, u32::MAX), (0, 0), (7, 1), (2, 2)];
            let _chunks = pages_of_ids.map(|(page, id)| begin(&producer, page, id));
            assert_eq!(scraped_ids(&memory, |_| true), [u32::MAX, 0, 1, 2]);
        }
    }

    #[test]
    fn a_chunk_is_not_scraped_without_the_one_before() {
        for (producer, memory) in memories(8) {
            // All pages are looked at, up to the last that was ever used.
            let _last = producer.acquire_for_writing(7, PageLayout::One, header(2, 0));
            let first = Cell::new(Some(begin(&producer, 3, 0)));
            let rest = Cell::new(None);
            // While the scrape looks at page 3, the writer goes on: on a page that was looked at, and
            // on one that was not.
            let go_on = |_| {
                if let Some(first) = first.take() {
                    let _ = first.complete();
                    rest.set(Some([begin(&producer, 1, 1), begin(&producer, 6, 2)]));
                }
                true
            };
            assert_eq!(scraped_ids(&memory, go_on), [0, 1, 2]);
        }
    }

    #[test]
    fn chunks_acquired_during_a_scrape_may_be_left_for_the_next() {
        for (producer, memory) in memories(8) {
            let first = Cell::new(Some(begin(&producer, 3, 0)));
            let next = Cell::new(None);
            let go_on = |_| {
                if let Some(first) = first.take() {
                    let _ = first.complete();
                    next.set(Some(begin(&producer, 1, 1)));
                }
                true
            };
            assert_eq!(scraped_ids(&memory, go_on), [0]);
            assert_eq!(scraped_ids(&memory, |_| true), [0, 1]);
        }
    }

    #[test]
    fn chunks_of_writers_that_are_not_wanted_are_left_alone() {
        for (producer, memory) in memories(1) {
            let chunk = |writer_id| {
                let chunk = producer.acquire_for_writing(0, PageLayout::Two, header(writer_id, 0));
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
