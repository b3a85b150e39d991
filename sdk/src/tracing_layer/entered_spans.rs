//! The spans that each thread has entered, with their slices on the thread's track.
//!
//! Spans may be left in any order, but slices on a track must nest. The thread's stack of open
//! slices ensures that, for these slices and for those of span guards.

use std::cell::RefCell;

use super::site::Site;
use super::spans::SlotIndex;
use tracezero_core::clock;
use tracezero_track_event::{Encoded, EventTime, SlicePosition};

thread_local! {
    /// The entered spans, outermost first. Borrowed while events are written: code that the tracer
    /// calls meanwhile records no spans.
    static ENTERED_SPANS: RefCell<Vec<EnteredSpan>> = const { RefCell::new(Vec::new()) };
}

/// A span that the thread has entered.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnteredSpan {
    /// The number of the layer that the id belongs to.
    pub(super) layer: u32,
    pub(super) id: u64,
    pub(super) site: &'static Site,
    /// The position of the slice on the thread's stack.
    pub(super) slice: SlicePosition,
    pub(super) slot: SlotIndex,
    /// The size of the arguments that the slice's begin had, in bytes.
    pub(super) args_len: usize,
}

/// Returns whether the thread is in any recorded span.
#[inline]
pub(super) fn is_in_any() -> bool {
    let is_in_any =
        |entered: &RefCell<Vec<EnteredSpan>>| entered.try_borrow().is_ok_and(|it| !it.is_empty());
    ENTERED_SPANS.try_with(is_in_any).unwrap_or(false)
}

/// Calls `begin`, which begins a slice on the thread, and stores the span that it returns.
#[inline]
pub(super) fn enter(begin: impl FnOnce() -> Option<EnteredSpan>) {
    // Nothing is recorded on a thread whose thread-locals are destroyed.
    let _ = ENTERED_SPANS.try_with(|entered| {
        if let Ok(mut entered) = entered.try_borrow_mut() {
            entered.extend(begin());
        }
    });
}

/// Removes a span and calls `end`, which ends its slice.
#[inline]
pub(super) fn exit(layer: u32, id: u64, end: impl FnOnce(&EnteredSpan, EventTime)) {
    let is_left = |it: &EnteredSpan| it.id == id && it.layer == layer;
    let _ = ENTERED_SPANS.try_with(|entered| {
        let Ok(mut entered) = entered.try_borrow_mut() else {
            return;
        };
        match entered.last() {
            Some(innermost) if is_left(innermost) => {
                end(innermost, EventTime::Now(clock::event_now_ns()));
                entered.pop();
            }
            // If the span is not found, recording began after the enter.
            _ => exit_around(&mut entered, is_left, end),
        }
    });
}

/// Removes a span that is not the innermost, and calls `end`.
#[cold]
fn exit_around(
    entered: &mut Vec<EnteredSpan>,
    is_left: impl Fn(&EnteredSpan) -> bool,
    end: impl FnOnce(&EnteredSpan, EventTime),
) {
    if let Some(at) = entered.iter().rposition(is_left) {
        let left = entered.remove(at);
        end(&left, EventTime::Now(clock::event_now_ns()));
    }
}

impl EnteredSpan {
    /// Ends the slice. `parts` were recorded since the begin of the slice.
    #[inline]
    pub(super) fn end(&self, time: EventTime, parts: Encoded<'_>) {
        self.site.call_site.end_slice(self.slice, time, parts);
    }
}
