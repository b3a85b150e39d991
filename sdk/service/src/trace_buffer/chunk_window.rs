//! A window over the latest chunks of a writer. It remembers which of them were counted, to tell a
//! chunk that comes again from one that comes late.

use tracezero_core::ids::ChunkId;

use super::sequence::ConsumedChunk;

/// The latest chunks of one sequence, and which of them were counted. A chunk was counted if its
/// packets were read, evicted or refused.
///
/// A chunk is copied twice only if it was scraped, so it was still in the shared memory of its
/// producer. Therefore a chunk that may come again is one of the writer's latest. Chunks older than
/// the window are treated as counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkWindow {
    /// The newest chunk that was noted. Valid if `noted` is not 0.
    newest: u32,
    /// Bit `n` is set if the chunk `newest - n` was noted.
    noted: u128,
    /// The chunk that was noted while incomplete, and how many of its payload bytes were noted. A
    /// writer has one incomplete chunk at a time.
    unfinished: Option<(ChunkId, u16)>,
}

impl ChunkWindow {
    /// Creates a window in which all chunks before `id` were noted, and the first `payload_bytes` of
    /// that chunk.
    pub(super) fn up_to(id: ChunkId, payload_bytes: u16) -> Self {
        Self {
            newest: id.0,
            noted: u128::MAX,
            unfinished: Some((id, payload_bytes)),
        }
    }

    /// Notes that the packets in the first `payload_bytes` of a chunk were counted. If the chunk is
    /// not complete, more of it may come.
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

    /// Returns the newest chunk that was noted, and how much of the chunk was noted. A complete
    /// chunk was noted as a whole.
    pub(super) fn newest(&self) -> Option<ConsumedChunk> {
        let id = ChunkId(self.newest);
        let unfinished = self.unfinished.filter(|(unfinished, _)| *unfinished == id);
        (self.noted != 0).then_some(ConsumedChunk {
            id,
            payload_bytes: unfinished.map_or(u16::MAX, |(_, payload_bytes)| payload_bytes),
            was_incomplete: unfinished.is_some(),
        })
    }

    /// Returns the offset in a chunk where the packets begin that were not counted yet; `None` if
    /// all packets were counted.
    pub(super) fn first_uncounted(&self, id: ChunkId) -> Option<u16> {
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
    fn chunk_is_uncounted_until_it_is_noted() {
        let mut window = ChunkWindow::default();
        assert_eq!(window.first_uncounted(ChunkId(7)), Some(0));
        window.note(ChunkId(7), 100, true);
        window.note(ChunkId(9), 100, true);
        assert_eq!(window.first_uncounted(ChunkId(7)), None);
        assert_eq!(window.first_uncounted(ChunkId(8)), Some(0));
        window.note(ChunkId(8), 100, true);
        assert_eq!(window.first_uncounted(ChunkId(8)), None);
        assert_eq!(window.first_uncounted(ChunkId(9)), None);
        assert_eq!(window.first_uncounted(ChunkId(10)), Some(0));
    }

    #[test]
    fn rest_of_an_unfinished_chunk_is_uncounted() {
        let mut window = ChunkWindow::default();
        window.note(ChunkId(3), 40, false);
        assert_eq!(window.first_uncounted(ChunkId(3)), Some(40));
        window.note(ChunkId(3), 60, false);
        assert_eq!(window.first_uncounted(ChunkId(3)), Some(60));
        window.note(ChunkId(3), 80, true);
        assert_eq!(window.first_uncounted(ChunkId(3)), None);
    }

    #[test]
    fn window_follows_wrapping_ids_and_forgets_old_ones() {
        let mut window = ChunkWindow::default();
        window.note(ChunkId(u32::MAX), 1, true);
        window.note(ChunkId(1), 1, true);
        assert_eq!(window.first_uncounted(ChunkId(u32::MAX)), None);
        assert_eq!(window.first_uncounted(ChunkId(0)), Some(0));
        window.note(ChunkId(1000), 1, true);
        assert_eq!(window.first_uncounted(ChunkId(0)), None);
        assert_eq!(window.first_uncounted(ChunkId(999)), Some(0));
    }
}
