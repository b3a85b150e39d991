//! What the service needs from the machine: time, chance and a user. Tests bring their own.
//!
//! A session acts on calls and on what its `Environment` tells it, and on nothing else. So the
//! tests in `scenarios/` choose the time.

use std::hash::{BuildHasher, RandomState};

use tracezero_core::clock;

/// A reading of one clock: its id in a trace, and nanoseconds.
pub(crate) type ClockReading = (u32, u64);

/// Time, chance and a user.
pub trait Environment: Send + Sync {
    /// Time on the trace clock, which also drives all timers.
    fn now_ns(&self) -> u64;

    /// Time of day, which periods are aligned to.
    fn time_of_day_ms(&self) -> u64;

    /// All clocks that a trace relates to each other, the trace clock first.
    fn clocks(&self) -> Vec<ClockReading>;

    /// 64 bits that nobody can guess.
    fn random_bits(&self) -> u64;

    /// The user that the service runs as.
    fn uid(&self) -> u32;

    /// A number from 0 up to but excluding 1.
    fn random_fraction(&self) -> f64 {
        (self.random_bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The machine itself.
#[derive(Debug)]
pub struct Machine;

impl Environment for Machine {
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn time_of_day_ms(&self) -> u64 {
        clock::time_of_day_ns() / 1_000_000
    }

    fn clocks(&self) -> Vec<ClockReading> {
        clock::snapshot().to_vec()
    }

    fn uid(&self) -> u32 {
        rustix::process::getuid().as_raw()
    }

    fn random_bits(&self) -> u64 {
        // The keys of a hash map's hasher are random, and differ each time.
        RandomState::new().hash_one(0)
    }
}
