//! Tells a trace the states of overwritten packets, each before the first packet that builds on it.
//!
//! A reader must know whose a sequence is, and the state behind its overwritten packets, before it reads
//! the sequence. The trace begins with both, for all sequences of that time. A trace that is streamed
//! into a file gets sequences later: their states come right before their first packets.

use std::collections::HashSet;

use tracezero_core::ids::ProducerId;

use super::folded_state::FoldedState;

/// The sequences in each buffer, with their producers.
pub(super) type Provenance = Vec<Vec<(u32, ProducerId)>>;

/// The sequences that a trace knows.
#[derive(Debug, Default)]
pub(super) struct ToldStates {
    sequences: HashSet<u32>,
}

/// What a trace is told of new sequences.
#[derive(Debug)]
pub(super) struct News {
    pub(super) provenance: Provenance,
    pub(super) states: Vec<FoldedState>,
}

/// Encodes news as packets of the service.
pub(super) type TellStates = Box<dyn Fn(&News) -> Vec<u8> + Send>;

impl ToldStates {
    /// Returns the states with which the trace begins. `provenance` is written before them.
    pub(super) fn begin(
        &mut self,
        provenance: &Provenance,
        mut states: Vec<FoldedState>,
    ) -> Vec<FoldedState> {
        let sequences = || provenance.iter().flatten();
        for state in &mut states {
            let is_known = |producer: &ProducerId| sequences().any(|(_, other)| other == producer);
            if state.state.is_empty() || state.producers.iter().any(is_known) {
                state.producers.retain(is_known);
            }
        }
        // A state without a sequence would be an error for trace processor.
        states.retain(|state| !state.producers.is_empty());
        self.sequences.extend(sequences().map(|(id, _)| *id));
        states
    }

    /// Returns what the trace must be told before it gets packets of these sequences of the buffer at
    /// `index`; `None` if it knows all.
    pub(super) fn before(
        &mut self,
        index: usize,
        sequences: impl Iterator<Item = (u32, ProducerId)>,
        states: impl FnOnce() -> Vec<FoldedState>,
    ) -> Option<News> {
        let new: Vec<_> = sequences
            .filter(|(id, _)| self.sequences.insert(*id))
            .collect();
        if new.is_empty() {
            return None;
        }
        let mut states = states();
        for state in &mut states {
            state
                .producers
                .retain(|producer| new.iter().any(|(_, other)| other == producer));
        }
        states.retain(|state| !state.producers.is_empty());
        let mut provenance = vec![Vec::new(); index];
        provenance.push(new);
        (!states.is_empty()).then_some(News { provenance, states })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProducerId = ProducerId::new(1);
    const B: ProducerId = ProducerId::new(2);

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
        let told = ToldStates::default().begin(&provenance, states);
        assert_eq!(producers(&told), [&[A][..], &[B]]);
    }

    #[test]
    fn states_of_a_sequence_are_told_once_and_before_it() {
        let mut told = ToldStates::default();
        assert!(told.begin(&vec![vec![(2, A)]], Vec::new()).is_empty());
        let states = || vec![state(b"", &[A, B])];
        let known = told.before(1, [(2, A)].into_iter(), || panic!("nothing is new"));
        assert!(known.is_none());
        let news = told.before(1, [(2, A), (3, B), (4, A)].into_iter(), states);
        let news = news.unwrap();
        assert_eq!(news.provenance, [vec![], vec![(3, B), (4, A)]]);
        assert_eq!(producers(&news.states), [&[A, B]]);
        assert!(told.before(1, [(4, A)].into_iter(), states).is_none());
        // A sequence of a producer without a state.
        let other = told.before(0, [(5, ProducerId::new(3))].into_iter(), states);
        assert!(other.is_none());
    }
}
