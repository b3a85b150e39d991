//! The outcomes of the packets of writers, for a daemon that takes these counts.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tracezero_core::coordination::{PacketCounts, WriterTotals};
use tracezero_core::ids::{BufferId, WriterId};
use tracezero_producer::Arbiter;

/// The counts that were sent to the daemon.
#[derive(Debug, Default)]
pub(crate) struct Totals(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// `None` until the daemon has given its memory. Weak: the writers keep it alive.
    arbiter: Option<Weak<Arbiter>>,
    sent: HashMap<(Option<WriterId>, BufferId), PacketCounts>,
}

impl Totals {
    pub(crate) fn set_arbiter(&self, arbiter: &Arc<Arbiter>) {
        self.0.lock().arbiter = Some(Arc::downgrade(arbiter));
    }

    /// Returns the counts that have changed since the last call.
    pub(crate) fn take_changed(&self) -> Vec<WriterTotals> {
        let mut state = self.0.lock();
        let Some(arbiter) = state.arbiter.as_ref().and_then(Weak::upgrade) else {
            return Vec::new();
        };
        let mut totals = arbiter.writer_totals();
        totals.retain(|writer| {
            let key = (writer.writer_id, writer.target_buffer);
            state.sent.insert(key, writer.counts) != Some(writer.counts)
        });
        totals
    }
}
