//! The guard that ends a span.

use std::marker::PhantomData;

use super::TRACK_EVENT;
use crate::clock;
use crate::producer;

/// Ends its span when it is dropped, also by a panic. Made by [`span!`](crate::span).
///
/// It belongs to the thread that began the span:
///
/// ```compile_fail
/// let span = tracezero::span!("app", "work");
/// std::thread::spawn(move || drop(span));
/// ```
#[derive(Debug)]
#[must_use = "the span ends where this is dropped: bind it, as in `let _span = ..`"]
pub struct Span {
    /// The sessions that have seen the begin.
    slots: u32,
    /// The generation at the begin: sessions that started later have not seen it.
    generation: u64,
    not_send: PhantomData<*const ()>,
}

impl Span {
    /// A span that nobody records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            slots: 0,
            generation: 0,
            not_send: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn begun(slots: u32) -> Self {
        Self {
            slots,
            generation: producer::generation(),
            not_send: PhantomData,
        }
    }

    #[inline(never)]
    fn end(&self) {
        let slots = self.slots & TRACK_EVENT.active_slots();
        if slots == 0 {
            return;
        }
        let timestamp_ns = clock::now_ns();
        producer::with_instances(&TRACK_EVENT, slots, |instance| {
            if instance.generation <= self.generation {
                instance
                    .events
                    .end_slice(&mut instance.writer, timestamp_ns);
            }
        });
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.slots != 0 {
            self.end();
        }
    }
}
