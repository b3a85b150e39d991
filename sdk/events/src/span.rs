//! The guard that ends a span.

use std::marker::PhantomData;

use tracezero_events_core::{CallSite, Event, OpenSpan};

/// Ends its span when it is dropped, also by a panic. Made by [`span!`](crate::span).
///
/// It belongs to the thread that began the span:
///
/// ```compile_fail
/// let span = tracezero_events::span!("mylib", "work");
/// std::thread::spawn(move || drop(span));
/// ```
///
/// [`end!`](crate::end) ends it earlier, with arguments that are known only then.
#[derive(Debug)]
#[must_use = "the span ends where this is dropped: bind it, as in `let _span = ..`"]
pub struct Span {
    /// Nothing in a program that is built without trace points.
    #[cfg(not(tracezero_off))]
    open: Option<OpenSpan>,
    not_send: PhantomData<*const ()>,
}

impl Span {
    /// A span that nobody records.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn none() -> Self {
        Self {
            #[cfg(not(tracezero_off))]
            open: None,
            not_send: PhantomData,
        }
    }

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

    /// Returns whether anybody records the span.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        #[cfg(tracezero_off)]
        return false;
        #[cfg(not(tracezero_off))]
        self.open.is_some()
    }

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
