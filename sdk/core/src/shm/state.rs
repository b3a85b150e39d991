//! The page word: the state of each chunk of a page, and the moves between states.
//!
//! [`PageWord`] has pure functions for the values and the legal moves. [`take_free_chunk`],
//! [`move_chunk`] and [`complete`] apply moves to memory. A move passes the ownership of a chunk's
//! bytes on, so each is an acquire-release operation on the word: the new owner sees all that the
//! previous owner did.

use super::layout::{CHUNKS_PER_PAGE_MAX, PageLayout};
use super::sync::{AtomicU32, Ordering};

/// The number of attempts to exchange a page word. An attempt fails if another thread moved a chunk
/// of the same page meanwhile. Fourteen trace writers of one page, each on a processor of its own,
/// may fail many times in a row, but never this often. The limit protects against hostile
/// producers.
const ATTEMPTS_MAX: u32 = 4096;

/// The state of a chunk. The discriminants are the two bits in the page word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChunkState {
    /// The chunk has no owner and can be taken for writing.
    Free = 0,
    /// A trace writer owns the chunk.
    BeingWritten = 1,
    /// The service owns the chunk.
    BeingRead = 2,
    /// The chunk has no owner and waits for the service.
    Complete = 3,
}

impl ChunkState {
    const fn from_bits(bits: u32) -> Self {
        match bits & PageWord::STATE_MASK {
            0 => Self::Free,
            1 => Self::BeingWritten,
            2 => Self::BeingRead,
            _ => Self::Complete,
        }
    }
}

/// A move of a chunk from one state to the next. The move from Free to BeingWritten has no variant
/// here: [`PageWord::with_first_free_taken`] makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkMove {
    /// BeingWritten to Complete, by the chunk's trace writer.
    Complete,
    /// Complete to BeingRead, by the service.
    AcquireForReading,
    /// BeingRead to Free, by the service. If it was the page's last chunk in use, the page becomes
    /// free and loses its layout.
    Free,
}

impl ChunkMove {
    const fn from(self) -> ChunkState {
        match self {
            Self::Complete => ChunkState::BeingWritten,
            Self::AcquireForReading => ChunkState::Complete,
            Self::Free => ChunkState::BeingRead,
        }
    }

    const fn to(self) -> ChunkState {
        match self {
            Self::Complete => ChunkState::Complete,
            Self::AcquireForReading => ChunkState::BeingRead,
            Self::Free => ChunkState::Free,
        }
    }
}

/// The reason why a chunk could not be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// There is no such page, or it has no chunk with this index.
    NoSuchChunk,
    /// The chunk is in this state, from which the move does not start.
    WrongState(ChunkState),
    /// The page word changed during every attempt. Only a hostile producer can cause that.
    Contended,
}

impl std::fmt::Display for MoveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchChunk => f.write_str("the shared memory buffer has no such chunk"),
            Self::WrongState(state) => write!(f, "the chunk is in state {state:?}"),
            Self::Contended => write!(
                f,
                "the page word changed during all {ATTEMPTS_MAX} attempts"
            ),
        }
    }
}

impl std::error::Error for MoveError {}

/// The first word of a page: the layout, and the states `s0` to `s13` of its chunks.
///
/// ```text
///  31 30  28 27 26                                  3 2 1 0
/// +--+------+-----+-----   -   -   -   -   -   ---+---+---+
/// |0 |layout| s13 | s12           ...             |s1 |s0 |
/// +--+------+-----+-----   -   -   -   -   -   ---+---+---+
/// ```
///
/// Zero means a free page without a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageWord(u32);

impl PageWord {
    /// The word of a free page, which has no layout.
    pub const FREE: Self = Self(0);

    const LAYOUT_SHIFT: u32 = 28;
    const LAYOUT_MASK: u32 = 0x7;
    const ALL_STATES_MASK: u32 = 0x0fff_ffff;
    const STATE_MASK: u32 = 0x3;
    const STATE_BITS: u32 = 2;

    /// Returns the word with these bits.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the word's bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the word of a page that has this layout and only Free chunks.
    #[must_use]
    pub const fn partitioned(layout: PageLayout) -> Self {
        Self((layout.code() as u32) << Self::LAYOUT_SHIFT)
    }

    /// Returns the page's layout, or `None` if it has none or its code is reserved.
    #[must_use]
    pub const fn layout(self) -> Option<PageLayout> {
        PageLayout::from_code(((self.0 >> Self::LAYOUT_SHIFT) & Self::LAYOUT_MASK) as u8)
    }

    /// Returns the number of chunks; 0 if the page has no layout.
    #[must_use]
    pub const fn chunk_count(self) -> u8 {
        match self.layout() {
            Some(layout) => layout.chunk_count(),
            None => 0,
        }
    }

    /// Returns the state of chunk `chunk_index`, or `None` if the layout has no such chunk.
    #[must_use]
    pub const fn chunk_state(self, chunk_index: u8) -> Option<ChunkState> {
        if chunk_index < self.chunk_count() {
            Some(ChunkState::from_bits(self.0 >> state_shift(chunk_index)))
        } else {
            None
        }
    }

    /// Returns whether the page is free: no chunk is in use, and the page can get a new layout.
    #[must_use]
    pub const fn is_free(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the page has a layout and each of its chunks is Complete.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        let chunk_count = self.chunk_count() as u32;
        let all_complete = (1 << (chunk_count * Self::STATE_BITS)) - 1;
        chunk_count > 0 && self.0 & Self::ALL_STATES_MASK == all_complete
    }

    /// Returns a mask of the Free chunks: bit `i` is set if chunk `i` exists and is Free.
    #[must_use]
    pub const fn free_mask(self) -> u16 {
        self.chunks_mask() & !self.used_mask()
    }

    /// Returns a mask of the chunks in use: bit `i` is set if chunk `i` exists and is not Free.
    #[must_use]
    pub const fn used_mask(self) -> u16 {
        let mut mask = 0;
        let mut chunk_index = 0;
        while chunk_index < self.chunk_count() {
            if (self.0 >> state_shift(chunk_index)) & Self::STATE_MASK != 0 {
                mask |= 1 << chunk_index;
            }
            chunk_index += 1;
        }
        mask
    }

    /// Returns whether a writer holds a chunk: one is in state BeingWritten.
    #[must_use]
    pub const fn is_held(self) -> bool {
        const LOW_BITS: u32 = 0x0555_5555;
        let (low, high) = (self.0 & LOW_BITS, self.0 >> 1 & LOW_BITS);
        low & !high != 0
    }

    /// Returns the indices of the chunks in use.
    pub fn used_chunks(self) -> impl Iterator<Item = u8> {
        let used = self.used_mask();
        (0..self.chunk_count()).filter(move |chunk_index| used & 1 << chunk_index != 0)
    }

    /// Returns a mask of all chunks.
    const fn chunks_mask(self) -> u16 {
        ((1_u32 << self.chunk_count()) - 1) as u16
    }

    /// Takes the first Free chunk for writing. A free page gets `layout` first. Returns the new
    /// word and the chunk's index, or `None` if no chunk is Free.
    #[must_use]
    pub const fn with_first_free_taken(self, layout: PageLayout) -> Option<(Self, u8)> {
        let word = if self.is_free() {
            Self::partitioned(layout)
        } else {
            self
        };
        let free_mask = word.free_mask();
        if free_mask == 0 {
            return None;
        }
        let chunk_index = free_mask.trailing_zeros() as u8;
        Some((
            word.with_state(chunk_index, ChunkState::BeingWritten),
            chunk_index,
        ))
    }

    /// Returns the word after a move of chunk `chunk_index`.
    ///
    /// # Errors
    ///
    /// If there is no such chunk, or if the move does not start from the chunk's state.
    pub const fn moved(self, chunk_index: u8, chunk_move: ChunkMove) -> Result<Self, MoveError> {
        let Some(state) = self.chunk_state(chunk_index) else {
            return Err(MoveError::NoSuchChunk);
        };
        if state as u8 != chunk_move.from() as u8 {
            return Err(MoveError::WrongState(state));
        }
        let word = self.with_state(chunk_index, chunk_move.to());
        if word.0 & Self::ALL_STATES_MASK == 0 {
            return Ok(Self::FREE);
        }
        Ok(word)
    }

    /// Returns the word in which chunk `chunk_index` is in state `state`.
    #[must_use]
    pub const fn with_state(self, chunk_index: u8, state: ChunkState) -> Self {
        let shift = state_shift(chunk_index);
        Self(self.0 & !(Self::STATE_MASK << shift) | (state as u32) << shift)
    }
}

const fn state_shift(chunk_index: u8) -> u32 {
    debug_assert!(chunk_index < CHUNKS_PER_PAGE_MAX);
    chunk_index as u32 * PageWord::STATE_BITS
}

/// Loads the word, for callers that then read chunk headers. Acquire pairs with the release of
/// every move: a caller that sees a chunk in a state also sees what was written before the chunk
/// got into that state.
pub(super) fn load(word: &AtomicU32) -> PageWord {
    PageWord(word.load(Ordering::Acquire))
}

/// Loads the word as a hint. Relaxed, since callers read no other memory because of the result.
pub(super) fn load_hint(word: &AtomicU32) -> PageWord {
    PageWord(word.load(Ordering::Relaxed))
}

/// Takes the first Free chunk of a page for writing. If the page is free, the same exchange gives
/// it `layout`. Returns the page's layout and the chunk's index, or `None` if no chunk is Free.
pub(super) fn take_free_chunk(word: &AtomicU32, layout: PageLayout) -> Option<(PageLayout, u8)> {
    let mut seen = load(word);
    for _ in 0..ATTEMPTS_MAX {
        let (taken, chunk_index) = seen.with_first_free_taken(layout)?;
        match exchange(word, seen, taken) {
            Ok(()) => return Some((taken.layout()?, chunk_index)),
            Err(now) => seen = now,
        }
    }
    None
}

/// Moves chunk `chunk_index`. The caller owns the chunk, or becomes its owner by
/// [`ChunkMove::AcquireForReading`]. Returns the layout that the page had before the move.
pub(super) fn move_chunk(
    word: &AtomicU32,
    chunk_index: u8,
    chunk_move: ChunkMove,
) -> Result<PageLayout, MoveError> {
    let mut seen = load(word);
    for _ in 0..ATTEMPTS_MAX {
        let moved = seen.moved(chunk_index, chunk_move)?;
        match exchange(word, seen, moved) {
            Ok(()) => return seen.layout().ok_or(MoveError::NoSuchChunk),
            Err(now) => seen = now,
        }
    }
    Err(MoveError::Contended)
}

/// Turns each chunk that is being read into a complete one. The word is of a dead process's page.
pub(super) fn settle_reads(word: &AtomicU32) {
    // Relaxed, here and below: the page has one user.
    let bits = word.load(Ordering::Relaxed);
    let upper_bits = PageWord::ALL_STATES_MASK & 0xaaaa_aaaa;
    // The state 2 becomes 3.
    word.store(bits | (bits & upper_bits) >> 1, Ordering::Relaxed);
}

/// Completes a chunk that the caller owns. This takes one operation and cannot fail: BeingWritten
/// turns into Complete by setting a bit, and no other thread may change the chunk's bits before
/// that.
pub(super) fn complete(word: &AtomicU32, chunk_index: u8) {
    let complete = (ChunkState::Complete as u32) << state_shift(chunk_index);
    // Release pairs with the acquire of `move_chunk` (for reading) and `load` (for scraping).
    let before = PageWord(word.fetch_or(complete, Ordering::AcqRel));
    debug_assert_eq!(
        before.chunk_state(chunk_index),
        Some(ChunkState::BeingWritten)
    );
}

fn exchange(word: &AtomicU32, seen: PageWord, next: PageWord) -> Result<(), PageWord> {
    // Acquire pairs with the release of the previous move, whose owner is done with the chunk.
    // Release makes this owner's writes visible to the next owner. Acquire on failure: the caller
    // goes on with the new word.
    match word.compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        Err(now) => Err(PageWord(now)),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const STATES: [ChunkState; 4] = [
        ChunkState::Free,
        ChunkState::BeingWritten,
        ChunkState::BeingRead,
        ChunkState::Complete,
    ];
    const MOVES: [ChunkMove; 3] = [
        ChunkMove::Complete,
        ChunkMove::AcquireForReading,
        ChunkMove::Free,
    ];

    #[test]
    fn zero_is_a_free_page_without_chunks() {
        let word = PageWord::FREE;
        assert_eq!(word.bits(), 0);
        assert!(word.is_free() && !word.is_complete());
        assert_eq!((word.free_mask(), word.used_mask()), (0, 0));
        assert_eq!((word.layout(), word.chunk_count()), (None, 0));
        assert_eq!(word.chunk_state(0), None);
    }

    #[test]
    fn partitioned_page_has_free_chunks_but_is_not_free() {
        let masks = [0x1, 0x3, 0xf, 0x7f, 0x3fff];
        for (layout, mask) in PageLayout::ALL.into_iter().zip(masks) {
            let word = PageWord::partitioned(layout);
            assert_eq!(word.layout(), Some(layout));
            assert_eq!((word.free_mask(), word.used_mask()), (mask, 0));
            assert!(!word.is_free() && !word.is_complete());
        }
    }

    #[test]
    fn words_of_a_page_with_one_chunk_match_the_abi() {
        let (word, _) = PageWord::FREE
            .with_first_free_taken(PageLayout::One)
            .unwrap();
        assert_eq!(word.bits(), 0x1000_0001);
        let word = word.moved(0, ChunkMove::Complete).unwrap();
        assert_eq!(word.bits(), 0x1000_0003);
        let word = word.moved(0, ChunkMove::AcquireForReading).unwrap();
        assert_eq!(word.bits(), 0x1000_0002);
        let word = word.moved(0, ChunkMove::Free).unwrap();
        assert_eq!(word, PageWord::FREE);
    }

    #[test]
    fn a_page_is_held_while_a_chunk_is_being_written() {
        let states = [
            (ChunkState::Free, false),
            (ChunkState::BeingWritten, true),
            (ChunkState::BeingRead, false),
            (ChunkState::Complete, false),
        ];
        for layout in PageLayout::ALL {
            for (last, is_held) in states {
                let word = PageWord::partitioned(layout);
                let word = word.with_state(0, ChunkState::Complete);
                let word = word.with_state(layout.chunk_count() - 1, last);
                assert_eq!(word.is_held(), is_held, "{word:?}");
            }
        }
        assert!(!PageWord::FREE.is_held());
    }

    #[test]
    fn a_page_is_complete_when_each_chunk_is() {
        let complete_words = [
            0x1000_0003,
            0x2000_000f,
            0x3000_00ff,
            0x4000_3fff,
            0x5fff_ffff,
        ];
        for (layout, bits) in PageLayout::ALL.into_iter().zip(complete_words) {
            let mut word = PageWord::FREE;
            while let Some((taken, _)) = word.with_first_free_taken(layout) {
                word = taken;
            }
            for chunk_index in 0..layout.chunk_count() {
                assert!(!word.is_complete());
                word = word.moved(chunk_index, ChunkMove::Complete).unwrap();
            }
            assert!(word.is_complete());
            assert_eq!(word.bits(), bits);
        }
    }

    #[test]
    fn a_page_in_use_keeps_its_layout() {
        let (word, first) = PageWord::FREE
            .with_first_free_taken(PageLayout::Two)
            .unwrap();
        let (word, second) = word.with_first_free_taken(PageLayout::Fourteen).unwrap();
        assert_eq!(word.layout(), Some(PageLayout::Two));
        assert_eq!((first, second), (0, 1));
        assert_eq!(word.with_first_free_taken(PageLayout::Fourteen), None);
    }

    #[test]
    fn a_move_starts_from_one_state_only() {
        for state in STATES {
            for chunk_move in MOVES {
                // Chunk 0 keeps the page in use, so that freeing chunk 1 does not free the page.
                let word = PageWord::partitioned(PageLayout::Two)
                    .with_state(0, ChunkState::BeingWritten)
                    .with_state(1, state);
                let moved = word.moved(1, chunk_move);
                if state == chunk_move.from() {
                    let moved = moved.unwrap();
                    assert_eq!(moved.chunk_state(1), Some(chunk_move.to()));
                    assert_eq!(moved.chunk_state(0), Some(ChunkState::BeingWritten));
                } else {
                    assert_eq!(moved, Err(MoveError::WrongState(state)));
                }
            }
        }
    }

    #[test]
    fn chunk_outside_of_the_layout_does_not_exist() {
        let word = PageWord::partitioned(PageLayout::Four);
        for chunk_index in [4, 13, 14, 255] {
            assert_eq!(
                word.moved(chunk_index, ChunkMove::Complete),
                Err(MoveError::NoSuchChunk)
            );
        }
        for code in [6, 7] {
            let word = PageWord::from_bits(code << 28 | 0x3);
            assert_eq!(word.moved(0, ChunkMove::Free), Err(MoveError::NoSuchChunk));
            assert_eq!(word.with_first_free_taken(PageLayout::One), None);
        }
    }

    #[test]
    fn completing_changes_one_chunk_only() {
        let word = AtomicU32::new(0x5555_5555);
        complete(&word, 13);
        assert_eq!(load(&word).bits(), 0x5d55_5555);
        complete(&word, 0);
        assert_eq!(load(&word).bits(), 0x5d55_5557);
    }
}
