//! What left a sequence, in which order, and what was lost on the way.

use std::cmp::Ordering;

use super::{Chunk, Key, Model, READ_GAP, order};

/// Whether a packet that begins in the chunk `id` tells a loss.
pub fn is_told(first_told: Option<u32>, id: u32) -> bool {
    first_told.is_none_or(|at| order(at, id) != Ordering::Greater)
}

impl Model {
    /// Rule: the newest of all, even if an older one left later.
    pub(super) fn newest_consumed(&self, key: Key) -> Option<(u32, usize, bool)> {
        let consumed = &self.sequences.get(&key)?.consumed;
        let newest = |a: &&(u32, usize, bool), b: &&(u32, usize, bool)| order(a.0, b.0);
        // Of several copies of one chunk, the last.
        consumed.iter().max_by(newest).copied()
    }

    /// Rule: every chunk is looked at once, when it is first in its sequence: ids are missing if
    /// the newest one before it, of those that left or are being stored, is not its predecessor.
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

    /// Rule: with the first chunk behind it that goes, a chunk that is being stored has nothing
    /// more to wait for: what is missing before it is noted then.
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
            // It comes again.
            return false;
        }
        left.chain(self.incoming_of(key))
            .filter(|&other| order(other, id) == Ordering::Less)
            .max_by(|&a, &b| order(a, b))
            .is_some_and(|predecessor| predecessor.wrapping_add(1) != id)
    }

    /// The chunk of this sequence that room is being made for.
    fn incoming_of(&self, key: Key) -> Option<u32> {
        let incoming = self.incoming.as_ref()?;
        (incoming.key == key).then_some(incoming.id)
    }

    /// Rule: a loss is told with the first packet behind it. If it happens behind a chunk that is
    /// yet to be read or is just being stored, that is one of the chunk `at` or of a later one.
    pub(super) fn lose(&mut self, key: Key, at: u32, cause: u32) {
        let unread = self.chunks_of(key).map(|(_, chunk)| chunk.id);
        let is_behind = unread
            .chain(self.incoming_of(key))
            .any(|id| order(id, at) == Ordering::Less);
        let first_told = is_behind.then_some(at);
        self.sequence(key).losses.push((first_told, cause));
    }

    /// Takes the oldest chunk out of its sequence.
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
