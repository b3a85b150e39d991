//! Converts the processor's time-stamp counter to nanoseconds on the trace clock. This takes a
//! fifth of the time that reading the system's clock takes.
//!
//! Ticks are converted by a *line*: a base, which is a reading of both clocks, and a *pace*, the
//! nanoseconds per tick. About every millisecond, a line ends. The next thread that needs the time
//! reads both clocks and begins a new line there (`counter.rs`). Its pace is the pace that the
//! trace clock had in the last tenth of a second (`pace.rs`).
//!
//! Ticks are converted when they are read, not by readers of the trace, because a trace cannot
//! express the rate between two clocks, only their difference at clock snapshots. So track events
//! need neither a clock of their own in the trace nor snapshots of it.
//!
//! # The largest error
//!
//! A timestamp differs from the trace clock by at most 10 µs, in either direction, if the counter
//! has at least 1 GHz. The tables list the parts of this bound at 1 GHz. At 3 GHz, each is a third.
//!
//! | timestamps are behind because of | at most | reason |
//! |---|---|---|
//! | the reading at a line's base | 4.1 µs | A reading takes the counter, the trace clock, and the counter again. The line begins at the second value of the counter. Readings that took more than 4096 ticks are not used. |
//! | the pace | 3.5 µs | A line lasts 4.2 ms. Its pace is 20 ppm slower than the slowest that two readings allow. The readings are a tenth of a second apart; at the first measurement only 10 ms. |
//! | a trace clock that becomes faster | 2.1 µs | The pace of the trace clock changes by at most 500 ppm from one measurement to the next: the kernel's limit for following NTP. |
//!
//! | timestamps are ahead because of | at most | reason |
//! |---|---|---|
//! | a trace clock that becomes slower | 2.1 µs | A line keeps its pace until it ends. The next line begins where this one ended, and meets the trace clock at its own end. |
//!
//! A reading that is not interrupted takes about 50 ns. Then timestamps are behind by less than 250
//! ns.
//!
//! The bound also holds on a busy machine. If a thread, or the whole virtual processor, is
//! interrupted during a reading, the counter goes on meanwhile, so the reading becomes wide and is
//! not used. If every reading is too wide, the thread uses the system's clock. A thread that wakes
//! up after an hour finds that the line has ended, and begins a new one.
//!
//! After one of these accidents, the bound does not hold for the first half second in which events
//! are recorded: the machine was suspended and its counter stood still; a virtual machine was moved
//! to a host with another counter; the trace clock changed its pace by more than 500 ppm. Until two
//! measurements agree, lines keep the old pace.
//!
//! Time does not go back on any thread, nor between two events of which one happens before the
//! other. There is one exception: if the counter's time turns out to be ahead by more than a
//! millisecond, time steps back once. Only one of the accidents above can cause that.
#![allow(unsafe_code)] // Reading the counter is an intrinsic.

mod counter; // ticks to nanoseconds
mod pace; // the nanoseconds per tick

#[cfg(test)]
mod tests; // both modules, with simulated clocks

use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use counter::Counter;
use pace::{Clocks, Pace};

use super::TscError;

/// The file in which the kernel lists the clocks that it trusts. The kernel removes a clock from
/// the list if the clock proves unsteady, or differs between processors.
const CLOCKS_OF_SYSTEM: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

static COUNTER: Counter = Counter::new();

/// Returns whether events get their time from the counter.
#[inline(always)]
pub(super) fn is_used() -> bool {
    COUNTER.is_used()
}

/// Returns the time on the trace clock, by the counter. Called only while [`is_used`] returns true.
#[inline(always)]
pub(super) fn counter_ns() -> u64 {
    COUNTER.now_ns(&Machine)
}

/// Switches events to the counter. The first call measures the counter.
pub(super) fn start_use() -> Result<(), TscError> {
    COUNTER.start_use(|| {
        check_processor()?;
        check_system(fs::read_to_string(CLOCKS_OF_SYSTEM))?;
        Pace::calibrate(&Machine).ok_or(TscError::Unsteady)
    })
}

/// Switches events to the system's clock.
pub(super) fn end_use() {
    COUNTER.end_use();
}

/// The real clocks of this machine.
struct Machine;

impl Clocks for Machine {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _rdtsc() }
    }

    fn ticks_in_order(&self) -> u64 {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _mm_lfence() };
        self.ticks()
    }

    fn trace_ns(&self) -> u64 {
        super::now_ns()
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }
}

/// Checks that the counter's pace does not depend on the processor's frequency or power state.
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

/// Checks that the kernel trusts the counter: then the counter has the same value on all
/// processors. The kernel itself may use another clock; in virtual machines it often does. `clocks`
/// is the content of [`CLOCKS_OF_SYSTEM`].
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

#[cfg(test)]
mod system_tests {
    use super::*;

    #[test]
    fn counter_that_the_kernel_does_not_trust_is_refused() {
        assert!(check_system(Ok("kvm-clock tsc acpi_pm\n".to_owned())).is_ok());
        let refused = check_system(Ok("hpet acpi_pm\n".to_owned())).unwrap_err();
        assert!(refused.to_string().contains("hpet acpi_pm"), "{refused}");
        assert!(check_system(Ok("tscx".to_owned())).is_err());
        let unknown = check_system(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(matches!(unknown, TscError::SystemClocks(_)), "{unknown}");
    }
}
