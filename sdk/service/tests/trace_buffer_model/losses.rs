//! The order in which chunks leave a sequence, and the losses between them.

use std::cmp::Ordering;

use super::{Chunk, Key, Model, READ_GAP, order};

/// Returns true if a packet that begins in the chunk `id` reports a loss.
pub fn is_told(first_told: Option<u32>, id: u32) -> bool {
    first_told.is_none_or(|at| order(at, id) != Ordering::Greater)
}

impl Model {
    /// Returns the consumed chunk with the newest id. Rule: this chunk stays the same if an older
    /// chunk leaves later.
    pub(super) fn newest_consumed(&self, key: Key) -> Option<(u32, usize, bool)> {
        let consumed = &self.sequences.get(&key)?.consumed;
        let newest = |a: &&(u32, usize, bool), b: &&(u32, usize, bool)| order(a.0, b.0);
        // If there are several copies of one chunk, the last one counts.
        consumed.iter().max_by(newest).copied()
    }

    /// Rule: each chunk is checked for a gap once, when it is the first of its sequence. There is a
    /// gap if ids are missing between this chunk and its predecessor. The predecessor is the newest
    /// of the older chunks that left or are being stored.
    pub(super) fn check_gap(&mut self, slot: usize) {
        let chunk = self.chunk_mut(slot);
        if std::mem::replace(&mut chunk.gap_checked, true) {
            return;
        }
        let (key, id) = (chunk.key, chunk.id);
        if self.is_behind_gap(key, id) {
            self.lose(key, id, READ_GAP);
        }
    }

    /// Rule: the gap before a chunk that is being stored is noted when the first newer chunk is
    /// evicted for it.
    fn check_gap_before_incoming(&mut self, gone: &Chunk) {
        if let Some(incoming) = &mut self.incoming
            && incoming.key == gone.key
            && order(gone.id, incoming.id) == Ordering::Greater
            && !incoming.gap_checked
        {
            incoming.gap_checked = true;
            let id = incoming.id;
            if self.is_behind_gap(gone.key, id) {
                self.lose(gone.key, id, READ_GAP);
            }
        }
    }

    fn is_behind_gap(&self, key: Key, id: u32) -> bool {
        let left = self.sequences[&key].consumed.iter().map(|&(id, ..)| id);
        if left.clone().any(|other| other == id) {
            // The chunk comes again.
            return false;
        }
        left.chain(self.incoming_of(key))
            .filter(|&other| order(other, id) == Ordering::Less)
            .max_by(|&a, &b| order(a, b))
            .is_some_and(|predecessor| predecessor.wrapping_add(1) != id)
    }

    /// Returns the chunk of this sequence that room is being made for.
    fn incoming_of(&self, key: Key) -> Option<u32> {
        let incoming = self.incoming.as_ref()?;
        (incoming.key == key).then_some(incoming.id)
    }

    /// Rule: a loss is reported with the first packet behind it. If an older chunk is still to be
    /// read or is being stored, that packet is in the chunk `at` or a later one.
    pub(super) fn lose(&mut self, key: Key, at: u32, cause: u32) {
        let unread = self.chunks_of(key).map(|(_, chunk)| chunk.id);
        let is_behind = unread
            .chain(self.incoming_of(key))
            .any(|id| order(id, at) == Ordering::Less);
        let first_told = is_behind.then_some(at);
        self.sequence(key).losses.push((first_told, cause));
    }

    /// Removes the oldest chunk from its sequence.
    pub(super) fn erase(&mut self, slot: usize) {
        let chunk = self.slots[slot].chunk.take().expect("a chunk");
        self.check_gap_before_incoming(&chunk);
        let (len, complete) = (chunk.payload.len(), !chunk.incomplete);
        self.accounts
            .entry(chunk.key)
            .or_default()
            .note(chunk.id, len, complete);
        let is_empty = self.queue(chunk.key).is_empty();
        self.emptied += u64::from(is_empty);
        let now = self.emptied;
        let sequence = self.sequence(chunk.key);
        sequence.consumed.push((chunk.id, len, chunk.incomplete));
        if is_empty {
            sequence.empty_since = Some(now);
        }
    }
}
