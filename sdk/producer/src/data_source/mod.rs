//! Data sources with a schema of their own.
//!
//! A type that implements [`DataSource`] has a name, and one value for each session that records it.
//! The service of the process calls that value; trace points reach it, and what their thread keeps
//! beside it, through a [`TraceContext`].

mod context; // one session at one trace point
mod local; // what a thread keeps for an instance
mod instance; // instances of any type

pub use context::TraceContext;

use crate::answers::{Flushing, Starting, Stopping};
use crate::captures;
use crate::data_source_state::DataSourceState;
use crate::setup::Setup;
use crate::thread_writers::with_instances;
use local::LocalState;

/// A source of packets with their own schema, which extends
/// [`TracePacket`](tracezero_core::protos::TracePacket).
///
/// Call [`DataSource::trace`] wherever there is something to record. A session records it under
/// its [`DataSource::NAME`]. A data source that only writes packets is a unit struct that
/// [`data_source!`](crate::data_source) implements this for. One that has to know about sessions
/// implements it by hand, with [`data_source_state!`](crate::data_source_state) among the items:
///
/// ```
/// use tracezero::{DataSource, InMemorySession, Setup, Starting, Stopping};
///
/// struct Sampler {
///     is_verbose: bool,
/// }
///
/// impl DataSource for Sampler {
///     const NAME: &'static str = "com.example.sampler";
///     type ThreadState = ();
///     type IncrementalState = ();
///     tracezero::data_source_state!(Sampler);
///
///     fn on_setup(setup: &Setup<'_>) -> Self {
///         let legacy_config = setup.decoder().legacy_config();
///         Self {
///             is_verbose: legacy_config == Ok(Some("verbose")),
///         }
///     }
///
///     fn on_start(&self, _: Starting) {
///         Self::trace(|cx| {
///             let is_verbose = cx.instance().is_verbose;
///             cx.packet(|packet| {
///                 packet.for_testing(|event| {
///                     event.set_str(if is_verbose { "a long story" } else { "short" });
///                 });
///             });
///         });
///     }
/// }
///
/// Sampler::register();
/// let (_trace, report) = InMemorySession::start()?.finish();
/// assert_eq!(report.data_packets, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
///
/// # Callbacks
///
/// Each session that records the data source has its own value, an *instance*:
///
/// ```text
///  on_setup ---> on_start ---> on_flush, on_clear_incremental_state ---> on_stop ---> dropped
///                   |                  any number of times                  |
///                   '--------------- trace points reach it -----------------'
/// ```
///
/// They come one at a time, from whichever thread starts, flushes or stops a session, or reaches
/// the first trace point of a data source. Callbacks may trace, and may wait for other threads, but
/// not for one that starts, flushes or ends a session: that thread waits for the callback, without a
/// limit. A panic ends at the callback, which then counts as done; one in `on_setup` leaves the session
/// without an instance.
pub trait DataSource: Sized + Send + Sync + 'static {
    /// The name that a configuration knows this data source by, for instance `com.example.gpu`.
    const NAME: &'static str;

    /// The schema of the packets, for readers that do not have it: a serialized
    /// `FileDescriptorSet`, as [`protozero::include_descriptor_set!`] gives it. Each trace with this
    /// data source carries it once. Empty for none.
    const DESCRIPTORS: &'static [u8] = &[];

    /// What each thread keeps for each instance; see [`TraceContext::thread_state`].
    type ThreadState: Default + 'static;

    /// What the packets of a thread build on; see [`TraceContext::incremental_packet`].
    type IncrementalState: Default + 'static;

    /// What the SDK keeps for this type. [`data_source_state!`](crate::data_source_state) writes
    /// this.
    fn state() -> &'static DataSourceState;

    /// A session wants this data source: makes its instance.
    fn on_setup(setup: &Setup<'_>) -> Self;

    /// Recording begins; trace points reach this instance from now on. The session counts it as
    /// started when `starting` is dropped: at the end of this call, or later from any thread.
    fn on_start(&self, starting: Starting) {
        drop(starting);
    }

    /// Recording ends. Trace points reach this instance until `stopping` is dropped: at the end of
    /// this call, or later from any thread. The session waits for that, as long as its
    /// configuration says.
    fn on_stop(&self, stopping: Stopping) {
        drop(stopping);
    }

    /// What this instance has gathered and not written yet is due. The session waits until
    /// `flushing` is dropped. Packets that were written need no flush.
    fn on_flush(&self, flushing: Flushing) {
        drop(flushing);
    }

    /// Packets from now on must not build on earlier ones. What [`TraceContext::incremental_packet`]
    /// knows of is made anew without this.
    fn on_clear_incremental_state(&self) {}

    /// Makes this data source known before its first trace point, so that sessions set it up and
    /// start it even if none is reached.
    fn register() {
        Self::state().active_slots();
        captures::registered(Self::state());
    }

    /// Whether a session records this data source now: one relaxed load.
    #[inline]
    #[must_use]
    fn is_enabled() -> bool {
        Self::state().active_slots() != 0
    }

    /// Calls `trace` once for every session that records this data source: not at all, at the cost
    /// of one relaxed load, while there is none.
    #[inline]
    fn trace(mut trace: impl FnMut(&mut TraceContext<'_, Self>)) {
        let mask = Self::state().active_slots();
        if mask != 0 {
            captures::reached(Self::state(), mask);
            with_instances(Self::state(), mask, |instance| {
                trace(&mut TraceContext::new(instance));
            });
        }
    }
}

impl DataSourceState {
    /// The state of a type of data source.
    #[must_use]
    pub const fn of<D: DataSource>() -> Self {
        Self::new(D::NAME, D::DESCRIPTORS, instance::set_up::<D>)
    }
}

/// Implements [`DataSource`] for a unit struct, without callbacks and state.
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
/// assert_eq!(report.data_packets, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
///
/// A third argument is its [`DataSource::DESCRIPTORS`]:
/// `data_source!(Gpu, "com.example.gpu", protozero::include_descriptor_set!("gpu"))`.
#[macro_export]
macro_rules! data_source {
    ($type:path, $name:expr $(,)?) => {
        $crate::data_source!($type, $name, &[]);
    };
    ($type:path, $name:expr, $descriptors:expr $(,)?) => {
        impl $crate::DataSource for $type {
            const NAME: &'static str = $name;
            const DESCRIPTORS: &'static [u8] = $descriptors;
            type ThreadState = ();
            type IncrementalState = ();
            $crate::data_source_state!($type);

            fn on_setup(_: &$crate::Setup<'_>) -> Self {
                $type
            }
        }
    };
}

/// Writes [`DataSource::state`] for the type that the implementation is for; see there.
// A macro, because a generic function cannot have a static of its own for each type.
#[macro_export]
macro_rules! data_source_state {
    ($type:ty) => {
        fn state() -> &'static $crate::DataSourceState {
            static STATE: $crate::DataSourceState = $crate::DataSourceState::of::<$type>();
            &STATE
        }
    };
}
