//! The macros that implement a data source.

/// Connects the process to the machine's daemon, if the environment asks for it: called before a data
/// source is registered, because its trace point may be the first of the process.
#[doc(hidden)]
pub fn __connect_if_asked() {
    #[cfg(feature = "system")]
    tracezero_track_event::connect_if_asked(tracezero_track_event::TRACK_EVENT.state());
}

/// Implements [`DataSource`](crate::DataSource) for a unit struct, without callbacks or state.
///
/// ```
/// use tracezero::{DataSource as _, InMemorySession, data_source};
///
/// struct Heartbeat;
/// data_source!(Heartbeat, "com.example.heartbeat");
///
/// let session = InMemorySession::start()?;
/// Heartbeat::trace(|cx| {
///     let now = cx.now_ns();
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
/// An optional third argument sets [`DataSource::DESCRIPTORS`](crate::DataSource::DESCRIPTORS): `data_source!(Gpu,
/// "com.example.gpu", protozero::include_descriptor_set!("gpu"))`. A fourth one sets
/// [`DataSource::PROTOVM_PROGRAM`](crate::DataSource::PROTOVM_PROGRAM).
#[macro_export]
macro_rules! data_source {
    ($type:path, $name:expr $(,)?) => {
        $crate::data_source!($type, $name, &[]);
    };
    ($type:path, $name:expr, $descriptors:expr $(,)?) => {
        $crate::data_source!($type, $name, $descriptors, &[]);
    };
    ($type:path, $name:expr, $descriptors:expr, $protovm_program:expr $(,)?) => {
        impl $crate::DataSource for $type {
            const NAME: &'static str = $name;
            const DESCRIPTORS: &'static [u8] = $descriptors;
            const PROTOVM_PROGRAM: &'static [u8] = $protovm_program;
            type ThreadState = ();
            type IncrementalState = ();
            $crate::data_source_state!($type);

            fn on_setup(_: &$crate::Setup<'_>) -> Self {
                $type
            }
        }
    };
}

/// Implements [`DataSource::state`](crate::DataSource::state), inside of an implementation of `DataSource`. Its argument is
/// the implementing type.
// This is a macro, because a generic function cannot have its own static for each type.
#[macro_export]
macro_rules! data_source_state {
    ($type:ty) => {
        fn state() -> &'static $crate::DataSourceState {
            static STATE: $crate::DataSourceState =
                $crate::DataSourceState::of::<$type>($crate::__connect_if_asked);
            &STATE
        }
    };
}
