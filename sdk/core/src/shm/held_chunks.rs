//! The chunks that this process is writing in memory that another process has made.
//!
//! The other process can change page words at any time. It may free a chunk that a trace writer
//! still fills, or give another layout to a page in use. Two threads of this process would then
//! write the same bytes. So this process keeps its own page words, which no other process can
//! change. It refuses chunks that overlap a chunk that it is writing.

use super::layout::{ChunkPlace, PageLayout};
use super::state::{ChunkState, PageWord};
use super::sync::{AtomicU32, Ordering};

/// For each page, a [`PageWord`] in which the chunks that this process writes are BeingWritten.
///
/// Invariant: (H1) No two chunks of a page that are taken and not released overlap.
#[derive(Debug)]
pub(super) struct HeldChunks(Box<[AtomicU32]>);

impl HeldChunks {
    pub(super) fn new(page_count: u32) -> Self {
        Self((0..page_count).map(|_| AtomicU32::new(0)).collect())
    }

    /// Takes a chunk of a page that has `layout`. Returns false if the chunk overlaps one that is
    /// being written.
    #[must_use]
    pub(super) fn take(&self, place: ChunkPlace, layout: PageLayout) -> bool {
        self.change(place, |word| {
            let word = match word.is_free() {
                true => PageWord::partitioned(layout),
                false => word,
            };
            let is_free = word.layout() == Some(layout)
                && word.chunk_state(place.chunk_index) == Some(ChunkState::Free);
            is_free.then(|| word.with_state(place.chunk_index, ChunkState::BeingWritten))
        })
    }

    /// Releases a chunk. The caller no longer writes to it.
    pub(super) fn release(&self, place: ChunkPlace) {
        self.change(place, |word| {
            let word = word.with_state(place.chunk_index, ChunkState::Free);
            Some(match word.used_mask() {
                0 => PageWord::FREE,
                _ => word,
            })
        });
    }

    fn change(&self, place: ChunkPlace, new: impl Fn(PageWord) -> Option<PageWord>) -> bool {
        let Some(word) = self.0.get(place.page_index as usize) else {
            return false;
        };
        let new = |bits| Some(new(PageWord::from_bits(bits))?.bits());
        // The release and the acquire pair with each other. So all writes of a chunk's last owner
        // happen before the writes of its next owner.
        word.fetch_update(Ordering::AcqRel, Ordering::Acquire, new)
            .is_ok()
    }
}
