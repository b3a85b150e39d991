//! What is known of each sequence: whether packets of it are missing, and whether its packets are being
//! skipped for want of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

use crate::tracks::UuidHasher;

/// Sequences that are kept in mind: about 200 MiB. Of further ones only single packets are looked at.
const SEQUENCES_MAX: usize = 8 << 20;

/// The sequences of a trace.
#[derive(Debug)]
pub(super) struct SequencesSeen {
    seen: HashMap<u32, SequenceSeen, BuildHasherDefault<UuidHasher>>,
    seen_max: usize,
    /// Damaged places so far. Each may have cost packets of any sequence.
    damages: u32,
}

/// What is kept of a sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SequenceSeen {
    /// Whether it says so itself; damage is not counted.
    pub(super) has_losses: bool,
    /// Whether it has been said that its packets are skipped, behind a loss.
    pub(super) is_skipping: bool,
    /// Damaged places before its first packet.
    damages_before: u32,
}

impl Default for SequencesSeen {
    fn default() -> Self {
        Self {
            seen: HashMap::default(),
            seen_max: SEQUENCES_MAX,
            damages: 0,
        }
    }
}

impl SequencesSeen {
    pub(super) fn count(&self) -> u64 {
        self.seen.len() as u64
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut SequenceSeen> {
        self.seen.get_mut(&id)
    }

    /// What is kept of a sequence, from here on if it is new; `None` if there is no room for it.
    pub(super) fn begin(&mut self, id: u32) -> Option<&mut SequenceSeen> {
        let is_full = self.seen.len() >= self.seen_max;
        match self.seen.entry(id) {
            Entry::Occupied(seen) => Some(seen.into_mut()),
            Entry::Vacant(_) if is_full => None,
            Entry::Vacant(place) => Some(place.insert(SequenceSeen {
                damages_before: self.damages,
                ..SequenceSeen::default()
            })),
        }
    }

    pub(super) fn damage(&mut self) {
        self.damages = self.damages.saturating_add(1);
    }

    /// Whether packets of a sequence may be missing before the current one.
    pub(super) fn has_losses(&self, id: u32) -> bool {
        match self.seen.get(&id) {
            Some(seen) => seen.has_losses || seen.damages_before < self.damages,
            None => self.seen.len() >= self.seen_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_may_have_cost_packets_of_the_sequences_before_it() {
        let mut sequences = SequencesSeen::default();
        assert!(sequences.begin(2).is_some());
        sequences.damage();
        assert!(sequences.begin(3).is_some());
        assert!(sequences.has_losses(2) && !sequences.has_losses(3));
        sequences.begin(3).expect("room").has_losses = true;
        assert!(sequences.has_losses(3));
    }

    #[test]
    fn of_sequences_for_which_there_is_no_room_anything_may_be_missing() {
        let mut sequences = SequencesSeen {
            seen_max: 1,
            ..SequencesSeen::default()
        };
        assert!(!sequences.has_losses(3));
        assert!(sequences.begin(2).is_some() && sequences.begin(3).is_none());
        assert!(sequences.has_losses(3) && !sequences.has_losses(2));
        assert_eq!(sequences.count(), 1);
    }
}
