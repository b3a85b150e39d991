//! Timers of sessions.

use super::trigger_history::ReceivedTrigger;
use tracezero_core::ids::{FlushId, SessionId};
use tracezero_core::small_map::SmallMap;

/// Deadlines of all sessions, in nanoseconds on the trace clock.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// The timers by deadline. The second part of the key keeps timers with the same deadline in
    /// the order in which they were set.
    by_deadline: SmallMap<(u64, u64), (SessionId, Timer)>,
    last_number: u64,
}

/// The action that a timer triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The session has recorded as long as its configuration says.
    Duration,
    /// No trigger has started the session in time.
    StartTriggerTimeout,
    /// The delay after a trigger that stops the recording is over.
    StopAfterTrigger,
    /// The delay after a trigger that asks for a clone is over.
    CloneAfterTrigger(ReceivedTrigger),
    /// Data sources have not stopped in time.
    StopTimeout,
    /// The time that data sources have to start is over.
    SlowStart,
    /// Data sources have not flushed in time.
    FlushTimeout(FlushId),
    PeriodicFlush,
    /// The buffers are to be written into the file.
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

    /// Cancels those timers of `session` for which `matches` returns true.
    pub(super) fn cancel(&mut self, session: SessionId, matches: impl Fn(&Timer) -> bool) {
        self.by_deadline
            .retain(|_, (other, timer)| *other != session || !matches(timer));
    }

    /// Removes and returns the next timer, if it is due.
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
        let (a, b) = (SessionId::new(1), SessionId::new(2));
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
