//! Correlation ids of events.

use tracezero_core::protos::TrackEvent;

/// An id that events share which belong together, also in the traces of several processes:
/// `correlation: &id` in the macros. Perfetto's viewer gives them one color, and its SQL has the argument
/// `correlation_id`.
///
/// | type | example |
/// |---|---|
/// | [`Traceparent`](crate::Traceparent): the id of its trace | `correlation: &context` |
/// | `str`, `String` | `correlation: "order 17"` |
/// | `u64` | `correlation: &17` |
pub trait CorrelationId {
    /// Sets the field of the event.
    fn write(&self, event: &mut TrackEvent<'_>);
}

impl CorrelationId for str {
    #[inline]
    fn write(&self, event: &mut TrackEvent<'_>) {
        event.set_correlation_id_str(self);
    }
}

impl CorrelationId for String {
    #[inline]
    fn write(&self, event: &mut TrackEvent<'_>) {
        event.set_correlation_id_str(self);
    }
}

impl CorrelationId for u64 {
    #[inline]
    fn write(&self, event: &mut TrackEvent<'_>) {
        event.set_correlation_id(*self);
    }
}
