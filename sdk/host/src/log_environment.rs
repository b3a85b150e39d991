//! The machine, for the service of a daemon: limits that producers reach go to the log.

use tracezero_core::attributes::TraceAttributes;
use tracezero_core::ids::SessionId;
use tracezero_core::own_attributes;
use tracezero_service::{ClockReading, Environment, LimitReached, Machine, StateStats};

use crate::log::{Log, Subject};

/// The machine, with a log.
pub(crate) struct LogEnvironment {
    log: Log,
}

impl LogEnvironment {
    pub(crate) fn new(log: Log) -> Self {
        Self { log }
    }
}

impl Environment for LogEnvironment {
    fn now_ns(&self) -> u64 {
        Machine.now_ns()
    }

    fn time_of_day_ms(&self) -> u64 {
        Machine.time_of_day_ms()
    }

    fn clocks(&self) -> Vec<ClockReading> {
        Machine.clocks()
    }

    fn random_bits(&self) -> u64 {
        Machine.random_bits()
    }

    fn uid(&self) -> u32 {
        Machine.uid()
    }

    fn trace_attributes(&self) -> TraceAttributes {
        own_attributes::of_daemon()
    }

    /// The daemon has one thread. While that waits for pages, producers fill their shared memory, and
    /// some of them drop packets.
    fn prefers_short_commits(&self) -> bool {
        true
    }

    fn limit_reached(&self, reached: &LimitReached) {
        self.log.line(Subject::Producer, format_args!("{reached}"));
    }

    fn state_incomplete(&self, session: SessionId, state: &StateStats) {
        let session = session.value();
        self.log
            .line(Subject::Session, format_args!("session {session}: {state}"));
    }
}
