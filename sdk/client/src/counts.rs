//! Counts what became of the packets of all connections of a client.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracezero_core::coordination::PacketCounts;
use tracezero_producer::Arbiter;

/// Counts of the packets that a process has recorded for a daemon, over all connections. Each event
/// is a packet, and each session of the daemon has packets of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStats {
    /// The counts of the packets. A packet is dropped if the shared memory has no room for it. After
    /// each of the `drop_episodes`, the next packet of the thread is marked in the trace.
    pub packets: PacketCounts,
    /// The total time for which threads have waited for room in the shared memory.
    pub waited: Duration,
}

impl ClientStats {
    fn add(&mut self, arbiter: &Arbiter) {
        for writer in arbiter.writer_totals() {
            self.packets += writer.counts;
        }
        self.waited += arbiter.waited();
    }
}

/// The counts of ended connections, and the arbiter that counts for the present one.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ended: ClientStats,
    arbiter: Option<Arc<Arbiter>>,
}

impl Counts {
    /// Counts the packets of a connection that has got its memory.
    pub(crate) fn begin_connection(&self, arbiter: &Arc<Arbiter>) {
        self.0.lock().arbiter = Some(Arc::clone(arbiter));
    }

    /// Keeps the counts of the connection, which has ended, and lets its memory go. What writers
    /// count from now on was recorded for nobody.
    pub(crate) fn end_connection(&self) {
        let state = &mut *self.0.lock();
        if let Some(arbiter) = state.arbiter.take() {
            state.ended.add(&arbiter);
        }
    }

    pub(crate) fn sum(&self) -> ClientStats {
        let state = self.0.lock();
        let mut sum = state.ended;
        if let Some(arbiter) = &state.arbiter {
            sum.add(arbiter);
        }
        sum
    }
}
