//! Triggers that the application hits.

use crate::flight_recorder;
use tracezero_producer as producer;

/// Hits the trigger of this name: every session of this process that waits for it takes it, and
/// starts, ends, or has a snapshot taken, as its configuration says; so does every
/// [`FlightRecorder`](crate::FlightRecorder) that [waits](crate::FlightRecorderBuilder::add_trigger) for
/// it.
///
/// ```
/// use std::time::Duration;
///
/// use tracezero::{BufferConfig, Trigger, TriggerConfig, TriggerMode};
/// use tracezero::{TraceConfig, activate_trigger, instant};
///
/// let session = TraceConfig::new()
///     .add_buffer(BufferConfig::ring(1024))
///     .record_all()
///     .triggers(
///         TriggerConfig::new(TriggerMode::Start, Duration::from_secs(60))
///             .add_trigger(Trigger::new("too slow")),
///     )
///     .record_in_memory()?;
/// instant!("app", "before");
/// activate_trigger("too slow");
/// instant!("app", "after");
/// assert_eq!(session.finish().1.events, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
pub fn activate_trigger(name: &str) {
    producer::activate_triggers(&[name]);
    flight_recorder::trigger_hit(name);
}
