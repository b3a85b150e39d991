//! Slices that are cut because an outer slice on the same track ends first.
//!
//! Slices on a track must nest, but guards may be dropped in any order, for example as the fields
//! of a struct or the elements of a vector. If the ending slice is not the innermost, the slices
//! inside of it end at the same time and go on as further pieces with the same names:
//!
//! ```text
//!  outer  [      ]             [      ]
//!  inner     [         ]  -->     [   ][   ]
//! ```

use crate::begin_sessions::BeginSessions;
use crate::call_site::CallSite;
use crate::event::Through;
use crate::flow::Flow;
use crate::instance::EventThread;
use crate::placement::{EventTime, Placement};
use crate::track::Track;
use tracezero_core::protos::track_event::Type;

/// If more slices than this are cut at once, they go on in reverse order. So many guards are
/// usually in a vector, which drops the oldest first. After the reversal, each next guard is the
/// innermost one, so each slice has two pieces. In the original order, the number of pieces would
/// grow with the square of the number of guards.
pub(super) const IN_ORDER_MAX: usize = 8;

/// The data that is needed to begin another piece of an open slice.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The sessions that have seen the begin of the slice.
    pub(super) begun: BeginSessions,
    pub(super) site: &'static CallSite,
    /// The time when the slice began, on the trace clock.
    pub(super) begun_at_ns: u64,
    /// The name, if it is not that of the call site; else empty.
    pub(super) name: String,
    /// A flow that joins the slice with others.
    pub(super) flow: Option<Flow>,
    /// The index of the slice in its stack.
    pub(super) at: usize,
    /// The nesting order: slices with a higher rank are inside.
    pub(super) rank: u32,
}

/// The slices inside of a slice that ends.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Sorted, the outermost first.
    pub(super) inner: Vec<Piece>,
    /// True if they go on in reverse order.
    pub(super) is_reversed: bool,
}

/// Returns true if the slices `inner` go on in reverse order. All sessions that have seen them must
/// see the same order. So the order is reversed only if every session in `begun` still records,
/// which `is_recorded` tells.
pub(super) fn are_reversed(
    begun: BeginSessions,
    time: EventTime,
    inner: &[Piece],
    is_recorded: impl FnOnce() -> bool,
) -> bool {
    let is_same = |piece: &Piece| piece.begun.slots() == begun.slots() && piece.had_begun(time);
    inner.len() > IN_ORDER_MAX && inner.iter().all(is_same) && is_recorded()
}

/// Returns true if all sessions that have seen the begin of a slice still record.
pub(super) fn is_recorded(begun: BeginSessions) -> bool {
    let still = begun.still_recording();
    still.is_some_and(|still| still.slots() == begun.slots())
}

impl Piece {
    fn had_begun(&self, time: EventTime) -> bool {
        self.begun_at_ns <= time.timestamp_ns()
    }

    /// Returns true if this slice is cut in the session of `instance` when a slice around it ends
    /// at `time`.
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
    /// Calls `end`, which ends a slice in one session. Before that, ends the slices inside of it;
    /// after that, begins their further pieces. `track` is `None` for the thread's own track.
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
