//! The pace: the nanoseconds on the trace clock per tick of the counter, measured by readings of
//! both clocks.
//!
//! A pace is never too fast, because it is the slowest that two readings allow. The longer the
//! readings take, the slower the pace. So an interruption cannot make the pace faster.

use std::time::Duration;

/// The two clocks, real ones or those of a test.
pub(super) trait Clocks {
    /// Reads the counter. The processor may reorder the read with neighbouring instructions.
    fn ticks(&self) -> u64;

    /// Reads the counter after all instructions before this call are done.
    fn ticks_in_order(&self) -> u64;

    /// Reads the trace clock.
    fn trace_ns(&self) -> u64;

    /// Waits.
    fn sleep(&self, duration: Duration);
}

/// The largest width of a usable reading, 1.4 µs at 3 GHz. A wider reading was interrupted.
pub(super) const READING_MAX_TICKS: u64 = 4096;

/// The duration of the first measurement.
const CALIBRATION: Duration = Duration::from_millis(10);

/// The number of attempts to get a reading for the first measurement.
const CALIBRATION_ATTEMPTS: usize = 50;

/// The number of ticks after which the pace is measured again, about a tenth of a second.
pub(super) const MEASUREMENT_TICKS: u64 = 1 << 28;

/// The difference, in parts per million, by which a pace is made slower than measured. So a line
/// stays behind the trace clock even if the trace clock becomes a little slower.
pub(super) const SLOWNESS_PPM: u64 = 20;

/// The largest difference between two measurements, in parts per million. To follow NTP, the kernel
/// changes the pace of its clock by no more than this. If two measurements differ by more, the
/// machine was suspended or moved. Then the pace stays the same until two measurements agree.
pub(super) const CHANGE_MAX_PPM: u64 = 500;

/// The limit of multipliers. Below it, the product with the ticks of a line fits into 64 bits.
const MULTIPLIER_LIMIT: u64 = 1 << 41;

/// A value of the trace clock, with the values of the counter directly before and after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) ticks_before: u64,
    pub(super) trace_ns: u64,
    pub(super) ticks_after: u64,
}

impl Reading {
    /// Reads the clocks once.
    fn now(clocks: &impl Clocks) -> Self {
        Self {
            ticks_before: clocks.ticks_in_order(),
            trace_ns: clocks.trace_ns(),
            ticks_after: clocks.ticks_in_order(),
        }
    }

    /// Makes `attempts` readings and returns the narrowest, or `None` if each was interrupted.
    pub(super) fn narrowest(clocks: &impl Clocks, attempts: usize) -> Option<Self> {
        (0..attempts)
            .map(|_| Self::now(clocks))
            .min_by_key(Self::width_ticks)
            .filter(|reading| reading.width_ticks() <= READING_MAX_TICKS)
    }

    /// Returns the ticks between the two values of the counter.
    fn width_ticks(&self) -> u64 {
        self.ticks_after.wrapping_sub(self.ticks_before)
    }
}

/// The pace, which is measured again from time to time.
#[derive(Debug)]
pub(super) struct Pace {
    multiplier: u64,
    /// The last measured multiplier. If it differed too much from the one measured before,
    /// `multiplier` has another value.
    measured: u64,
    /// The reading at which the next measurement begins.
    since: Reading,
}

impl Pace {
    /// Measures the pace for the first time. Returns `None` if the thread was interrupted in each
    /// reading, or if one of the clocks did not advance.
    pub(super) fn calibrate(clocks: &impl Clocks) -> Option<Self> {
        let first = Reading::narrowest(clocks, CALIBRATION_ATTEMPTS)?;
        clocks.sleep(CALIBRATION);
        let last = Reading::narrowest(clocks, CALIBRATION_ATTEMPTS)?;
        let multiplier = multiplier_between(first, last)?;
        Some(Self {
            multiplier,
            measured: multiplier,
            since: last,
        })
    }

    /// Returns 2^32 times the nanoseconds per tick.
    pub(super) const fn multiplier(&self) -> u64 {
        self.multiplier
    }

    /// Measures the pace again if the last measurement was at least [`MEASUREMENT_TICKS`] ago.
    pub(super) fn follow(&mut self, reading: Reading) {
        // If the counter was reset, the difference wraps to a large number. There is no measurement
        // then, but the next one begins at this reading.
        let passed_ticks = reading.ticks_after.wrapping_sub(self.since.ticks_after);
        if passed_ticks < MEASUREMENT_TICKS {
            return;
        }
        let measured = multiplier_between(self.since, reading);
        self.since = reading;
        let Some(measured) = measured else { return };
        let change = measured.abs_diff(self.measured);
        if u128::from(change) * 1_000_000 <= u128::from(self.measured) * u128::from(CHANGE_MAX_PPM)
        {
            self.multiplier = measured;
        }
        self.measured = measured;
    }
}

/// Returns the slowest multiplier that the readings allow, reduced by [`SLOWNESS_PPM`]. Returns
/// `None` if one of the clocks did not advance, or if the counter is too slow to be used.
fn multiplier_between(first: Reading, last: Reading) -> Option<u64> {
    let passed_ns = last.trace_ns.checked_sub(first.trace_ns)?;
    // The two values of the trace clock are at most this many ticks apart.
    let passed_ticks = last.ticks_after.checked_sub(first.ticks_before)?;
    let slowest = (u128::from(passed_ns) << 32).checked_div(passed_ticks.into())?;
    let slow = slowest - slowest * u128::from(SLOWNESS_PPM) / 1_000_000;
    u64::try_from(slow)
        .ok()
        .filter(|multiplier| (1..MULTIPLIER_LIMIT).contains(multiplier))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn reading(ticks_before: u64, trace_ns: u64, width_ticks: u64) -> Reading {
        Reading {
            ticks_before,
            trace_ns,
            ticks_after: ticks_before + width_ticks,
        }
    }

    /// Returns the nanoseconds of `ticks` at this multiplier.
    fn scaled_ns(ticks: u64, multiplier: u64) -> u64 {
        ((u128::from(ticks) * u128::from(multiplier)) >> 32) as u64
    }

    #[test]
    fn multiplier_is_20_ppm_too_small() {
        let first = reading(5_000, 1_000, 0);
        let multiplier = multiplier_between(first, reading(30_005_000, 10_001_000, 0)).unwrap();
        // 3 GHz for a day, which falls behind by 1728 ms.
        let day_ns = 24 * 3600 * 1_000_000_000_u64;
        let measured_ns = scaled_ns(3 * day_ns, multiplier);
        assert!((1_727_000_000..1_729_000_000).contains(&(day_ns - measured_ns)));
    }

    #[test]
    fn wide_readings_make_the_pace_slower_never_faster() {
        // 3 GHz for 10 ms. The trace clock was read at the end of the first reading and at the
        // beginning of the last, or the other way round.
        let exact = |width| {
            let late = reading(5_000 - width, 1_000, width);
            let early = reading(30_005_000, 10_001_000, width);
            multiplier_between(late, early).unwrap()
        };
        let pace = scaled_ns(30_000_000, exact(0));
        assert_eq!(pace, 9_999_799, "slower by 20 millionths, rounded");
        assert!(scaled_ns(30_000_000, exact(3_000)) <= pace - 1_000);

        let early = reading(5_000, 1_000, 3_000);
        let late = reading(30_002_000, 10_001_000, 3_000);
        let multiplier = multiplier_between(early, late).unwrap();
        assert_eq!(scaled_ns(30_000_000, multiplier), pace);
    }

    #[test]
    fn clock_that_stands_or_goes_back_has_no_pace() {
        let first = reading(5_000, 1_000, 10);
        assert_eq!(multiplier_between(first, reading(5_000, 1_000, 0)), None);
        assert_eq!(multiplier_between(first, reading(4_000, 2_000, 10)), None);
        assert_eq!(multiplier_between(first, reading(6_000, 900, 10)), None);
        assert_eq!(multiplier_between(first, reading(6_000, 1_000, 10)), None);
        // A counter of 1 kHz is too slow to be used.
        let slow = reading(5_010, 10_001_000, 0);
        assert_eq!(multiplier_between(first, slow), None);
    }
}
