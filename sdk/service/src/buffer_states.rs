//! The states of what a buffer has overwritten: of a buffer in use, or those that a clone begins with.

use std::sync::Arc;

use parking_lot::Mutex;
use tracezero_core::ids::ProducerId;

use super::folded_state::{FoldedState, FoldedStates, FoldingObserver, StateStats};
use super::packet_framer::{PacketFramer, Writer};
use super::state_log::{LoggedWriter, LoggedWriters, StateLog};
use super::trace_buffer::TraceBuffer;

/// The states of a buffer.
#[derive(Debug)]
pub(super) enum BufferStates {
    /// Of a buffer in use. They are locked while it is, by the observer of its packets.
    Changing(Arc<Mutex<FoldedStates>>),
    /// Of a clone.
    Fixed(TakenStates),
}

/// The states that a clone begins with.
#[derive(Debug, Default)]
pub(super) struct TakenStates {
    pub(super) states: Vec<FoldedState>,
    /// The log beside the file of a ring that was taken. Removed when this is dropped.
    _log: Option<StateLog>,
}

impl TakenStates {
    pub(super) fn new(states: Vec<FoldedState>) -> Self {
        Self { states, _log: None }
    }
}

impl Default for BufferStates {
    fn default() -> Self {
        Self::Changing(Arc::default())
    }
}

impl BufferStates {
    /// Keeps a state of the packets of `producer` that `buffer` overwrites from now on. Returns false if
    /// it cannot; the statistics say why.
    pub(super) fn keep(
        &self,
        buffer: &mut TraceBuffer,
        producer: ProducerId,
        data_source: &str,
        program: &[u8],
        limit_kib: u32,
    ) -> bool {
        let Self::Changing(states) = self else {
            return false;
        };
        let mut folded = states.lock();
        let is_kept = folded.add(producer, data_source, program, limit_kib);
        if is_kept {
            let writers = writers_of(buffer);
            observe(states, &mut folded, buffer, writers);
        }
        is_kept
    }

    /// Lets the states go on with `successor`. The packets of `taken` are folded, because those of
    /// `successor` build on them. Returns the states before.
    pub(super) fn go_on(
        &self,
        taken: &mut TraceBuffer,
        successor: &mut TraceBuffer,
    ) -> TakenStates {
        let before = self.states();
        let Self::Changing(states) = self else {
            return TakenStates::new(before);
        };
        if before.is_empty() {
            return TakenStates::default();
        }
        let mut folded = states.lock();
        // The log stays beside the file of `taken`, whose packets are not part of it.
        let log = folded.take_log();
        folded.fold_all(taken);
        taken.ignore_overwrites();
        let mut writers = writers_of(successor);
        for writer in writers.values_mut() {
            // `taken` has counted the losses before.
            writer.lost = None;
        }
        observe(states, &mut folded, successor, writers);
        TakenStates {
            states: before,
            _log: log,
        }
    }

    /// Returns true if the buffer keeps no states.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Changing(states) => states.lock().is_empty(),
            Self::Fixed(taken) => taken.states.is_empty(),
        }
    }

    /// Returns true if packets of a producer are folded into a state.
    pub(super) fn folds(&self, producer: ProducerId) -> bool {
        match self {
            Self::Changing(states) => states.lock().folds(producer),
            Self::Fixed(taken) => {
                let mut states = taken.states.iter();
                states.any(|it| it.producers.contains(&producer))
            }
        }
    }

    /// Returns the present states.
    pub(super) fn states(&self) -> Vec<FoldedState> {
        match self {
            Self::Changing(states) => states.lock().states(),
            Self::Fixed(taken) => taken.states.clone(),
        }
    }

    /// Returns the present states, for a trace that gets packets of these writers next. Packets of them
    /// that are overwritten later are lost.
    pub(super) fn announce(&self, writers: impl Iterator<Item = Writer>) -> Vec<FoldedState> {
        match self {
            Self::Changing(states) => states.lock().announce(writers),
            Self::Fixed(taken) => taken.states.clone(),
        }
    }

    /// Folds packets that `framer` has just taken out of `buffer`, which is still locked.
    pub(super) fn fold_read(&self, buffer: &TraceBuffer, framer: &PacketFramer) {
        if let Self::Changing(states) = self {
            states.lock().fold_read(buffer, framer);
        }
    }

    /// Adds the statistics of the states. `index` is the position of the buffer in the configuration.
    pub(super) fn add_stats(&self, index: usize, stats: &mut Vec<StateStats>) {
        if let Self::Changing(states) = self {
            stats.extend(states.lock().stats(index));
        }
    }
}

/// Returns the writers of which a log of `buffer` begins with nothing folded.
fn writers_of(buffer: &TraceBuffer) -> LoggedWriters {
    let chunks = buffer.consumed_chunks();
    let writers = chunks.map(|chunk| (chunk.writer_id, LoggedWriter::behind(&chunk)));
    writers.collect()
}

/// Lets the states fold what `buffer` overwrites, and log it if the buffer is in a crash file. A new log
/// begins with `writers`.
fn observe(
    states: &Arc<Mutex<FoldedStates>>,
    folded: &mut FoldedStates,
    buffer: &mut TraceBuffer,
    writers: LoggedWriters,
) {
    if let Some(ring) = buffer.crash_file() {
        folded.log(ring, writers);
    }
    buffer.observe_overwrites(FoldingObserver(Arc::clone(states)));
}
