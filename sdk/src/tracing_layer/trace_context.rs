//! Finds the W3C trace context of a span, with a function of the application.

use std::fmt;
use std::sync::OnceLock;

use tracing_core::Dispatch;
use tracing_core::dispatcher::WeakDispatch;
use tracing_core::span::Id;

use super::spans::Slot;
use tracezero_track_event::Traceparent;

type ContextOf = dyn Fn(&Id, &Dispatch) -> Option<Traceparent> + Send + Sync;

/// The function that returns the context of a span, and the subscriber that it gets.
pub(super) struct TraceContextOf {
    context_of: Box<ContextOf>,
    /// Weak, because the subscriber owns the layer.
    subscriber: OnceLock<WeakDispatch>,
}

impl TraceContextOf {
    pub(super) fn new(
        context_of: impl Fn(&Id, &Dispatch) -> Option<Traceparent> + Send + Sync + 'static,
    ) -> Self {
        Self {
            context_of: Box::new(context_of),
            subscriber: OnceLock::new(),
        }
    }

    pub(super) fn note_subscriber(&self, subscriber: &Dispatch) {
        // A layer belongs to one subscriber.
        let _ = self.subscriber.set(subscriber.downgrade());
    }

    /// Gives a span its context, before it is first entered. The slot must not be locked, because this
    /// calls code of the application.
    #[cold]
    pub(super) fn learn(&self, id: &Id, slot: &Slot) {
        if slot.first_enter.is_claimed() {
            return;
        }
        let subscriber = self.subscriber.get().and_then(WeakDispatch::upgrade);
        let context = subscriber.and_then(|subscriber| (self.context_of)(id, &subscriber));
        if let Some(context) = context {
            slot.lock().linked().add_context(context);
        }
    }
}

impl fmt::Debug for TraceContextOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContextOf").finish_non_exhaustive()
    }
}
