//! Slices that end while others are open inside them, on the same track.
//!
//! Slices on a track must nest, and guards are dropped in any order: as the fields of a struct, or a
//! vector of guards. If one is dropped that is not the innermost, the slices inside end with it, and
//! go on as further pieces of the same name:
//!
//! ```text
//!  outer  [      ]             [      ]
//!  inner     [         ]  -->     [   ][   ]
//! ```

use crate::begun::Begun;
use crate::call_site::CallSite;
use crate::event::Through;
use crate::flow::Flow;
use crate::instance::EventThread;
use crate::placement::{EventTime, Placement};
use crate::track::Track;
use tracezero_core::protos::track_event::Type;

/// More slices than this go on in the reverse order. Most of so many are dropped oldest first, as a
/// vector drops them; then each is the innermost when its turn comes, and has two pieces. In their own
/// order the number of pieces would grow with the square of that of the guards.
pub(super) const IN_ORDER_MAX: usize = 8;

/// What it takes to begin another piece of a slice.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The sessions that have seen the begin of the slice.
    pub(super) begun: Begun,
    pub(super) site: &'static CallSite,
    /// When the slice began, on the trace clock.
    pub(super) begun_at_ns: u64,
    /// Empty unless the slice has another name than its call site.
    pub(super) name: String,
    /// Joins the slice with others.
    pub(super) flow: Option<Flow>,
    /// Where the slice is in its stack.
    pub(super) at: usize,
    /// Slices with a higher one are inside.
    pub(super) rank: u32,
}

/// The slices inside of one that ends.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// The outermost first.
    pub(super) inner: Vec<Piece>,
    /// They go on in the reverse order.
    pub(super) is_reversed: bool,
}

/// Whether the slices inside of one go on in the reverse order. All sessions that have seen them must see
/// it: so none of those that have seen the begin of the one may be over, as `is_recorded` tells.
pub(super) fn are_reversed(
    begun: Begun,
    time: EventTime,
    inner: &[Piece],
    is_recorded: impl FnOnce() -> bool,
) -> bool {
    let is_same = |piece: &Piece| piece.begun.slots() == begun.slots() && piece.had_begun(time);
    inner.len() > IN_ORDER_MAX && inner.iter().all(is_same) && is_recorded()
}

/// Whether all sessions still record that have seen the begin of a slice.
pub(super) fn is_recorded(begun: Begun) -> bool {
    let still = begun.still_recording();
    still.is_some_and(|still| still.slots() == begun.slots())
}

impl Piece {
    fn had_begun(&self, time: EventTime) -> bool {
        self.begun_at_ns <= time.timestamp_ns()
    }

    /// Whether a slice that ends at a time ends this one in a session.
    fn goes_on(&self, instance: &EventThread, time: EventTime) -> bool {
        self.had_begun(time) && self.begun.includes(instance)
    }

    fn begin(&self, instance: &mut EventThread, time: EventTime, track: Option<&Track>) {
        let mut placement = Placement::new();
        if let Some(track) = track {
            placement = placement.on(track);
        }
        if !self.name.is_empty() {
            placement = placement.named(&self.name);
        }
        let (writer, events) = (&mut instance.writer, &mut instance.local);
        let begin = Type::SLICE_BEGIN;
        match &self.flow {
            Some(flow) => {
                let parts = ((), Through(flow));
                events.event(writer, time, self.site.names(), begin, &placement, &parts);
            }
            None => events.event(writer, time, self.site.names(), begin, &placement, &()),
        }
    }
}

impl Pieces {
    /// Ends the slices inside of one that ends in a session, and begins further pieces of them behind
    /// it. The track is that of the thread for `None`.
    pub(super) fn interrupt(
        &self,
        instance: &mut EventThread,
        time: EventTime,
        track: Option<&Track>,
        end: impl FnOnce(&mut EventThread),
    ) {
        let ends = self.inner.iter().filter(|it| it.goes_on(instance, time));
        for _ in 0..ends.count() {
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            events.end_slice(writer, time, track);
        }
        end(instance);
        let len = self.inner.len();
        for number in 0..len {
            let at = if self.is_reversed {
                len - 1 - number
            } else {
                number
            };
            if let Some(piece) = self.inner.get(at)
                && piece.goes_on(instance, time)
            {
                piece.begin(instance, time, track);
            }
        }
    }
}
