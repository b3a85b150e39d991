//! Writes states of overwritten packets into a trace, each before the first packet that builds on it.
//!
//! Before a reader gets packets of a sequence, it must know which producer wrote it, and the state after
//! the overwritten packets. The trace begins with both, for all sequences of that time. A trace that is
//! streamed into a file gets sequences later: they are announced right before their first packets.

use std::collections::HashSet;

use tracezero_core::ids::ProducerId;

use super::folded_state::FoldedState;

/// The sequences in each buffer, with their producers.
pub(super) type Provenance = Vec<Vec<(u32, ProducerId)>>;

/// The sequences and producers that a trace knows.
#[derive(Debug, Default)]
pub(super) struct AnnouncedStates {
    sequences: HashSet<u32>,
    producers: HashSet<ProducerId>,
}

/// New sequences, with the states that they build on.
#[derive(Debug)]
pub(super) struct NewSequences {
    pub(super) provenance: Provenance,
    /// Empty if the trace knows the states of these producers.
    pub(super) states: Vec<FoldedState>,
}

/// Encodes an announcement as packets of the service.
pub(super) type EncodeAnnouncement = Box<dyn Fn(&NewSequences) -> Vec<u8> + Send>;

impl AnnouncedStates {
    /// Returns the states with which the trace begins. `provenance` is written before them.
    ///
    /// An empty state without a sequence is left out, because trace processor reports it as an error.
    pub(super) fn begin(
        &mut self,
        provenance: &Provenance,
        mut states: Vec<FoldedState>,
    ) -> Vec<FoldedState> {
        let sequences = || provenance.iter().flatten();
        self.sequences.extend(sequences().map(|(id, _)| *id));
        self.producers
            .extend(sequences().map(|(_, producer)| *producer));
        let is_known = |producer: &ProducerId| self.producers.contains(producer);
        for state in &mut states {
            if state.state.is_empty() || state.producers.iter().any(is_known) {
                state.producers.retain(is_known);
            }
        }
        states.retain(|state| !state.producers.is_empty());
        states
    }

    /// Returns what to write before packets of these sequences of the buffer at `index`; `None` if the
    /// trace knows all. `is_folded` says whether packets of a producer are folded.
    pub(super) fn before(
        &mut self,
        index: usize,
        sequences: impl Iterator<Item = (u32, ProducerId)>,
        is_folded: impl Fn(ProducerId) -> bool,
        states: impl FnOnce() -> Vec<FoldedState>,
    ) -> Option<NewSequences> {
        let new: Vec<_> = sequences
            .filter(|(id, producer)| is_folded(*producer) && self.sequences.insert(*id))
            .collect();
        if new.is_empty() {
            return None;
        }
        let new_producers: HashSet<_> = new
            .iter()
            .map(|(_, producer)| *producer)
            .filter(|producer| !self.producers.contains(producer))
            .collect();
        self.producers.extend(&new_producers);
        let states = match new_producers.is_empty() {
            true => Vec::new(),
            false => self.states_of(&new_producers, states()),
        };
        let mut provenance = vec![Vec::new(); index];
        provenance.push(new);
        Some(NewSequences { provenance, states })
    }

    /// Returns the states of these producers, with all their producers that the trace knows: so a reader
    /// knows them again.
    fn states_of(
        &self,
        producers: &HashSet<ProducerId>,
        mut states: Vec<FoldedState>,
    ) -> Vec<FoldedState> {
        states.retain(|state| state.producers.iter().any(|it| producers.contains(it)));
        for state in &mut states {
            state.producers.retain(|it| self.producers.contains(it));
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProducerId = ProducerId::new(1);
    const B: ProducerId = ProducerId::new(2);
    const C: ProducerId = ProducerId::new(3);

    fn state(bytes: &[u8], producers: &[ProducerId]) -> FoldedState {
        FoldedState {
            program: Vec::new(),
            state: bytes.to_vec(),
            limit_kib: 1,
            producers: producers.to_vec(),
        }
    }

    fn producers(states: &[FoldedState]) -> Vec<&[ProducerId]> {
        states.iter().map(|state| &state.producers[..]).collect()
    }

    #[test]
    fn a_trace_begins_with_states_that_have_sequences_or_contents() {
        let provenance = vec![vec![(2, A)]];
        let states = vec![
            state(b"", &[A, B]),
            state(b"", &[B]),
            state(b"contents", &[B]),
        ];
        let announced = AnnouncedStates::default().begin(&provenance, states);
        assert_eq!(producers(&announced), [&[A][..], &[B]]);
    }

    #[test]
    fn a_sequence_is_announced_once_and_before_its_packets() {
        let mut announced = AnnouncedStates::default();
        announced.begin(&vec![vec![(2, A)]], Vec::new());
        let states = || vec![state(b"", &[A, B]), state(b"", &[C])];
        let mut before = |sequences: &[(u32, ProducerId)]| {
            let sequences = sequences.iter().copied();
            announced.before(1, sequences, |producer| producer != C, states)
        };
        assert!(before(&[(2, A)]).is_none());
        let new = before(&[(2, A), (3, B), (4, A)]).unwrap();
        assert_eq!(new.provenance, [vec![], vec![(3, B), (4, A)]]);
        assert_eq!(producers(&new.states), [&[A, B]]);
        assert!(before(&[(4, A)]).is_none());
        // The trace knows the state of this producer.
        let new = before(&[(5, A)]).unwrap();
        assert_eq!(new.provenance, [vec![], vec![(5, A)]]);
        assert!(new.states.is_empty());
        // Packets of this one are not folded.
        assert!(before(&[(6, C)]).is_none());
    }
}
