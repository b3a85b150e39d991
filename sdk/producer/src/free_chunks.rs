//! Tracks the free chunks of all pages of the shared memory, and decides into how many chunks the
//! next free page is divided.
//!
//! A writer first asks for a quarter of a page. After it has filled a chunk, it asks for whole
//! pages. Threads may hold chunks of each of these two layouts in at most a share of all pages;
//! further requests get a fourteenth of a page. So idle threads hold little memory and busy threads
//! have long chunks. Regardless of how many threads were busy before, memory of n pages has at least
//! 11 n chunks for threads that hold them:
//!
//! ```text
//!  pages  | whole: 1/8 | quarters: 1/8 | fourteenths: all others                   |
//!  chunks |   n/8 * 1  +    n/8 * 4    +    6n/8 * 14        = 11.125 n            |
//!  4 MiB  |   128      +    512        +    10,752           = 11,392              |
//!  16 MiB |   512      +    2,048      +    43,008           = 45,568              |
//! ```
//!
//! Pages whose chunks only wait for the service do not count: they become free by themselves. So if
//! a service in another process lags behind, the memory fills with long chunks, of which the service
//! has fewer to handle.
//!
//! Perfetto's own SDK divides all pages alike, by default into one chunk each: 4 MiB then serve
//! 1,024 threads. The alternative was to take chunks back from idle threads; but then every event
//! would have to check that its chunk is still its own.
//!
//! Writers come here only when a chunk ends, not per event. A search reads no shared memory: bit
//! sets hold all that it needs. It starts at the lowest page, so pages that were never needed stay
//! untouched.

use tracezero_core::shm::{PageLayout, PageWord};

/// The divisor that yields a share of all pages. Threads may hold whole pages in one share, and
/// quarters of pages in another.
const PAGES_PER_SHARE: u32 = 8;

/// The size of chunk that a writer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkSize {
    /// For a writer that has not filled a chunk yet. Most threads write little.
    Quarter,
    /// For a writer that has filled a chunk.
    Page,
}

/// The layouts to try, the preferred one first. The last one may take all pages.
const QUARTERS: [PageLayout; 2] = [PageLayout::Four, PageLayout::Fourteen];
const WHOLE_PAGES: [PageLayout; 3] = [PageLayout::One, PageLayout::Four, PageLayout::Fourteen];

/// The arbiter's view of all pages.
///
/// A page may have more free chunks than noted here, because the service has freed some since. A
/// page never has fewer: only the arbiter takes chunks, and it notes each chunk that it takes.
#[derive(Debug)]
pub(super) struct FreeChunks {
    pages: Vec<Page>,
    free_pages: PageSet,
    /// For each layout, the pages with that layout that have a free chunk.
    with_room: [PageSet; LAYOUTS],
    /// For each layout, the number of pages in which a thread holds a chunk.
    held_pages: [u32; LAYOUTS],
    /// The number of pages of a layout in which threads may hold chunks, except for the layout that
    /// is tried last.
    share_pages: u32,
    /// The layout of all pages, if they are not divided by demand.
    fixed: Option<PageLayout>,
}

/// The state of a page, as it was noted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Page {
    /// `None` for a free page.
    layout: Option<PageLayout>,
    /// True if a thread holds a chunk of it.
    is_held: bool,
}

const LAYOUTS: usize = PageLayout::ALL.len();

/// Returns the index of a layout in the arrays above.
const fn index_of(layout: PageLayout) -> usize {
    layout.code() as usize - 1
}

impl FreeChunks {
    /// Creates the state of `page_count` free pages.
    ///
    /// If there are too few pages for shares, all pages are divided alike, into at least 14 chunks
    /// together. A writer of a long packet holds two chunks for a moment, and threads that are idle
    /// hold one each: with few chunks, they would wait for each other in vain.
    pub(super) fn new(page_count: u32, fixed: Option<PageLayout>) -> Self {
        let mut free_pages = PageSet::new(page_count);
        (0..page_count).for_each(|page_index| free_pages.insert(page_index));
        let share_pages = page_count / PAGES_PER_SHARE;
        Self {
            pages: vec![Page::default(); page_count as usize],
            free_pages,
            with_room: std::array::from_fn(|_| PageSet::new(page_count)),
            held_pages: [0; LAYOUTS],
            share_pages,
            fixed: fixed.or(match page_count {
                ..2 => Some(PageLayout::Fourteen),
                2..4 => Some(PageLayout::Seven),
                4..PAGES_PER_SHARE => Some(PageLayout::Four),
                PAGES_PER_SHARE.. => None,
            }),
        }
    }

    /// Returns a page with a free chunk, and a layout. If the whole page is free, the caller must
    /// divide the page by this layout.
    pub(super) fn choose(&mut self, size: ChunkSize) -> Option<(u32, PageLayout)> {
        let preferred: &[PageLayout] = match (&self.fixed, size) {
            (Some(layout), _) => std::slice::from_ref(layout),
            (None, ChunkSize::Quarter) => &QUARTERS,
            (None, ChunkSize::Page) => &WHOLE_PAGES,
        };
        let finest = preferred.last();
        for layout in preferred {
            let may_divide =
                finest == Some(layout) || self.held_pages[index_of(*layout)] < self.share_pages;
            let page_index = self.with_room[index_of(*layout)].first().or_else(|| {
                let free_page = self.free_pages.first();
                free_page.filter(|_| may_divide)
            });
            if let Some(page_index) = page_index {
                return Some((page_index, *layout));
            }
        }
        // A chunk of another size is better than none.
        PageLayout::ALL.into_iter().find_map(|layout| {
            let page_index = self.with_room[index_of(layout)].first()?;
            Some((page_index, layout))
        })
    }

    /// Updates the state of a page from its word.
    pub(super) fn note(&mut self, page_index: u32, word: PageWord) {
        let Some(noted) = self.pages.get_mut(page_index as usize) else {
            return;
        };
        let page = Page {
            layout: word.layout(),
            is_held: word.is_held(),
        };
        let before = std::mem::replace(noted, page);
        if let (Some(layout), true) = (before.layout, before.is_held) {
            self.held_pages[index_of(layout)] -= 1;
        }
        if let (Some(layout), true) = (page.layout, page.is_held) {
            self.held_pages[index_of(layout)] += 1;
        }
        let layout = page.layout;
        if before.layout != layout {
            if let Some(before) = before.layout {
                self.with_room[index_of(before)].remove(page_index);
            }
            match layout {
                Some(_) => self.free_pages.remove(page_index),
                None => self.free_pages.insert(page_index),
            }
        }
        if let Some(layout) = layout {
            let with_room = &mut self.with_room[index_of(layout)];
            if word.free_mask() == 0 {
                with_room.remove(page_index);
            } else {
                with_room.insert(page_index);
            }
        }
    }
}

/// A set of pages.
#[derive(Debug)]
struct PageSet {
    /// One bit per page.
    words: Vec<u64>,
    /// All words before this index are 0.
    first_word: usize,
}

impl PageSet {
    fn new(page_count: u32) -> Self {
        let words = vec![0; page_count.div_ceil(u64::BITS) as usize];
        Self {
            first_word: words.len(),
            words,
        }
    }

    fn insert(&mut self, page_index: u32) {
        let (word, bit) = place_of(page_index);
        self.words[word] |= bit;
        self.first_word = self.first_word.min(word);
    }

    fn remove(&mut self, page_index: u32) {
        let (word, bit) = place_of(page_index);
        self.words[word] &= !bit;
    }

    /// Returns the lowest page of the set.
    fn first(&mut self) -> Option<u32> {
        loop {
            let bits = *self.words.get(self.first_word)?;
            if bits != 0 {
                return Some(self.first_word as u32 * u64::BITS + bits.trailing_zeros());
            }
            self.first_word += 1;
        }
    }
}

const fn place_of(page_index: u32) -> (usize, u64) {
    (
        (page_index / u64::BITS) as usize,
        1 << (page_index % u64::BITS),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracezero_core::shm::ChunkMove;

    /// Page words as in the shared memory, and the state under test.
    struct Memory {
        words: Vec<PageWord>,
        chunks: FreeChunks,
    }

    impl Memory {
        fn new(page_count: u32) -> Self {
            Self {
                words: vec![PageWord::FREE; page_count as usize],
                chunks: FreeChunks::new(page_count, None),
            }
        }

        fn take(&mut self, size: ChunkSize) -> Option<(u32, u8, PageLayout)> {
            let (page_index, layout) = self.chunks.choose(size)?;
            let word = &mut self.words[page_index as usize];
            let (taken, chunk_index) = word.with_first_free_taken(layout).unwrap();
            *word = taken;
            self.chunks.note(page_index, taken);
            Some((page_index, chunk_index, taken.layout().unwrap()))
        }

        fn take_layout(&mut self, size: ChunkSize) -> Option<PageLayout> {
            self.take(size).map(|(.., layout)| layout)
        }

        fn give_back(&mut self, page_index: u32, chunk_index: u8) {
            self.complete(page_index, chunk_index);
            self.give_back_complete(page_index, chunk_index);
        }

        fn complete(&mut self, page_index: u32, chunk_index: u8) {
            self.make_moves(page_index, chunk_index, &[ChunkMove::Complete]);
        }

        fn give_back_complete(&mut self, page_index: u32, chunk_index: u8) {
            let moves = [ChunkMove::AcquireForReading, ChunkMove::Free];
            self.make_moves(page_index, chunk_index, &moves);
        }

        fn make_moves(&mut self, page_index: u32, chunk_index: u8, moves: &[ChunkMove]) {
            let word = &mut self.words[page_index as usize];
            for chunk_move in moves {
                *word = word.moved(chunk_index, *chunk_move).unwrap();
            }
            self.chunks.note(page_index, *word);
        }

        /// Takes all remaining chunks, and returns their number.
        fn drain(&mut self, size: ChunkSize) -> usize {
            std::iter::from_fn(|| self.take(size)).count()
        }
    }

    #[test]
    fn four_mib_lend_over_ten_thousand_chunks() {
        for size in [ChunkSize::Page, ChunkSize::Quarter] {
            let whole_pages = match size {
                ChunkSize::Page => 128,
                ChunkSize::Quarter => 0,
            };
            let fourteenths = 1024 - 128 - whole_pages;
            let expected = whole_pages + 128 * 4 + fourteenths * 14;
            assert_eq!(Memory::new(1024).drain(size), expected);
            assert!(expected > 10_000);
        }
    }

    #[test]
    fn default_memory_has_a_chunk_for_every_writer_id() {
        use tracezero_core::shm::Geometry;

        let pages = Geometry::DEFAULT_SIZE_BYTES / Geometry::DEFAULT_PAGE_SIZE_BYTES;
        let chunks = Memory::new(pages.try_into().unwrap()).drain(ChunkSize::Page);
        assert!(chunks > usize::from(tracezero_core::ids::WriterId::MAX.0));
    }

    #[test]
    fn busy_writers_get_whole_pages_beside_many_idle_ones() {
        let mut memory = Memory::new(64);
        for _ in 0..400 {
            memory.take(ChunkSize::Quarter).unwrap();
        }
        for _ in 0..8 {
            assert_eq!(memory.take_layout(ChunkSize::Page), Some(PageLayout::One));
        }
        assert_eq!(
            memory.take_layout(ChunkSize::Page),
            Some(PageLayout::Fourteen)
        );
    }

    #[test]
    fn returned_page_is_lent_whole_again() {
        let mut memory = Memory::new(16);
        let first = memory.take(ChunkSize::Page).unwrap();
        assert_eq!(memory.take_layout(ChunkSize::Page), Some(PageLayout::One));
        // Whole pages have used up their share.
        assert_eq!(memory.take_layout(ChunkSize::Page), Some(PageLayout::Four));
        memory.give_back(first.0, first.1);
        assert_eq!(memory.take(ChunkSize::Page), Some(first));
    }

    #[test]
    fn pages_that_wait_for_the_service_take_no_share() {
        let mut memory = Memory::new(16);
        for _ in 0..16 {
            let (page_index, chunk_index, layout) = memory.take(ChunkSize::Page).unwrap();
            assert_eq!(layout, PageLayout::One);
            memory.complete(page_index, chunk_index);
        }
        assert_eq!(memory.take(ChunkSize::Page), None);
        memory.give_back_complete(0, 0);
        assert_eq!(
            memory.take_layout(ChunkSize::Quarter),
            Some(PageLayout::Four)
        );
    }

    #[test]
    fn last_chunks_go_to_requests_of_any_size() {
        let mut memory = Memory::new(8);
        let whole = memory.take(ChunkSize::Page).unwrap();
        let quarter = memory.take(ChunkSize::Quarter).unwrap();
        assert_eq!(memory.drain(ChunkSize::Quarter), 3 + 6 * 14);
        memory.give_back(whole.0, whole.1);
        assert_eq!(
            memory.take_layout(ChunkSize::Quarter),
            Some(PageLayout::Fourteen)
        );
        assert_eq!(memory.drain(ChunkSize::Page), 13);
        memory.give_back(quarter.0, quarter.1);
        assert_eq!(memory.take(ChunkSize::Page), Some(quarter));
        assert_eq!(memory.take(ChunkSize::Page), None);
    }

    #[test]
    fn few_pages_have_fourteen_chunks() {
        for (pages, chunks) in [(1, 14), (2, 14), (3, 21), (4, 16), (7, 28)] {
            for size in [ChunkSize::Page, ChunkSize::Quarter] {
                assert_eq!(Memory::new(pages).drain(size), chunks, "{pages} pages");
            }
        }
    }

    /// The table at the head of this file holds after any history.
    #[test]
    fn number_of_chunks_does_not_depend_on_history() {
        let mut memory = Memory::new(64);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize % limit
        };
        let mut held = Vec::new();
        for _ in 0..20_000 {
            let size = [ChunkSize::Quarter, ChunkSize::Page][random(2)];
            match random(100) {
                0 => {
                    for (page_index, chunk_index, _) in held.drain(..held.len() / 2) {
                        memory.give_back(page_index, chunk_index);
                    }
                }
                1..50 if !held.is_empty() => {
                    let (page_index, chunk_index, _) = held.swap_remove(random(held.len()));
                    memory.give_back(page_index, chunk_index);
                }
                _ => held.extend(memory.take(size)),
            }
        }
        let all = held.len() + memory.drain(ChunkSize::Quarter);
        assert!(all >= 64 * 11, "{all}");
    }
}
