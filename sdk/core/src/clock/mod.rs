//! The trace clock, and the clocks that a trace is related to.

#[cfg_attr(not(target_arch = "x86_64"), path = "no_tsc.rs")]
mod tsc; // the processor's counter

use std::fmt;
use std::hint::cold_path;
use std::io;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Clock ids as traces spell them (`BuiltinClock`).
pub const BUILTIN_CLOCK_BOOTTIME: u32 = 6;

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

/// Where track events take their time from, in the whole process. Whichever it is, they are on the
/// trace clock; packets of other data sources take their time from [`now_ns`].
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The system: `CLOCK_BOOTTIME`, about 20 ns a read.
    #[default]
    Boottime,
    /// The time-stamp counter of x86-64 processors, a few nanoseconds a read. About every
    /// millisecond the thread that records compares it with the trace clock, which takes it a tenth
    /// of a microsecond.
    ///
    /// Events are less than 10 µs from the trace clock, either way, however busy the machine is; on
    /// a quiet one, a fraction of a microsecond behind. Time does not go back on any thread. Both hold
    /// for a counter of at least 1 GHz, and a trace clock whose pace changes by at most 500 ppm, the
    /// kernel's limit for following NTP. They may not hold for half a second after the machine slept,
    /// or was moved to another host.
    Tsc,
}

impl Clock {
    /// Lets track events take their time from this clock from now on, also in sessions that run.
    ///
    /// The first time, [`Clock::Tsc`] is measured for 10 ms.
    ///
    /// # Errors
    ///
    /// If the counter cannot be relied on. Events go on with the clock that they had.
    pub fn use_for_events(self) -> Result<(), TscError> {
        match self {
            Self::Boottime => {
                tsc::end_use();
                Ok(())
            }
            Self::Tsc => tsc::start_use(),
        }
    }

    /// The clock that track events take their time from.
    #[must_use]
    pub fn of_events() -> Self {
        if tsc::is_used() {
            Self::Tsc
        } else {
            Self::Boottime
        }
    }
}

/// Why the time-stamp counter cannot be relied on. [`Clock::Boottime`] always can.
#[derive(Debug)]
#[non_exhaustive]
pub enum TscError {
    /// The processor has none, or one whose pace changes with that of the processor.
    NotInvariant,
    /// The system does not count it among the clocks that it trusts.
    NotTrusted {
        /// Those that it trusts.
        trusted: String,
    },
    /// The clocks that the system trusts could not be read from `/sys`.
    SystemClocks(io::Error),
    /// It could not be measured: the thread was interrupted all the time, or the counter stood.
    /// Another attempt may succeed.
    Unsteady,
}

impl fmt::Display for TscError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInvariant => {
                f.write_str("the processor has no time-stamp counter of constant pace")
            }
            Self::NotTrusted { trusted } => write!(
                f,
                "the system does not trust the time-stamp counter, only: {trusted}"
            ),
            Self::SystemClocks(source) => write!(
                f,
                "cannot read from /sys whether the system trusts the time-stamp counter: {source}"
            ),
            Self::Unsteady => {
                f.write_str("the time-stamp counter could not be measured: try again")
            }
        }
    }
}

impl std::error::Error for TscError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::SystemClocks(source) => Some(source),
            Self::NotInvariant | Self::NotTrusted { .. } | Self::Unsteady => None,
        }
    }
}

/// The time of an event on the trace clock, read from the clock that events use.
#[inline(always)]
#[must_use]
pub fn event_now_ns() -> u64 {
    if tsc::is_used() {
        // Not rare where it is used: it keeps the other way short, which is the default.
        cold_path();
        tsc::counter_ns()
    } else {
        now_ns()
    }
}

/// The time on all clocks of a snapshot, as clock id and nanoseconds, the trace clock first.
#[must_use]
pub fn snapshot() -> [(u32, u64); SNAPSHOT_CLOCKS.len()] {
    SNAPSHOT_CLOCKS.map(|(id, clock)| (id, nanoseconds(clock_gettime(clock))))
}

/// The time of day, in nanoseconds since 1970.
#[must_use]
pub fn time_of_day_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// The processor time that this thread has used, in nanoseconds.
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
    fn time_does_not_go_back_and_a_snapshot_holds_the_trace_clock_first() {
        let before = now_ns();
        let snapshot = snapshot();
        let after = now_ns();
        assert_eq!(snapshot[0].0, BUILTIN_CLOCK_BOOTTIME);
        assert!(before <= snapshot[0].1 && snapshot[0].1 <= after);
    }
}
