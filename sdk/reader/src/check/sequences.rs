//! Notes for each sequence whether packets of it may be missing, and whether its packets are being
//! skipped because of that.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

use crate::tracks::UuidHasher;

/// The maximum number of sequences that are stored, which take about 200 MiB. Packets of further
/// sequences are checked one by one.
const SEQUENCES_MAX: usize = 8 << 20;

/// The sequences of a trace.
#[derive(Debug)]
pub(super) struct SequenceStates {
    states: Vec<SequenceState>,
    /// By id, the index in `states`.
    indexes: HashMap<u32, u32, BuildHasherDefault<UuidHasher>>,
    /// Id and index of the sequence that was looked up last: the next packet is usually of the same one.
    last: Option<(u32, u32)>,
    seen_max: usize,
    /// The number of damaged places so far. Packets of any sequence may have been lost in each.
    damages: u32,
}

/// The state of one sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SequenceState {
    /// True if the sequence reports lost packets, or if its beginning is missing. Damage does not
    /// set this field.
    pub(super) has_losses: bool,
    /// True if a finding has said that packets of the sequence are skipped, behind a loss.
    pub(super) is_skipping: bool,
    /// The number of damaged places before its first packet.
    damages_before: u32,
}

impl Default for SequenceStates {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            indexes: HashMap::default(),
            last: None,
            seen_max: SEQUENCES_MAX,
            damages: 0,
        }
    }
}

impl SequenceStates {
    pub(super) fn count(&self) -> u64 {
        self.states.len() as u64
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut SequenceState> {
        let index = self.index(id)?;
        self.last = Some((id, index));
        self.states.get_mut(index as usize)
    }

    /// Returns the state of a sequence, which is added if it is new. Returns `None` if there is no
    /// room for it.
    pub(super) fn begin(&mut self, id: u32) -> Option<&mut SequenceState> {
        let is_full = self.states.len() >= self.seen_max;
        let index = match self.indexes.entry(id) {
            Entry::Occupied(seen) => *seen.get(),
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(place) => {
                self.states.push(SequenceState {
                    damages_before: self.damages,
                    ..SequenceState::default()
                });
                *place.insert(self.states.len() as u32 - 1)
            }
        };
        self.states.get_mut(index as usize)
    }

    pub(super) fn damage(&mut self) {
        self.damages = self.damages.saturating_add(1);
    }

    /// Returns true if packets of a sequence may be missing before the current packet. Also returns
    /// true for a sequence whose state is not stored, for want of room.
    #[inline]
    pub(super) fn has_losses(&self, id: u32) -> bool {
        let index = self.index(id);
        match index.and_then(|index| self.states.get(index as usize)) {
            Some(seen) => seen.has_losses || seen.damages_before < self.damages,
            None => self.states.len() >= self.seen_max,
        }
    }

    #[inline]
    fn index(&self, id: u32) -> Option<u32> {
        match self.last {
            Some((last, index)) if last == id => Some(index),
            _ => self.indexes.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_counts_as_loss_for_earlier_sequences() {
        let mut sequences = SequenceStates::default();
        assert!(sequences.begin(2).is_some());
        sequences.damage();
        assert!(sequences.begin(3).is_some());
        assert!(sequences.has_losses(2) && !sequences.has_losses(3));
        sequences.begin(3).expect("room").has_losses = true;
        assert!(sequences.has_losses(3));
    }

    #[test]
    fn sequences_beyond_the_limit_count_as_lossy() {
        let mut sequences = SequenceStates {
            seen_max: 1,
            ..SequenceStates::default()
        };
        assert!(!sequences.has_losses(3));
        assert!(sequences.begin(2).is_some() && sequences.begin(3).is_none());
        assert!(sequences.has_losses(3) && !sequences.has_losses(2));
        assert_eq!(sequences.count(), 1);
    }
}
