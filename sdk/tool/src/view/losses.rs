//! Finds the times in which data was lost: from the last known event of a sequence before the loss
//! to the first event of the sequence after the loss, on the tracks that the sequence writes to.

use std::collections::HashMap;

use super::timeline::{Loss, Timeline, TrackIndex};

/// The maximum number of losses that a page shows, as bands. Further ones are only counted.
const LOSSES_MAX: usize = 10_000;
/// The maximum number of tracks per sequence on which a band is drawn.
const TRACKS_MAX: usize = 16;
/// The maximum number of sequences whose times are stored. The losses of further sequences are
/// drawn from the begin of the trace.
const SEQUENCES_MAX: usize = 1 << 20;

/// Notes the events and losses of each sequence of a trace.
#[derive(Debug, Default)]
pub(crate) struct LossTracker {
    sequences: HashMap<u32, SequenceState>,
    /// The losses of sequences that have had no event since the loss.
    pending: HashMap<u32, Pending>,
    finished: Vec<Loss>,
    beyond_limit: u64,
}

#[derive(Debug, Default)]
struct SequenceState {
    last_ns: u64,
    tracks: Vec<TrackIndex>,
}

#[derive(Debug)]
struct Pending {
    start_ns: u64,
    causes: Vec<&'static str>,
}

impl LossTracker {
    /// Notes an event of a sequence.
    pub(crate) fn event(&mut self, sequence_id: u32, track: TrackIndex, time_ns: u64) {
        if self.sequences.len() >= SEQUENCES_MAX && !self.sequences.contains_key(&sequence_id) {
            return;
        }
        let sequence = self.sequences.entry(sequence_id).or_default();
        sequence.last_ns = time_ns;
        if sequence.tracks.last() != Some(&track)
            && sequence.tracks.len() < TRACKS_MAX
            && !sequence.tracks.contains(&track)
        {
            sequence.tracks.push(track);
        }
        if !self.pending.is_empty()
            && let Some(pending) = self.pending.remove(&sequence_id)
        {
            self.finish(sequence_id, pending, time_ns);
        }
    }

    /// Notes a loss.
    pub(crate) fn loss(&mut self, loss: &tracezero_reader::Loss) {
        if self.pending.len() >= LOSSES_MAX && !self.pending.contains_key(&loss.sequence_id) {
            self.beyond_limit += 1;
            return;
        }
        let last_ns = self.sequences.get(&loss.sequence_id);
        let pending = self.pending.entry(loss.sequence_id).or_insert(Pending {
            start_ns: last_ns.map_or(0, |sequence| sequence.last_ns),
            causes: Vec::new(),
        });
        let known = |causes: &[&str], cause| causes.contains(&cause);
        for cause in loss.causes() {
            if !known(&pending.causes, cause) {
                pending.causes.push(cause);
            }
        }
    }

    /// Moves all losses to the timeline. `end_ns` is the last time of the trace.
    pub(crate) fn finish_all(mut self, timeline: &mut Timeline, end_ns: u64) {
        for (sequence_id, pending) in std::mem::take(&mut self.pending) {
            self.finish(sequence_id, pending, end_ns);
        }
        self.finished.sort_by_key(|loss| loss.start_ns);
        timeline.losses = self.finished;
        if self.beyond_limit > 0 {
            let more = self.beyond_limit;
            timeline
                .notes
                .push(format!("{more} more losses are not shown"));
        }
    }

    fn finish(&mut self, sequence_id: u32, pending: Pending, end_ns: u64) {
        if self.finished.len() >= LOSSES_MAX {
            self.beyond_limit += 1;
            return;
        }
        let causes = match &pending.causes[..] {
            // `PRESENT` says nothing more if there are other causes.
            ["PRESENT", causes @ ..] if !causes.is_empty() => causes.join(", "),
            causes => causes.join(", "),
        };
        let sequence = self.sequences.get(&sequence_id);
        self.finished.push(Loss {
            tracks: sequence.map_or_else(Vec::new, |sequence| sequence.tracks.clone()),
            start_ns: pending.start_ns,
            end_ns: end_ns.max(pending.start_ns),
            text: format!("packets of sequence {sequence_id} were lost: {causes}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(sequence_id: u32, bits: u32) -> tracezero_reader::Loss {
        let mut loss = tracezero_reader::Loss::default();
        loss.sequence_id = sequence_id;
        loss.bits = bits;
        loss
    }

    fn finished(tracker: LossTracker) -> Vec<(u64, u64, String)> {
        let mut timeline = Timeline::new(String::new(), 0, 0);
        tracker.finish_all(&mut timeline, 1000);
        let losses = timeline.losses.into_iter();
        losses
            .map(|loss| (loss.start_ns, loss.end_ns, loss.text))
            .collect()
    }

    #[test]
    fn loss_reaches_from_the_event_before_to_the_one_after() {
        let mut tracker = LossTracker::default();
        tracker.event(7, TrackIndex(1), 100);
        tracker.event(8, TrackIndex(2), 150);
        tracker.loss(&loss(7, 1 | 64));
        tracker.event(8, TrackIndex(2), 200);
        tracker.event(7, TrackIndex(1), 300);
        let text = "packets of sequence 7 were lost: OVERWRITE".to_owned();
        assert_eq!(finished(tracker), [(100, 300, text)]);
    }

    #[test]
    fn loss_without_a_later_event_reaches_to_the_end() {
        let mut tracker = LossTracker::default();
        tracker.event(7, TrackIndex(1), 100);
        tracker.loss(&loss(7, 1));
        let text = "packets of sequence 7 were lost: PRESENT".to_owned();
        assert_eq!(finished(tracker), [(100, 1000, text)]);
    }

    #[test]
    fn pending_losses_are_bounded() {
        let mut tracker = LossTracker::default();
        for sequence_id in 0..LOSSES_MAX as u32 + 3 {
            tracker.loss(&loss(sequence_id, 1));
        }
        tracker.loss(&loss(7, 1 | 64));
        assert_eq!(
            (tracker.pending.len(), tracker.beyond_limit),
            (LOSSES_MAX, 3)
        );
    }

    #[test]
    fn losses_beyond_the_limit_are_counted() {
        let mut tracker = LossTracker::default();
        for time_ns in 0..LOSSES_MAX as u64 + 2 {
            tracker.loss(&loss(7, 1));
            tracker.event(7, TrackIndex(1), time_ns);
        }
        let mut timeline = Timeline::new(String::new(), 0, 0);
        tracker.finish_all(&mut timeline, 1000);
        assert_eq!(timeline.losses.len(), LOSSES_MAX);
        assert_eq!(timeline.notes, ["2 more losses are not shown"]);
    }
}
