//! The shared memory of a producer, as the service holds it: memory of this process, whose chunks
//! are read in place, or of another process, whose chunks are copied.

use parking_lot::{Mutex, RwLock};

use tracezero_core::ids::WriterId;
use tracezero_core::shm::{
    ChunkCopy, ChunkPlace, CopiedHeader, ForeignMemory, MoveError, PageWord, ScrapedChunk,
    ServiceMemory,
};

/// The shared memory that a producer connects with.
#[derive(Debug)]
pub enum LentMemory {
    /// Memory of this process. The service trusts the producer to keep to the ABI.
    Own(ServiceMemory),
    /// Memory that another process can change at any time.
    Foreign(ForeignMemory),
}

impl From<ServiceMemory> for LentMemory {
    fn from(memory: ServiceMemory) -> Self {
        Self::Own(memory)
    }
}

impl From<ForeignMemory> for LentMemory {
    fn from(memory: ForeignMemory) -> Self {
        Self::Foreign(memory)
    }
}

/// The number of pages that are scraped at a time, while no chunk can be committed: 256 KiB with
/// pages of the usual size.
const SCRAPED_PAGES_MAX: usize = 64;

/// Shared memory that several threads commit chunks of.
#[derive(Debug)]
pub(super) enum ChunkSource {
    /// Commits lock it for reading. Scraping locks it for writing, so that no chunk is freed
    /// meanwhile.
    Own(RwLock<ServiceMemory>),
    Foreign(Mutex<(ForeignMemory, ChunkCopy)>),
}

impl From<LentMemory> for ChunkSource {
    fn from(memory: LentMemory) -> Self {
        match memory {
            LentMemory::Own(memory) => Self::Own(RwLock::new(memory)),
            LentMemory::Foreign(memory) => Self::Foreign(Mutex::new((memory, ChunkCopy::new()))),
        }
    }
}

impl ChunkSource {
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
        match self {
            Self::Own(memory) => {
                let memory = memory.read();
                let chunk = memory.acquire_for_reading(place)?;
                let header = CopiedHeader {
                    writer_id: chunk.writer_id(),
                    chunk_id: chunk.chunk_id(),
                    packets: chunk.packets(),
                };
                commit(&header, chunk.payload());
                // Dropping the chunk frees it.
            }
            Self::Foreign(memory) => {
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
        let page_count = match self {
            Self::Own(memory) => memory.read().lent_page_count(),
            Self::Foreign(memory) => memory.lock().0.geometry().page_count(),
        };
        let mut payload = Vec::new();
        for first_page in (0..page_count).step_by(SCRAPED_PAGES_MAX) {
            let pages = first_page..page_count.min(first_page + SCRAPED_PAGES_MAX as u32);
            match self {
                Self::Own(memory) => {
                    let mut memory = memory.write();
                    for page_index in pages {
                        for place in used_chunks(page_index, memory.page_word(page_index)) {
                            let scraped = memory.scrape(place, &mut payload);
                            if let Some(scraped) = scraped.filter(|it| is_wanted(it.writer_id)) {
                                commit(&scraped, &payload);
                            }
                        }
                    }
                }
                Self::Foreign(memory) => {
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

fn used_chunks(page_index: u32, word: Option<PageWord>) -> impl Iterator<Item = ChunkPlace> {
    let used = word.map(PageWord::used_chunks).into_iter().flatten();
    used.map(move |chunk_index| ChunkPlace {
        page_index,
        chunk_index,
    })
}
