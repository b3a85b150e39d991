//! The processor's time-stamp counter as a clock: nanoseconds on the trace clock, for a fifth of what
//! asking the system costs.
//!
//! About every millisecond, the thread that asks reads both clocks and begins a new line from there
//! (`counter.rs`), at the pace that the trace clock had in the last tenth of a second (`pace.rs`).
//!
//! Readers of a trace know no rates between clocks, only distances at clock snapshots. So ticks become
//! nanoseconds on the trace clock when they are read: events need no clock of their own, and no snapshots.
//!
//! # How far events are from the trace clock
//!
//! At most 10 µs, either way, for a counter of at least 1 GHz. These are the terms at 1 GHz; at 3 GHz
//! they are a third.
//!
//! | behind by | at most | why |
//! |---|---|---|
//! | the reading of a line | 4.1 µs | A line begins at the second reading of the counter. Readings of more than 4096 ticks are not used. |
//! | the pace | 3.5 µs | A line lasts 4.2 ms. Its pace is the slowest that two readings allow, and 20 ppm slower. They are a tenth of a second apart, but for the first time only 10 ms. |
//! | a trace clock that becomes faster | 2.1 µs | The pace of the trace clock changes by at most 500 ppm from one measurement to the next: the kernel's limit for following NTP. |
//!
//! | ahead by | at most | why |
//! |---|---|---|
//! | a trace clock that becomes slower | 2.1 µs | A line cannot follow until it ends. The next one begins where it ended, and meets the trace clock at its own end. |
//!
//! A reading that is not interrupted takes some 50 ns; then events are behind by less than a quarter of
//! a microsecond.
//!
//! None of this depends on how busy the machine is. An interruption shows in the width of a reading,
//! because the counter goes on while the thread, or the whole virtual processor, stands. If no reading
//! is narrow, the thread takes the system's time. A thread that wakes up after an hour finds that the
//! line has ended, and begins a new one.
//!
//! The bound does not hold for the next half a second of events after the machine slept while its
//! counter stood, after a virtual machine was moved to a host with another counter, and after the
//! trace clock changed its pace by more than 500 ppm: until two measurements agree, lines have the old
//! pace.
//!
//! Time does not go back on any thread, nor from an event to another one that follows from it. The
//! exception is a counter that turns out to be ahead by more than a millisecond, which takes one of the
//! accidents above: then time steps back once.
#![allow(unsafe_code)] // Reading the counter is an intrinsic.

mod counter; // time by the counter
mod pace; // how long a tick takes

#[cfg(test)]
mod tests; // both, with clocks in the test's hand

use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use counter::Counter;
use pace::{Clocks, Pace};

use super::TscError;

/// Where the system lists the clocks that it would use itself. One that turned out to be unsteady, or
/// different on each processor, is not among them.
const CLOCKS_OF_SYSTEM: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

static COUNTER: Counter = Counter::new();

/// True while events take their time from the counter.
#[inline(always)]
pub(super) fn is_used() -> bool {
    COUNTER.is_used()
}

/// Returns the time on the trace clock, by the counter; it is used.
#[inline(always)]
pub(super) fn counter_ns() -> u64 {
    COUNTER.now_ns(&Machine)
}

/// Lets events take their time from the counter. Measures it the first time.
pub(super) fn start_use() -> Result<(), TscError> {
    COUNTER.start_use(|| {
        check_processor()?;
        check_system(fs::read_to_string(CLOCKS_OF_SYSTEM))?;
        Pace::calibrate(&Machine).ok_or(TscError::Unsteady)
    })
}

/// Lets events ask the system for the time.
pub(super) fn end_use() {
    COUNTER.end_use();
}

/// The clocks of this machine.
struct Machine;

impl Clocks for Machine {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { _rdtsc() }
    }

    fn ticks_in_order(&self) -> u64 {
        // SAFETY: every processor of this architecture has the instruction.
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

#[cfg(test)]
mod system_tests {
    use super::*;

    #[test]
    fn system_that_does_not_trust_the_counter_is_believed() {
        assert!(check_system(Ok("kvm-clock tsc acpi_pm\n".to_owned())).is_ok());
        let refused = check_system(Ok("hpet acpi_pm\n".to_owned())).unwrap_err();
        assert!(refused.to_string().contains("hpet acpi_pm"), "{refused}");
        assert!(check_system(Ok("tscx".to_owned())).is_err());
        let unknown = check_system(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(matches!(unknown, TscError::SystemClocks(_)), "{unknown}");
    }
}
