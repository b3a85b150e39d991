//! What is to be done later.

use super::trigger_history::ReceivedTrigger;
use tracezero_core::ids::{FlushId, SessionId};
use tracezero_core::small_map::SmallMap;

/// Deadlines of all sessions, in nanoseconds on the trace clock.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Those with the same deadline go in the order in which they were set.
    by_deadline: SmallMap<(u64, u64), (SessionId, Timer)>,
    last_number: u64,
}

/// What a deadline is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The recording has lasted as long as it should.
    Duration,
    /// A session that a trigger was to start was not.
    StartTriggerTimeout,
    /// A trigger that stops the recording was hit long enough ago.
    StopAfterTrigger,
    /// A trigger that asks for a snapshot was hit long enough ago.
    CloneAfterTrigger(ReceivedTrigger),
    /// Data sources had their time to stop.
    StopTimeout,
    /// Data sources had their time to start.
    SlowStart,
    /// Data sources had their time to flush.
    FlushTimeout(FlushId),
    PeriodicFlush,
    /// What is in the buffers is due in the file.
    WriteIntoFile,
    ClearIncrementalState,
    SnapshotClocks,
}

impl Timers {
    pub(super) fn set(&mut self, deadline_ns: u64, session: SessionId, timer: Timer) {
        self.last_number += 1;
        self.by_deadline
            .insert((deadline_ns, self.last_number), (session, timer));
    }

    /// Takes back the timers of `session` that `matches` picks.
    pub(super) fn cancel(&mut self, session: SessionId, matches: impl Fn(&Timer) -> bool) {
        self.by_deadline
            .retain(|_, (other, timer)| *other != session || !matches(timer));
    }

    /// The next timer that is due, with its deadline.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<(SessionId, Timer)> {
        let is_due = self.next_deadline_ns()? <= now_ns;
        is_due
            .then(|| self.by_deadline.pop_first())?
            .map(|(_, due)| due)
    }

    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        Some(self.by_deadline.first()?.0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_due_in_order_and_can_be_cancelled() {
        let mut timers = Timers::default();
        let (a, b) = (SessionId(1), SessionId(2));
        timers.set(20, a, Timer::Duration);
        timers.set(10, b, Timer::PeriodicFlush);
        timers.set(10, a, Timer::WriteIntoFile);
        assert_eq!(timers.next_deadline_ns(), Some(10));
        assert_eq!(timers.pop_due(9), None);
        assert_eq!(timers.pop_due(15), Some((b, Timer::PeriodicFlush)));
        assert_eq!(timers.pop_due(15), Some((a, Timer::WriteIntoFile)));
        assert_eq!(timers.pop_due(15), None);
        timers.cancel(a, |timer| *timer == Timer::Duration);
        assert_eq!(timers.next_deadline_ns(), None);
    }
}
