//! The service's access to the machine: clocks, random numbers and its user. Tests supply their
//! own.
//!
//! A session acts only on calls and on what its [`Environment`] tells it. So the tests in
//! `scenarios/` can choose the time.

use std::hash::{BuildHasher, RandomState};

use super::folded_state::StateStats;
use super::limit_log::LimitReached;
use tracezero_core::attributes::TraceAttributes;
use tracezero_core::clock;
use tracezero_core::ids::SessionId;

/// A reading of one clock: the id of the clock in a trace, and nanoseconds.
pub type ClockReading = (u32, u64);

/// Clocks, random numbers, the user and the log of the service.
pub trait Environment: Send + Sync {
    /// Returns the time on the trace clock, which also drives all timers.
    fn now_ns(&self) -> u64;

    /// Returns the time of day, to which periods are aligned.
    fn time_of_day_ms(&self) -> u64;

    /// Returns the time of all clocks that a trace relates to each other, the trace clock first.
    fn clocks(&self) -> Vec<ClockReading>;

    /// Returns 64 bits that cannot be guessed.
    fn random_bits(&self) -> u64;

    /// Returns the user that the service runs as.
    fn uid(&self) -> u32;

    /// Returns the attributes of the traces of a session that starts now: which machine and service they
    /// come from. None by default: the traces of tests should not depend on the machine.
    fn trace_attributes(&self) -> TraceAttributes {
        TraceAttributes::new()
    }

    /// Notes in a log that a producer has reached a limit. The service holds no lock during the call.
    /// It calls this once a minute for each limit of a producer, and when the producer disconnects.
    fn limit_reached(&self, reached: &LimitReached) {
        let _ = reached;
    }

    /// Notes in a log that a state lacks packets that a ring has overwritten. The service calls this when
    /// the session ends, and holds no lock during the call.
    fn state_incomplete(&self, session: SessionId, state: &StateStats) {
        let _ = (session, state);
    }

    /// Returns true if the longest commit matters more than the average. Trace buffers then take
    /// small pages from the system.
    fn prefers_short_commits(&self) -> bool {
        false
    }

    /// Returns a random UUID, version 4, as its two halves.
    fn random_uuid(&self) -> (i64, i64) {
        let msb = self.random_bits() & !0xf000 | 0x4000;
        let lsb = self.random_bits() & !(0xc << 60) | 0x8 << 60;
        (msb as i64, lsb as i64)
    }

    /// Returns a number from 0 up to but excluding 1.
    fn random_fraction(&self) -> f64 {
        (self.random_bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The environment of the real machine.
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
        // Each hasher of a hash map gets different random keys.
        RandomState::new().hash_one(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_of_version_4_and_differ() {
        let (msb, lsb) = Machine.random_uuid();
        assert_eq!(msb as u64 >> 12 & 0xf, 4);
        assert_eq!(lsb as u64 >> 62, 0b10);
        assert_ne!((msb, lsb), Machine.random_uuid());
    }
}
