//! What a thread keeps for an instance of a data source, besides its writer.

use std::sync::Arc;

use super::DataSource;
use crate::{StateStart, TraceWriter};
use tracezero_core::commit::RingProgress;

/// The states of one thread in one session.
pub(crate) struct LocalState<D: DataSource> {
    pub(super) instance: Arc<D>,
    /// `None` until it is asked for.
    pub(super) thread: Option<D::ThreadState>,
    pub(super) incremental: Incremental<D::IncrementalState>,
}

impl<D: DataSource> LocalState<D> {
    /// The packets go to the buffer of `progress`.
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

/// State that the packets of one sequence build on, made anew when earlier packets may be gone.
pub(super) struct Incremental<S> {
    /// How far the buffer has come that the packets go to.
    progress: Arc<RingProgress>,
    /// When `state` was made.
    made_at: Option<StateStart>,
    state: Option<S>,
    /// Whether a packet has said that it starts with this state.
    is_announced: bool,
}

impl<S: Default> Incremental<S> {
    /// The state that the next packet of `writer` may build on.
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

    /// Like [`Incremental::current`], for a packet. Returns also whether it is the first one.
    #[inline]
    pub(super) fn for_packet(&mut self, writer: &TraceWriter) -> (&mut S, bool) {
        self.current(writer);
        let is_first = !std::mem::replace(&mut self.is_announced, true);
        (self.state.get_or_insert_default(), is_first)
    }
}
