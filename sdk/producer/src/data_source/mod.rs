//! Data sources of applications, which may have packets with their own schema.
//!
//! A type that implements [`DataSource`] has a name. Each session that records it has one value of
//! the type, its instance. The service calls the instance; trace points reach it, and their
//! thread's own state, through a [`TraceContext`].

mod context; // one session at one trace point
mod local; // a thread's own state for an instance
mod instance; // instances of any type

pub use context::TraceContext;

use crate::answers::{Flushing, Starting, Stopping};
use crate::captures;
use crate::data_source_state::DataSourceState;
use crate::setup::Setup;
use crate::thread_writers::with_instances;
use local::LocalState;

/// A source of packets, which may have their own schema that extends
/// [`TracePacket`](tracezero_core::protos::TracePacket).
///
/// Call [`DataSource::trace`] wherever there is something to record. A session names the data
/// source by its [`DataSource::NAME`]. For a data source that only writes packets, use
/// `data_source!`, which implements this trait for a unit struct. For a data
/// source that must know about sessions, implement the trait by hand, with
/// `data_source_state!` among the items:
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
/// Each session that records the data source has its own value of the type, an *instance*:
///
/// ```text
///  on_setup ---> on_start ---> on_flush, on_clear_incremental_state ---> on_stop ---> dropped
///                   |                  any number of times                  |
///                   '--------------- trace points reach it -----------------'
/// ```
///
/// The callbacks of an instance run one at a time. They run on the thread that starts, flushes or
/// stops the session, or on the thread that first reaches a trace point of the data source.
///
/// Callbacks may trace, and may wait for other threads. But they must not wait for a thread that
/// starts, flushes or ends a session: that thread waits for the callback, without a time limit.
///
/// A panic ends the callback, which then counts as done. After a panic in `on_setup`, the session
/// has no instance.
pub trait DataSource: Sized + Send + Sync + 'static {
    /// The data source's name in configurations, for instance `com.example.gpu`. A name that is
    /// empty or has more than 256 bytes does not compile.
    const NAME: &'static str;

    /// The schema of the packets: a serialized `FileDescriptorSet`, as
    /// [`protozero::include_descriptor_set!`] returns it. Each trace with this data source contains
    /// it once, for readers that do not know the schema. Empty if there is none.
    const DESCRIPTORS: &'static [u8] = &[];

    /// The program by which a ring buffer keeps a state of the packets that it overwrites: a serialized
    /// `VmProgram`, made by `protozero_codegen::Config::vm_program` in a build script. Empty for none.
    ///
    /// A session keeps the state if its configuration of the data source gives it a size, with
    /// `protovm_config`, or if it records everything.
    const PROTOVM_PROGRAM: &'static [u8] = &[];

    /// The state of each thread for each instance; see [`TraceContext::thread_state`].
    type ThreadState: Default + 'static;

    /// The state that packets of a thread build on; see [`TraceContext::incremental_packet`].
    type IncrementalState: Default + 'static;

    /// Returns the SDK's state for this type. `data_source_state!`
    /// implements this function.
    fn state() -> &'static DataSourceState;

    /// Creates the instance for a session that records this data source.
    fn on_setup(setup: &Setup<'_>) -> Self;

    /// Starts the instance; trace points reach it from now on. The session counts it as started
    /// when `starting` is dropped: at the end of this call, or later from any thread.
    fn on_start(&self, starting: Starting) {
        drop(starting);
    }

    /// Stops the instance. Trace points reach it until `stopping` is dropped: at the end of this
    /// call, or later from any thread. The session waits for that, up to the time limit in its
    /// configuration.
    fn on_stop(&self, stopping: Stopping) {
        drop(stopping);
    }

    /// Writes the data that this instance has gathered and not written yet. The session waits until
    /// `flushing` is dropped. Packets that are already written need no flush.
    fn on_flush(&self, flushing: Flushing) {
        drop(flushing);
    }

    /// Clears state that you keep by yourself: packets from now on must not build on earlier ones.
    /// The state of [`TraceContext::incremental_packet`] starts again without this callback.
    fn on_clear_incremental_state(&self) {}

    /// Registers this data source before its first trace point, so that sessions start it even if
    /// no trace point is ever reached.
    ///
    /// The service takes 1024 data sources of a process, with 4 MiB of schemas. It refuses and counts
    /// others (`TraceStats::data_sources_refused`). The report of a session that asks for one of them
    /// warns that nobody offers it.
    fn register() {
        Self::state().active_slots();
        captures::registered(Self::state());
    }

    /// Returns true if a session records this data source now. Costs one relaxed load.
    #[inline]
    #[must_use]
    fn is_enabled() -> bool {
        Self::state().active_slots() != 0
    }

    /// Calls `trace` once for each session that records this data source. While no session records
    /// it, a call costs one relaxed load.
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
    /// Creates the state of a type of data source. `before_registration` is called before the data
    /// source is registered, which its first trace point does.
    ///
    /// # Panics
    ///
    /// Panics if the data source's name is empty or has more than 256 bytes. In a `static`, that is
    /// an error of the compiler.
    #[must_use]
    pub const fn of<D: DataSource>(before_registration: fn()) -> Self {
        Self::new(D::NAME, D::DESCRIPTORS, instance::set_up::<D>)
            .with(D::PROTOVM_PROGRAM, before_registration)
    }
}
