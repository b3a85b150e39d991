//! The spans that each thread is in: its open slices.
//!
//! Slices on a thread's track must nest, and spans are left in any order. If one is left that is not
//! the innermost, those inside end with it, and go on as further slices.

use std::cell::RefCell;

use super::site::Site;
use super::spans::SlotIndex;
use crate::clock;
use crate::track_event::{Begun, Encoded, EventTime, Flow};

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
    /// The sessions that have seen the begin of the slice.
    pub(super) begun: Option<Begun>,
    pub(super) flow: Option<Flow>,
    pub(super) slot: SlotIndex,
    /// Bytes of arguments that the begin had.
    pub(super) args_len: usize,
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

/// Has `end` end the slice of a span, and `go_on` begin further ones for the spans inside, if any.
#[inline]
pub(super) fn exit(
    layer: u32,
    id: u64,
    end: impl FnOnce(&Entered, EventTime),
    go_on: impl Fn(&Entered, EventTime),
) {
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
            Some(_) => exit_around(&mut entered, is_left, end, go_on),
            // Recording began after the enter.
            None => {}
        }
    });
}

/// The same for a span that may not be the innermost.
#[cold]
fn exit_around(
    entered: &mut Vec<Entered>,
    is_left: impl Fn(&Entered) -> bool,
    end: impl FnOnce(&Entered, EventTime),
    go_on: impl Fn(&Entered, EventTime),
) {
    let Some(at) = entered.iter().rposition(is_left) else {
        return;
    };
    let time = EventTime::Now(clock::event_now_ns());
    for inner in entered.iter().skip(at + 1).rev() {
        inner.end(time, &[]);
    }
    end(&entered.remove(at), time);
    for inner in entered.iter().skip(at) {
        go_on(inner, time);
    }
}

impl Entered {
    /// Ends the slice, with arguments that were recorded since its begin.
    #[inline]
    pub(super) fn end(&self, time: EventTime, args: &[u8]) {
        if let Some(begun) = self.begun {
            let end = Encoded::new(args, &[]);
            self.site.call_site.end_encoded(begun, time, None, end);
        }
    }

    /// Begins another slice of this name in place of one that had to end, in the sessions that have
    /// seen that one.
    #[cold]
    pub(super) fn go_on(&self, begun: Begun, time: EventTime, name: &str) {
        let parts = Encoded::new(&[], self.flow.as_slice());
        let (call_site, placement) = self.site.named(name);
        begun.each(begun.active_slots(), |instance| {
            call_site.begin_encoded_in(instance, time, &placement, parts);
        });
    }
}
