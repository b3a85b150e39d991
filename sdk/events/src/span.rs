//! The guard that ends a span.

use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

use tracezero_events_core::{CallSite, Event, OpenSpan};

/// A guard that ends its span when it is dropped, also during a panic. [`span!`](crate::span)
/// returns it.
///
/// The guard cannot leave the thread that began the span:
///
/// ```compile_fail
/// let span = tracezero_events::span!("mylib", "work");
/// std::thread::spawn(move || drop(span));
/// ```
///
/// [`end!`](crate::end) ends the span earlier, and adds arguments that are known only at the end.
#[derive(Debug)]
#[must_use = "the span ends where this is dropped: bind it, as in `let _span = ..` (not `let _ = ..`, which drops it at once)"]
pub struct Span {
    /// `None` if no recorder records the span. Programs built without trace points have no such
    /// field.
    #[cfg(not(tracezero_off))]
    open: Option<OpenSpan>,
    not_send: PhantomData<dyn SpanEndsOnItsThread__drop_it_before_an_await>,
}

/// Keeps a guard on its thread: the compiler's message names this trait where a guard would be
/// sent.
#[expect(non_camel_case_types, reason = "the name is the message's advice")]
trait SpanEndsOnItsThread__drop_it_before_an_await: Unpin + UnwindSafe + RefUnwindSafe {}

impl Span {
    /// Creates the guard of a span that is not recorded.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            #[cfg(not(tracezero_off))]
            open: None,
            not_send: PhantomData,
        }
    }

    /// Creates the guard of a span that has begun.
    #[doc(hidden)]
    #[inline(always)]
    pub fn new(open: OpenSpan) -> Self {
        #[cfg(tracezero_off)]
        drop(open);
        Self {
            #[cfg(not(tracezero_off))]
            open: Some(open),
            not_send: PhantomData,
        }
    }

    /// Returns whether a recorder records the span.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        #[cfg(tracezero_off)]
        return false;
        #[cfg(not(tracezero_off))]
        self.open.is_some()
    }

    /// Ends the span with the arguments of `event`. `site` has the names of these arguments.
    #[doc(hidden)]
    pub fn end_with(self, site: &'static CallSite, event: &Event<'_>) {
        #[cfg(tracezero_off)]
        let _ = (site, event);
        #[cfg(not(tracezero_off))]
        if let Some(open) = self.open {
            open.end_at(site, event);
        }
    }
}
