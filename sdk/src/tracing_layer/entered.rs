//! The spans that each thread is in: its open slices.
//!
//! Spans are left in any order, and slices on a thread's track must nest: the thread's stack of open
//! slices sees to that, for these and for those of guards.

use std::cell::RefCell;

use super::site::Site;
use super::spans::SlotIndex;
use tracezero_core::clock;
use tracezero_track_event::{Encoded, EventTime, SlicePosition};

thread_local! {
    /// Outermost first. Borrowed while events are written: what the tracer itself calls records no
    /// spans.
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// A span that the thread is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entered {
    /// The layer that the id is one of.
    pub(super) layer: u32,
    pub(super) id: u64,
    pub(super) site: &'static Site,
    /// The slice on the thread.
    pub(super) slice: SlicePosition,
    pub(super) slot: SlotIndex,
    /// Bytes of arguments that the begin had.
    pub(super) args_len: usize,
}

/// Returns whether the thread is in any span that is recorded.
#[inline]
pub(super) fn is_in_any() -> bool {
    let is_in_any =
        |entered: &RefCell<Vec<Entered>>| entered.try_borrow().is_ok_and(|it| !it.is_empty());
    ENTERED.try_with(is_in_any).unwrap_or(false)
}

/// Calls `begin`, which begins a slice on the thread, and keeps what it returns.
#[inline]
pub(super) fn enter(begin: impl FnOnce() -> Option<Entered>) {
    // A thread that ends has no slices to come.
    let _ = ENTERED.try_with(|entered| {
        if let Ok(mut entered) = entered.try_borrow_mut() {
            entered.extend(begin());
        }
    });
}

/// Calls `end`, which ends the slice of a span.
#[inline]
pub(super) fn exit(layer: u32, id: u64, end: impl FnOnce(&Entered, EventTime)) {
    let is_left = |it: &Entered| it.id == id && it.layer == layer;
    let _ = ENTERED.try_with(|entered| {
        let Ok(mut entered) = entered.try_borrow_mut() else {
            return;
        };
        match entered.last() {
            Some(innermost) if is_left(innermost) => {
                end(innermost, EventTime::Now(clock::event_now_ns()));
                entered.pop();
            }
            // Without it, recording began after the enter.
            _ => exit_around(&mut entered, is_left, end),
        }
    });
}

/// Calls `end` for a span that is not the innermost.
#[cold]
fn exit_around(
    entered: &mut Vec<Entered>,
    is_left: impl Fn(&Entered) -> bool,
    end: impl FnOnce(&Entered, EventTime),
) {
    if let Some(at) = entered.iter().rposition(is_left) {
        let left = entered.remove(at);
        end(&left, EventTime::Now(clock::event_now_ns()));
    }
}

impl Entered {
    /// Ends the slice, with arguments that were recorded since its begin.
    #[inline]
    pub(super) fn end(&self, time: EventTime, args: &[u8]) {
        let parts = Encoded::new(args, &[]);
        self.site.call_site.end_slice(self.slice, time, parts);
    }
}
