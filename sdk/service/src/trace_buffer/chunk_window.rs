//! Remembers which of a writer's latest chunks are accounted for, so that one that comes again is
//! told from one that comes late.

use tracezero_core::ids::ChunkId;

use super::sequence::ConsumedChunk;

/// The chunks of one sequence that were read, evicted or refused, as far as one of them may come
/// again.
///
/// A chunk is copied twice only if it was scraped, that is, while it still lay in the shared
/// memory of its producer; so those that may come again are among the writer's latest. What is
/// older than the window counts as accounted for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkWindow {
    /// The newest chunk that was noted; meaningful if `noted` is not 0.
    newest: u32,
    /// Bit `n` stands for the chunk `newest - n`.
    noted: u128,
    /// How much of a chunk that its writer had not finished is accounted for. A writer has one
    /// such chunk at a time.
    unfinished: Option<(ChunkId, u16)>,
}

impl ChunkWindow {
    /// Notes that the first `payload_bytes` of a chunk are accounted for, and that more of it may
    /// come if it is not complete.
    #[inline]
    pub(super) fn note(&mut self, id: ChunkId, payload_bytes: u16, is_complete: bool) {
        let ahead = id.0.wrapping_sub(self.newest);
        if self.noted == 0 {
            self.newest = id.0;
            self.noted = 1;
        } else if ahead < 1 << 31 {
            self.noted = self.noted.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = id.0;
        } else {
            let behind = self.newest.wrapping_sub(id.0);
            self.noted |= 1_u128.checked_shl(behind).unwrap_or(0);
        }
        if !is_complete {
            self.unfinished = Some((id, payload_bytes));
        } else if matches!(self.unfinished, Some((unfinished, _)) if unfinished == id) {
            self.unfinished = None;
        }
    }

    /// The newest chunk that was noted, as far as it is accounted for. Of a finished one, all is.
    pub(super) fn newest(&self) -> Option<ConsumedChunk> {
        let id = ChunkId(self.newest);
        let unfinished = self.unfinished.filter(|(unfinished, _)| *unfinished == id);
        (self.noted != 0).then_some(ConsumedChunk {
            id,
            payload_bytes: unfinished.map_or(u16::MAX, |(_, payload_bytes)| payload_bytes),
            was_incomplete: unfinished.is_some(),
        })
    }

    /// How much of a chunk is not accounted for: the offset from which on its packets are news, or
    /// `None` if none of them is.
    pub(super) fn news(&self, id: ChunkId) -> Option<u16> {
        if let Some((unfinished, payload_bytes)) = self.unfinished
            && unfinished == id
        {
            return Some(payload_bytes);
        }
        let behind = self.newest.wrapping_sub(id.0);
        let is_newer = behind >= 1 << 31;
        let is_noted = match self.noted.checked_shr(behind) {
            Some(noted) => noted & 1 != 0,
            None => true,
        };
        (self.noted == 0 || is_newer || !is_noted).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_news_once() {
        let mut window = ChunkWindow::default();
        assert_eq!(window.news(ChunkId(7)), Some(0));
        window.note(ChunkId(7), 100, true);
        window.note(ChunkId(9), 100, true);
        assert_eq!(window.news(ChunkId(7)), None);
        assert_eq!(window.news(ChunkId(8)), Some(0));
        window.note(ChunkId(8), 100, true);
        assert_eq!(window.news(ChunkId(8)), None);
        assert_eq!(window.news(ChunkId(9)), None);
        assert_eq!(window.news(ChunkId(10)), Some(0));
    }

    #[test]
    fn an_unfinished_chunk_is_news_from_where_it_ended() {
        let mut window = ChunkWindow::default();
        window.note(ChunkId(3), 40, false);
        assert_eq!(window.news(ChunkId(3)), Some(40));
        window.note(ChunkId(3), 60, false);
        assert_eq!(window.news(ChunkId(3)), Some(60));
        window.note(ChunkId(3), 80, true);
        assert_eq!(window.news(ChunkId(3)), None);
    }

    #[test]
    fn the_window_follows_the_ids_over_their_wrap_and_forgets_what_is_far_behind() {
        let mut window = ChunkWindow::default();
        window.note(ChunkId(u32::MAX), 1, true);
        window.note(ChunkId(1), 1, true);
        assert_eq!(window.news(ChunkId(u32::MAX)), None);
        assert_eq!(window.news(ChunkId(0)), Some(0));
        window.note(ChunkId(1000), 1, true);
        assert_eq!(window.news(ChunkId(0)), None);
        assert_eq!(window.news(ChunkId(999)), Some(0));
    }
}
