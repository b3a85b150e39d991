//! Triggers that were hit: as sessions receive them, and how often each was hit.

use std::collections::VecDeque;

const DAY_NS: u64 = 24 * 60 * 60 * 1_000_000_000;

/// A trigger as a session received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedTrigger {
    pub(crate) timestamp_ns: u64,
    /// The name of the trigger.
    pub name: String,
    pub(crate) producer_name: String,
    pub(crate) producer_uid: Option<u32>,
    pub(crate) stop_delay_ms: u32,
}

/// The times at which triggers were hit in the last 24 hours, with their names.
#[derive(Debug, Default)]
pub(super) struct TriggerHistory {
    hits: VecDeque<(u64, String)>,
}

impl TriggerHistory {
    pub(super) fn count(&mut self, now_ns: u64, name: &str) -> usize {
        while let Some((hit_ns, _)) = self.hits.front()
            && hit_ns + DAY_NS <= now_ns
        {
            self.hits.pop_front();
        }
        self.hits.iter().filter(|(_, other)| other == name).count()
    }

    pub(super) fn note(&mut self, now_ns: u64, name: &str) {
        self.hits.push_back((now_ns, name.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_count_for_24_hours() {
        let mut history = TriggerHistory::default();
        history.note(0, "a");
        history.note(1, "a");
        history.note(1, "b");
        assert_eq!(history.count(DAY_NS - 1, "a"), 2);
        assert_eq!(history.count(DAY_NS, "a"), 1);
        assert_eq!(history.count(DAY_NS + 1, "a"), 0);
    }
}
