//! The moments at which something is read periodically.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Moments that are whole multiples of a period on the clock of the day. So the ticks of all
/// machines and of all sessions coincide, if their periods are multiples of each other. The first
/// tick is at once.
#[derive(Debug)]
pub(crate) struct Ticks {
    period_ns: u64,
    /// The next tick, in nanoseconds since 1970; `None` before the first one.
    next_ns: Option<u64>,
}

impl Ticks {
    /// Creates the ticks of a period.
    pub(crate) const fn every(period_ms: NonZeroU32) -> Self {
        Self {
            // Fits: the product is less than 2^52.
            period_ns: period_ms.get() as u64 * 1_000_000,
            next_ns: None,
        }
    }

    /// Returns true if a tick is due, and goes on to the next one. Ticks that were missed are
    /// skipped.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        let is_due = self.until_next(now_ns).is_zero();
        if is_due {
            let since_last = now_ns % self.period_ns;
            self.next_ns = Some(now_ns.saturating_add(self.period_ns - since_last));
        }
        is_due
    }

    /// Returns the time until the next tick; zero if it is due.
    pub(crate) fn until_next(&self, now_ns: u64) -> Duration {
        let Some(next_ns) = self.next_ns else {
            return Duration::ZERO;
        };
        let left_ns = next_ns.saturating_sub(now_ns);
        // If the clock was set back, the next tick is further away than a period.
        if left_ns > self.period_ns {
            return Duration::ZERO;
        }
        Duration::from_nanos(left_ns)
    }
}

/// Returns the time of the day in nanoseconds since 1970, for [`Ticks`].
pub(crate) fn time_of_day_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Returns the length of a tick in which the kernel counts time in `/proc`, in nanoseconds.
pub(crate) fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ticks(period_ms: u32) -> Ticks {
        Ticks::every(NonZeroU32::new(period_ms).unwrap())
    }

    #[test]
    fn first_tick_is_at_once_and_others_at_multiples() {
        let mut ticks = ticks(100);
        assert!(ticks.take(1_030 * MS));
        assert_eq!(ticks.until_next(1_030 * MS), Duration::from_millis(70));
        assert!(!ticks.take(1_099 * MS));
        assert!(ticks.take(1_100 * MS));
        assert_eq!(ticks.until_next(1_100 * MS), Duration::from_millis(100));
    }

    #[test]
    fn missed_ticks_are_skipped() {
        let mut ticks = ticks(10);
        assert!(ticks.take(10 * MS));
        assert!(ticks.take(55 * MS));
        assert_eq!(ticks.until_next(55 * MS), Duration::from_millis(5));
    }

    #[test]
    fn clock_that_is_set_back_makes_a_tick() {
        let mut ticks = ticks(10);
        assert!(ticks.take(1_000 * MS));
        assert!(ticks.take(42 * MS));
        assert_eq!(ticks.until_next(42 * MS), Duration::from_millis(8));
    }

    #[test]
    fn longest_period_does_not_overflow() {
        let mut ticks = ticks(u32::MAX);
        assert!(ticks.take(u64::MAX));
        assert!(!ticks.take(u64::MAX - 1));
        let mut ticks = self::ticks(u32::MAX);
        assert!(ticks.take(0));
        assert_eq!(ticks.until_next(0), Duration::from_millis(u32::MAX.into()));
    }
}
