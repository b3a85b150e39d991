//! Triggers that were hit: as sessions receive them, and how often each was hit.

use std::collections::VecDeque;

use tracezero_core::small_map::SmallMap;

const DAY_NS: u64 = 24 * 60 * 60 * 1_000_000_000;

/// A trigger as a session received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedTrigger {
    /// The time, in nanoseconds on the trace clock.
    pub timestamp_ns: u64,
    /// The name of the trigger.
    pub name: String,
    /// The name of the producer that has activated it.
    pub producer_name: String,
    /// The user of that producer; `None` if unknown.
    pub producer_uid: Option<u32>,
    /// The time after which the session ends or is cloned, in milliseconds.
    pub stop_delay_ms: u32,
}

/// The maximum number of hits that are kept for one name and day. A `max_per_24_h` above counts as
/// this number.
pub(super) const HITS_KEPT_MAX: usize = 10_000;

/// The times at which triggers were hit in the last 24 hours, by name. Only names that a session
/// waits for are kept, so the owners of sessions limit their number.
#[derive(Debug, Default)]
pub(super) struct TriggerHistory {
    hits_ns: SmallMap<String, VecDeque<u64>>,
}

impl TriggerHistory {
    /// Returns how often a trigger was hit in the last 24 hours, at most [`HITS_KEPT_MAX`].
    pub(super) fn count(&mut self, now_ns: u64, name: &str) -> usize {
        let Some(hits_ns) = self.hits_ns.get_mut(name) else {
            return 0;
        };
        while let Some(hit_ns) = hits_ns.front()
            && is_over(*hit_ns, now_ns)
        {
            hits_ns.pop_front();
        }
        hits_ns.len()
    }

    pub(super) fn note(&mut self, now_ns: u64, name: &str) {
        if !self.hits_ns.contains_key(name) {
            // Forget names that were not hit for a day.
            self.hits_ns.retain(|_, hits_ns| {
                let newest = hits_ns.back();
                newest.is_some_and(|newest| !is_over(*newest, now_ns))
            });
        }
        let hits_ns = self.hits_ns.or_default(name.to_owned());
        if hits_ns.len() == HITS_KEPT_MAX {
            hits_ns.pop_front();
        }
        hits_ns.push_back(now_ns);
    }
}

fn is_over(hit_ns: u64, now_ns: u64) -> bool {
    hit_ns + DAY_NS <= now_ns
}

/// The rate at which a producer activates triggers.
#[derive(Debug, Default)]
pub(super) struct TriggerRate {
    /// The present second on the trace clock.
    second: u64,
    /// The number of calls in that second.
    calls: u32,
}

/// The maximum number of calls in a second of the trace clock in which one producer activates
/// triggers.
pub(super) const TRIGGER_CALLS_PER_S_MAX: u32 = 100;

impl TriggerRate {
    /// Notes a call. Returns whether it is within the limit.
    pub(super) fn admits(&mut self, now_ns: u64) -> bool {
        const SECOND_NS: u64 = 1_000_000_000;
        let second = now_ns / SECOND_NS;
        if second != self.second {
            *self = Self { second, calls: 0 };
        }
        self.calls = self.calls.saturating_add(1);
        self.calls <= TRIGGER_CALLS_PER_S_MAX
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

    #[test]
    fn newest_hits_are_kept_and_names_that_are_not_hit_are_forgotten() {
        const HITS: u64 = 3 * HITS_KEPT_MAX as u64;
        let mut history = TriggerHistory::default();
        (0..HITS).for_each(|ns| history.note(ns, "a"));
        assert_eq!(history.count(HITS, "a"), HITS_KEPT_MAX);
        let kept_since_ns = HITS - HITS_KEPT_MAX as u64;
        assert_eq!(
            history.count(kept_since_ns + DAY_NS, "a"),
            HITS_KEPT_MAX - 1
        );
        (0..1000).for_each(|day| history.note(day * DAY_NS, &day.to_string()));
        assert_eq!(history.hits_ns.len(), 1);
    }

    #[test]
    fn each_second_admits_its_calls() {
        let mut rate = TriggerRate::default();
        for now_ns in [0, 1_000_000_000, 5_999_999_999] {
            let admitted = (0..1000).filter(|_| rate.admits(now_ns)).count();
            assert_eq!(admitted, TRIGGER_CALLS_PER_S_MAX as usize);
        }
    }
}
