//! Data sources with a schema of their own.

use std::fmt;

use crate::clock;
use crate::producer::{self, DataSourceState, Instance};
use crate::protos::TracePacket;

/// A source of packets with their own schema, which extends
/// [`TracePacket`](crate::protos::TracePacket).
///
/// Implement it with [`data_source!`](crate::data_source), and call [`DataSource::trace`] wherever
/// there is something to record. A session records it under its [`DataSource::NAME`].
pub trait DataSource: 'static {
    /// The name that a configuration knows this data source by, for instance `com.example.gpu`.
    const NAME: &'static str;

    /// What the SDK keeps for this type. [`data_source!`](crate::data_source) writes this.
    fn state() -> &'static DataSourceState;

    /// Calls `trace` once for every session that records this data source: not at all, at the cost
    /// of one relaxed load, while there is none.
    #[inline]
    fn trace(mut trace: impl FnMut(&mut TraceContext<'_>)) {
        let mask = Self::state().active_slots();
        if mask != 0 {
            producer::with_instances(Self::state(), mask, |instance| {
                trace(&mut TraceContext { instance });
            });
        }
    }
}

/// Implements [`DataSource`] for a type.
///
/// ```
/// use tracezero::{DataSource as _, InMemorySession, data_source};
///
/// struct Heartbeat;
/// data_source!(Heartbeat, "com.example.heartbeat");
///
/// let session = InMemorySession::start()?;
/// Heartbeat::trace(|cx| {
///     let now = cx.now();
///     cx.packet(|packet| {
///         packet.set_timestamp(now);
///         packet.for_testing(|event| {
///             event.set_str("still alive");
///         });
///     });
/// });
/// let (_trace, report) = session.finish();
/// assert_eq!(report.events, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
// A macro, because a generic function cannot have a static of its own for each type.
#[macro_export]
macro_rules! data_source {
    ($type:ty, $name:expr) => {
        impl $crate::DataSource for $type {
            const NAME: &'static str = $name;

            fn state() -> &'static $crate::DataSourceState {
                static STATE: $crate::DataSourceState =
                    $crate::DataSourceState::new(<$type as $crate::DataSource>::NAME);
                &STATE
            }
        }
    };
}

/// A data source in one session, at one trace point.
pub struct TraceContext<'t> {
    instance: &'t mut Instance,
}

impl TraceContext<'_> {
    /// Writes one packet. It goes to the trace as a whole or not at all.
    #[inline]
    pub fn packet<R>(&mut self, write: impl FnOnce(&mut TracePacket<'_>) -> R) -> R {
        self.instance.writer.trace_packet(write)
    }

    /// The time on the trace clock, for [`TracePacket::set_timestamp`].
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        clock::now_ns()
    }
}

impl fmt::Debug for TraceContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext").finish_non_exhaustive()
    }
}
