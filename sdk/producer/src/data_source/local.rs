//! A thread's own state for an instance of a data source.

use std::sync::Arc;

use super::DataSource;
use crate::{StateStart, TraceWriter};
use tracezero_core::commit::RingProgress;

/// The states of one thread in one session.
pub(crate) struct LocalState<D: DataSource> {
    pub(super) instance: Arc<D>,
    /// `None` until it is first used.
    pub(super) thread: Option<D::ThreadState>,
    pub(super) incremental: Incremental<D::IncrementalState>,
}

impl<D: DataSource> LocalState<D> {
    /// Creates the states. The packets go to the buffer of `progress`.
    pub(crate) fn new(instance: Arc<D>, progress: Arc<RingProgress>) -> Self {
        Self {
            instance,
            thread: None,
            incremental: Incremental {
                progress,
                made_at: None,
                state: None,
                is_announced: false,
            },
        }
    }
}

/// A state that packets of one sequence build on. It starts again when earlier packets may be
/// missing.
pub(super) struct Incremental<S> {
    /// The progress of the buffer that the packets go to.
    progress: Arc<RingProgress>,
    /// The moment when `state` was created.
    made_at: Option<StateStart>,
    state: Option<S>,
    /// True if a packet has announced the start of this state.
    is_announced: bool,
}

impl<S: Default> Incremental<S> {
    /// Returns the state that the next packet of `writer` may build on.
    #[inline]
    pub(super) fn current(&mut self, writer: &TraceWriter) -> &mut S {
        let made_at = self.made_at.as_ref();
        if !made_at.is_some_and(|start| start.holds(writer, &self.progress)) {
            self.made_at = Some(StateStart::now(writer, &self.progress));
            self.state = None;
            self.is_announced = false;
        }
        self.state.get_or_insert_default()
    }

    /// Like [`Incremental::current`], for a packet. Also returns true if it is the first packet of
    /// this state.
    #[inline]
    pub(super) fn for_packet(&mut self, writer: &TraceWriter) -> (&mut S, bool) {
        self.current(writer);
        let is_first = !std::mem::replace(&mut self.is_announced, true);
        (self.state.get_or_insert_default(), is_first)
    }
}
