//! The trace clock, and snapshots of it beside the system's other clocks.

#[cfg_attr(not(target_arch = "x86_64"), path = "no_tsc.rs")]
mod tsc; // the processor's time-stamp counter

use std::fmt;
use std::hint::cold_path;
use std::io;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The id of `CLOCK_BOOTTIME` in a trace (Perfetto's enum `BuiltinClock`).
pub const BUILTIN_CLOCK_BOOTTIME: u32 = 6;

/// The clocks of a snapshot, with their ids in a trace. The trace clock is first.
const SNAPSHOT_CLOCKS: [(u32, ClockId); 6] = [
    (BUILTIN_CLOCK_BOOTTIME, ClockId::Boottime),
    (1, ClockId::Realtime),
    (2, ClockId::RealtimeCoarse),
    (3, ClockId::Monotonic),
    (4, ClockId::MonotonicCoarse),
    (5, ClockId::MonotonicRaw),
];

/// Returns the time on the trace clock: nanoseconds since boot, counting time in suspend.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Boottime))
}

/// The source of the timestamps of track events, for the whole process. With either source, the
/// timestamps are times on the trace clock. Packets of other data sources always get their time
/// from [`now_ns`].
///
/// ```
/// use tracezero::Clock;
///
/// match Clock::Tsc.use_for_events() {
///     Ok(()) => println!("events cost less"),
///     Err(reason) => println!("events ask the system for the time: {reason}"),
/// }
/// # Clock::Boottime.use_for_events()?;
/// # Ok::<(), tracezero::TscError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clock {
    /// The system's `CLOCK_BOOTTIME`. A read takes about 20 ns.
    #[default]
    Boottime,
    /// The time-stamp counter of x86-64 processors. A read takes a few nanoseconds. About once per
    /// millisecond, the thread that records an event compares the counter with the trace clock,
    /// which takes about 100 ns.
    ///
    /// Timestamps differ from the trace clock by less than 10 µs, even on a busy machine; on a
    /// quiet machine, they are a fraction of a microsecond behind. Time does not go back on any
    /// thread. These promises hold if the counter runs at 1 GHz or more, and the pace of the trace
    /// clock changes by at most 500 ppm (the kernel's limit for following NTP). They may be broken
    /// for half a second after the machine was suspended, or after the virtual machine was moved to
    /// another host.
    Tsc,
}

impl Clock {
    /// Uses this clock for the timestamps of track events from now on, also in running sessions.
    ///
    /// The first call for [`Clock::Tsc`] takes 10 ms, to measure the counter.
    ///
    /// # Errors
    ///
    /// If the counter is not reliable. Track events then keep the clock that they had.
    pub fn use_for_events(self) -> Result<(), TscError> {
        match self {
            Self::Boottime => {
                tsc::end_use();
                Ok(())
            }
            Self::Tsc => tsc::start_use(),
        }
    }

    /// Returns the clock that track events get their timestamps from.
    #[must_use]
    pub fn of_events() -> Self {
        if tsc::is_used() {
            Self::Tsc
        } else {
            Self::Boottime
        }
    }
}

/// The reason why [`Clock::Tsc`] cannot be used. [`Clock::Boottime`] can always be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum TscError {
    /// The processor has no time-stamp counter, or its pace changes with the processor's frequency.
    NotInvariant,
    /// The kernel does not list the counter among the clocks that it trusts.
    NotTrusted {
        /// The clocks that the kernel trusts.
        trusted: String,
    },
    /// The list of clocks that the kernel trusts could not be read from `/sys`.
    SystemClocks(io::Error),
    /// The counter could not be measured, because the thread was interrupted each time, or because
    /// the counter did not advance. Another attempt may succeed.
    Unsteady,
}

impl fmt::Display for TscError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInvariant => {
                f.write_str("the processor has no time-stamp counter with a constant rate")
            }
            Self::NotTrusted { trusted } => write!(
                f,
                "the kernel does not trust the time-stamp counter, but only: {trusted}"
            ),
            Self::SystemClocks(source) => write!(
                f,
                "cannot read from /sys whether the kernel trusts the time-stamp counter: {source}"
            ),
            Self::Unsteady => f.write_str("cannot measure the time-stamp counter; try again"),
        }
    }
}

impl std::error::Error for TscError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` prints the text of the source.
            Self::SystemClocks(source) => source.source(),
            Self::NotInvariant | Self::NotTrusted { .. } | Self::Unsteady => None,
        }
    }
}

/// Returns the time for a track event: a time on the trace clock, read from the chosen [`Clock`].
#[inline(always)]
#[must_use]
pub fn event_now_ns() -> u64 {
    if tsc::is_used() {
        // If the counter is used, this path is not rare. It is marked cold nevertheless, to keep
        // the default path short.
        cold_path();
        tsc::counter_ns()
    } else {
        now_ns()
    }
}

/// Reads all clocks of a snapshot. Returns pairs of clock id and nanoseconds, the trace clock
/// first.
#[must_use]
pub fn snapshot() -> [(u32, u64); SNAPSHOT_CLOCKS.len()] {
    SNAPSHOT_CLOCKS.map(|(id, clock)| (id, nanoseconds(clock_gettime(clock))))
}

/// Returns the time of day, in nanoseconds since 1970.
#[must_use]
pub fn time_of_day_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// Returns the processor time that this thread has used, in nanoseconds.
#[must_use]
pub fn thread_time_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_has_the_trace_clock_first() {
        let before = now_ns();
        let snapshot = snapshot();
        let after = now_ns();
        assert_eq!(snapshot[0].0, BUILTIN_CLOCK_BOOTTIME);
        assert!(before <= snapshot[0].1 && snapshot[0].1 <= after);
    }
}
