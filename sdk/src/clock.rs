//! The trace clock, and the clocks that a trace is related to.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Clock ids as traces spell them (`BuiltinClock`).
pub(crate) const BUILTIN_CLOCK_BOOTTIME: u32 = 6;

/// The clocks of a snapshot with their ids in a trace, the trace clock first.
const SNAPSHOT_CLOCKS: [(u32, ClockId); 6] = [
    (BUILTIN_CLOCK_BOOTTIME, ClockId::Boottime),
    (1, ClockId::Realtime),
    (2, ClockId::RealtimeCoarse),
    (3, ClockId::Monotonic),
    (4, ClockId::MonotonicCoarse),
    (5, ClockId::MonotonicRaw),
];

/// The time on the trace clock: nanoseconds since the system started, time asleep included.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Boottime))
}

/// The time on all clocks of a snapshot, as clock id and nanoseconds, the trace clock first.
pub(crate) fn snapshot() -> [(u32, u64); SNAPSHOT_CLOCKS.len()] {
    SNAPSHOT_CLOCKS.map(|(id, clock)| (id, nanoseconds(clock_gettime(clock))))
}

/// The time of day, in nanoseconds since 1970.
pub(crate) fn time_of_day_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

pub(crate) fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back_and_a_snapshot_holds_the_trace_clock_first() {
        let before = now_ns();
        let snapshot = snapshot();
        let after = now_ns();
        assert_eq!(snapshot[0].0, BUILTIN_CLOCK_BOOTTIME);
        assert!(before <= snapshot[0].1 && snapshot[0].1 <= after);
    }
}
