//! Triggers that the application activates.

use crate::flight_recorder;
use tracezero_producer as producer;

/// Activates the trigger with this name. Every session of this process that waits for the trigger
/// starts, ends, or takes a snapshot, as its configuration says. Every
/// [`FlightRecorder`](crate::FlightRecorder) that [waits for
/// it](crate::FlightRecorderBuilder::add_trigger) takes a snapshot.
///
/// Sessions ignore what a process activates too often: after 100 calls in a second, and while 64
/// triggers of a session wait to be read or to be answered with a clone. They also ignore names of
/// more than 256 bytes. `TraceStats::triggers_ignored` counts the ignored triggers. Flight recorders
/// ignore none.
///
/// ```
/// use std::time::Duration;
///
/// use tracezero::{BufferConfig, Trigger, TriggerConfig, TriggerMode};
/// use tracezero::{TraceConfig, activate_trigger, instant};
///
/// let session = TraceConfig::empty()
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
