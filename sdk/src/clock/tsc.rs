//! The processor's time-stamp counter as a clock: nanoseconds on the trace clock, for a fifth of what
//! asking the system costs.
//!
//! ```text
//!  ns = ((ticks * MULTIPLIER) >> 32) + offset
//! ```
//!
//! The multiplier is measured once, against the trace clock, and made a little too small. So the
//! counter's time falls behind by some microseconds per second, and every 2^28 ticks, about a tenth
//! of a second, the thread that asks raises the offset to where the two meet again. Raising it is
//! all that happens to it: time does not go back, on no thread, and one atomic holds what changes.
//! All threads use the same offset, so what they write can be compared.
#![allow(unsafe_code)] // Reading the counter is an intrinsic.

use std::arch::x86_64::{__cpuid, _rdtsc};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::{TscError, now_ns};

/// Where the system lists the clocks that it would use itself. One that turned out to be unsteady, or
/// different on each processor, is not among them.
const CLOCKS_OF_SYSTEM: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Ticks after which the offset is looked at.
const ANCHOR_PERIOD_TICKS: u64 = 1 << 28;

/// How long the first measurement takes.
const CALIBRATION: Duration = Duration::from_millis(10);

/// By how much the multiplier is too small, in parts per million: as much as the measurement is wrong
/// if its two readings are by 100 ns each.
const SLOWNESS_PPM: u64 = 20;

/// A reading of both clocks counts if it took no more than this, about a microsecond: the thread was
/// not interrupted.
const READING_MAX_TICKS: u64 = 4096;

/// Attempts to get such a reading, at set-up and while recording.
const CALIBRATION_ATTEMPTS: usize = 50;
const ANCHOR_ATTEMPTS: usize = 3;

/// Further ahead of the trace clock time does step back: the machine was moved, or its clock set.
const AHEAD_MAX_NS: i64 = 1_000_000;

static COUNTER: Counter = Counter {
    is_used: AtomicBool::new(false),
    multiplier: AtomicU64::new(0),
    offset_ns: AtomicI64::new(0),
    anchored_at_ticks: AtomicU64::new(0),
};

/// On a cache line of its own: all threads read it, and hardly anybody writes it.
#[repr(align(64))]
struct Counter {
    is_used: AtomicBool,
    /// 2^32 times the nanoseconds of a tick; 0 until it is measured, and constant after.
    multiplier: AtomicU64,
    offset_ns: AtomicI64,
    anchored_at_ticks: AtomicU64,
}

/// Both clocks at the same time: the trace clock was read between two readings of the counter.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks_before: u64,
    trace_ns: u64,
    ticks_after: u64,
}

/// Whether events take their time from the counter.
#[inline(always)]
pub(super) fn is_used() -> bool {
    // Acquire pairs with the release in `start_use`: what was measured is seen.
    COUNTER.is_used.load(Ordering::Acquire)
}

/// The time on the trace clock, by the counter; it is used.
#[inline(always)]
pub(super) fn counter_ns() -> u64 {
    let ticks = ticks();
    // Relaxed, all of them: the multiplier does not change, and any value of the others will do.
    let anchored_at = COUNTER.anchored_at_ticks.load(Ordering::Relaxed);
    // A counter that was reset is far ahead, too.
    if ticks.wrapping_sub(anchored_at) > ANCHOR_PERIOD_TICKS {
        anchor(anchored_at, ticks);
    }
    let multiplier = COUNTER.multiplier.load(Ordering::Relaxed);
    let offset_ns = COUNTER.offset_ns.load(Ordering::Relaxed);
    scaled_ns(ticks, multiplier).wrapping_add_signed(offset_ns)
}

/// Has events take their time from the counter; measures it if that was not done yet.
pub(super) fn start_use() -> Result<(), TscError> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _guard = STARTING.lock();
    if is_used() {
        return Ok(());
    }
    // Relaxed: under the lock. The release below publishes what is stored.
    if COUNTER.multiplier.load(Ordering::Relaxed) == 0 {
        check_processor()?;
        check_system(fs::read_to_string(CLOCKS_OF_SYSTEM))?;
        COUNTER.multiplier.store(calibrate()?, Ordering::Relaxed);
    }
    let reading = Reading::uninterrupted(CALIBRATION_ATTEMPTS).ok_or(TscError::Unsteady)?;
    let multiplier = COUNTER.multiplier.load(Ordering::Relaxed);
    // By the first of the two readings: not behind what threads have just read off the trace clock.
    let offset_ns = reading.offset_ns(reading.ticks_before, multiplier);
    COUNTER.offset_ns.store(offset_ns, Ordering::Relaxed);
    COUNTER
        .anchored_at_ticks
        .store(reading.ticks_after, Ordering::Relaxed);
    COUNTER.is_used.store(true, Ordering::Release);
    Ok(())
}

/// Has events ask the system for the time.
pub(super) fn end_use() {
    // Relaxed: nothing was written that they would need.
    COUNTER.is_used.store(false, Ordering::Relaxed);
}

/// Raises the offset to where both clocks meet, on one of the threads that see that it is time.
#[cold]
#[inline(never)]
fn anchor(anchored_at: u64, now_ticks: u64) {
    // Relaxed, here and below: the offset and the multiplier mean the same to everybody at any time.
    let is_first = COUNTER.anchored_at_ticks.compare_exchange(
        anchored_at,
        now_ticks,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    // If the thread was interrupted each time, there is a next time.
    let (Ok(_), Some(reading)) = (is_first, Reading::uninterrupted(ANCHOR_ATTEMPTS)) else {
        return;
    };
    // By the second reading: not ahead of the trace clock.
    let multiplier = COUNTER.multiplier.load(Ordering::Relaxed);
    let offset_ns = reading.offset_ns(reading.ticks_after, multiplier);
    let before_ns = COUNTER.offset_ns.fetch_max(offset_ns, Ordering::Relaxed);
    if before_ns.saturating_sub(offset_ns) > AHEAD_MAX_NS {
        COUNTER.offset_ns.store(offset_ns, Ordering::Relaxed);
    }
}

impl Reading {
    fn now() -> Self {
        Self {
            ticks_before: ticks(),
            trace_ns: now_ns(),
            ticks_after: ticks(),
        }
    }

    /// The shortest of some attempts; `None` if the thread was interrupted in each.
    fn uninterrupted(attempts: usize) -> Option<Self> {
        (0..attempts)
            .map(|_| Self::now())
            .min_by_key(Self::width_ticks)
            .filter(|reading| reading.width_ticks() <= READING_MAX_TICKS)
    }

    fn width_ticks(&self) -> u64 {
        self.ticks_after.wrapping_sub(self.ticks_before)
    }

    /// What makes `ticks`, one of the two, mean the time of the trace clock.
    fn offset_ns(&self, ticks: u64, multiplier: u64) -> i64 {
        self.trace_ns
            .wrapping_sub(scaled_ns(ticks, multiplier))
            .cast_signed()
    }
}

/// Whether the counter runs at the same pace whatever the processor does.
fn check_processor() -> Result<(), TscError> {
    const EXTENDED_LEAVES: u32 = 0x8000_0000;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    let is_invariant = __cpuid(EXTENDED_LEAVES).eax >= POWER_MANAGEMENT
        && __cpuid(POWER_MANAGEMENT).edx & INVARIANT_TSC != 0;
    if is_invariant {
        Ok(())
    } else {
        Err(TscError::NotInvariant)
    }
}

/// Whether the system would use the counter as its own clock, which needs to be the same on all
/// processors. It need not be the one in use: virtual machines have others that they prefer.
fn check_system(clocks: io::Result<String>) -> Result<(), TscError> {
    let clocks = clocks.map_err(TscError::SystemClocks)?;
    if clocks.split_whitespace().any(|clock| clock == "tsc") {
        Ok(())
    } else {
        Err(TscError::NotTrusted {
            trusted: clocks.trim().to_owned(),
        })
    }
}

/// Measures the multiplier.
fn calibrate() -> Result<u64, TscError> {
    let reading = || Reading::uninterrupted(CALIBRATION_ATTEMPTS).ok_or(TscError::Unsteady);
    let first = reading()?;
    thread::sleep(CALIBRATION);
    multiplier_of(first, reading()?).ok_or(TscError::Unsteady)
}

/// `None` if one of the clocks did not go on.
fn multiplier_of(first: Reading, last: Reading) -> Option<u64> {
    let passed_ns = last.trace_ns.checked_sub(first.trace_ns)?;
    let passed_ticks = last.ticks_after.checked_sub(first.ticks_after)?;
    let exact = (u128::from(passed_ns) << 32).checked_div(passed_ticks.into())?;
    let slow = exact - exact * u128::from(SLOWNESS_PPM) / 1_000_000;
    u64::try_from(slow)
        .ok()
        .filter(|multiplier| *multiplier > 0)
}

#[inline(always)]
fn scaled_ns(ticks: u64, multiplier: u64) -> u64 {
    // The product fits; the result does, too, for as many years as the ticks.
    ((u128::from(ticks) * u128::from(multiplier)) >> 32) as u64
}

#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction.
    unsafe { _rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_multiplier_is_twenty_millionths_too_small() {
        let reading = |ticks, trace_ns| Reading {
            ticks_before: ticks,
            trace_ns,
            ticks_after: ticks,
        };
        let first = reading(5_000, 1_000);
        let multiplier = multiplier_of(first, reading(30_005_000, 10_001_000)).unwrap();
        // 3 GHz for a day, which falls behind by 1728 ms if nobody raises the offset.
        let day_ns = 24 * 3600 * 1_000_000_000_u64;
        let measured_ns = scaled_ns(3 * day_ns, multiplier);
        assert!((1_727_000_000..1_729_000_000).contains(&(day_ns - measured_ns)));

        assert_eq!(multiplier_of(first, first), None);
        assert_eq!(multiplier_of(first, reading(4_000, 2_000)), None);
        assert_eq!(multiplier_of(first, reading(6_000, 1_000)), None);
    }

    #[test]
    fn counters_scale_for_a_hundred_years() {
        let (ticks_per_ns, years_ns) = (4, 100 * 365 * 24 * 3600 * 1_000_000_000_u64);
        let multiplier = (1 << 32) / ticks_per_ns;
        assert_eq!(scaled_ns(ticks_per_ns * years_ns, multiplier), years_ns);
    }

    #[test]
    fn a_system_that_does_not_trust_the_counter_is_believed() {
        assert!(check_system(Ok("kvm-clock tsc acpi_pm\n".to_owned())).is_ok());
        let refused = check_system(Ok("hpet acpi_pm\n".to_owned())).unwrap_err();
        assert!(refused.to_string().contains("hpet acpi_pm"), "{refused}");
        assert!(check_system(Ok("tscx".to_owned())).is_err());
        let unknown = check_system(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(matches!(unknown, TscError::SystemClocks(_)), "{unknown}");
    }
}
