//! A tracing SDK in pure Rust. It records spans, counters and packets of your own schema into
//! traces that Perfetto's viewer and tools can open.
//!
//! ```
//! use tracezero::{Session, counter, instant, span};
//!
//! # let directory = std::env::temp_dir().join(format!("tracezero-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory).expect("a temporary directory");
//! # let path = directory.join("app.pftrace");
//! # let path = path.to_str().expect("UTF-8");
//! # let _ = "app.pftrace";
//! let session = Session::record_to_file(path)?;
//! {
//!     let _span = span!("io", "read_file", path = "Cargo.toml", bytes = 1234_u64);
//!     counter!("io", "open_files", 3);
//! }
//! instant!("app", "done");
//! println!("{}", session.finish()?); // 4 events, 1649 bytes, 0 lost: app.pftrace
//! # std::fs::remove_dir_all(&directory).expect("removed");
//! # Ok::<(), tracezero::Error>(())
//! ```
//!
//! The [`guide`] explains each subject in turn.
//!
//! There is no set-up. Threads need no registration: everything they wrote is in the trace when the
//! session finishes. While no session runs, a trace point costs one relaxed load. No loss is
//! silent: lost packets are counted, marked in the trace, and listed by the [`Report`].
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | `layer`: spans and events of the `tracing` crate |
//! | `testing` | the module `testing`: tests on traces |
//! | `reader` | the module `reader`: reading and checking traces |
//! | `signals` | `FlightRecorderBuilder::snapshot_on_signal` |
//! | `recovery` | [`crash`]`::leftovers`: traces of processes that were killed |
//! | `text-config` | [`TraceConfig::from_text`](TraceConfig) |
//! | `deflate`, `zstd` | [`Compression`] |
//!
//! To remove all trace points from a program, build it with `RUSTFLAGS="--cfg tracezero_off"`.
//! Macros and data sources then compile to nothing, in the program and in all its libraries.
//!
//! # What happens to an event
//!
//! The macro writes the event through a generated writer ([`protos`]) into a chunk: a piece of
//! memory that belongs to the thread. A full chunk is committed to the service
//! (`tracezero-service`), which copies it into a ring and frees it. A session ([`Session`],
//! [`InMemorySession`]) reads whole packets from the ring and writes the trace.

// docs.rs shows the feature that an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc = include_str!("guide.md")]
pub mod guide {}

/// The trace clock, which measures the times in traces.
pub mod clock {
    #[doc(inline)]
    pub use tracezero_core::clock::{Clock, TscError, now_ns};
}

/// Settings of a configuration that only Android needs.
pub mod android {
    #[doc(inline)]
    pub use crate::config::android::{AndroidConfig, LockdownMode};
}

// Modules that users call.
pub mod crash; // what a killed process leaves behind
mod trace_attributes; // which service and version traces come from
mod consumer; // handles to sessions, and the threads that write their files
mod data_source_macros; // `data_source!` and `data_source_state!`
mod report; // what was recorded, and what was lost
mod error; // errors of starting and ending sessions
mod flight_recorder; // always records: one thread takes snapshots, another writes them into files
mod capture_handle; // lets libraries attach their threads to a test's capture
#[cfg(feature = "system")]
mod system; // connects the process to a daemon
#[cfg(feature = "tracing")]
mod tracing_layer; // spans and events of the `tracing` crate
// Modules between a trace point and a trace; see "A byte's journey" in ARCHITECTURE.md.
mod triggers; // triggers that the application activates
mod runtime; // makes one producer and one service for the process
#[cfg(feature = "testing")]
pub mod testing; // what tests record: captures, each with a service of its own
mod process_end; // finishes files and flight recorders when the process ends
mod trace_folder; // folders of trace files under a budget, for segments and snapshots
// Modules that all of the above use.
pub(crate) mod config; // what to record

pub use capture_handle::{Attached, CaptureHandle, CapturedFuture};
pub use config::{
    BufferConfig, BufferExhaustedPolicy, BuiltinDataSources, Compression, ConfigError,
    DataSourceConfig, FillPolicy, PrimaryTraceClock, SessionSemaphore, TraceConfig,
    TrackEventConfig, Trigger, TriggerConfig, TriggerMode, WriteFlushMode,
};
pub use consumer::{
    InMemorySession, Segment, Segments, Session, SessionControl, Snapshot, on_error, service_state,
};
#[doc(hidden)]
pub use data_source_macros::__connect_if_asked;
pub use error::Error;
#[cfg(feature = "signals")]
pub use flight_recorder::Signal;
pub use flight_recorder::{
    FlightError, FlightRecorder, FlightRecorderBuilder, FlightStats, SavingSnapshot,
    SnapshotRequest,
};
pub use process_end::{finish_recordings, leave_signals_alone};
pub use report::{BufferMemory, Losses, Report, SegmentCounts, Warning};
#[cfg(feature = "system")]
pub use system::{System, SystemBuilder, SystemState, SystemStats};
pub use trace_attributes::{set_service, set_trace_attribute};
#[cfg(feature = "system")]
#[doc(inline)]
pub use tracezero_consumer::{
    Address, AddressError, Capabilities, Consumer, ConsumerError, DaemonProducer, DaemonSession,
    DaemonSessionState, DaemonState, OfferedDataSource, PacketTotals, SessionEvent, SessionToClone,
};
#[doc(inline)]
pub use tracezero_core::attributes::TraceAttributeValue;
#[doc(inline)]
pub use tracezero_core::clock::{Clock, TscError};
#[doc(inline)]
pub use tracezero_core::coordination::{
    CategoryDescriptor, DataSourceDescriptor, FlushInitiator, FlushReason, PacketCounts,
};
#[doc(inline)]
pub use tracezero_core::ids::{ProducerId, SessionId};
#[doc(inline)]
pub use tracezero_core::protos;
#[doc(inline)]
pub use tracezero_core::shm::MemoryError;
#[doc(inline)]
pub use tracezero_macros::{ArgValue, trace};
#[doc(inline)]
pub use tracezero_producer::{
    DataSource, DataSourceState, Flushing, Setup, Starting, Stopping, TraceContext,
};
#[cfg(feature = "reader")]
#[doc(inline)]
pub use tracezero_reader as reader;
#[doc(inline)]
pub use tracezero_service::trace_buffer::{
    BufferError, BufferStats, ChunkAmount, ChunkPayloadHistogram,
};
#[doc(inline)]
pub use tracezero_service::{
    ProducerState, Refusal, SequenceAccount, ServiceState, SessionError, SessionState,
    SessionSummary, StateStats, TraceStats, WriterStats,
};
#[doc(hidden)]
pub use tracezero_track_event::{__private, __traced_async};
#[doc(inline)]
pub use tracezero_track_event::{
    ARG_MAX_BYTES, ArgValue, AsDebug, AsDisplay, AsyncSpan, Category, ChildOrder, CorrelationId,
    CounterTrack, CounterValue, Dict, DictWriter, EndingSpan, Flow, OPEN_SPANS_MAX, Span,
    TraceFuture, Traced, TracedWithEnd, Traceparent, TraceparentError, Track, TrackSpan, Unit,
    async_span, begin, categories, counter, debug, declare_event_schema, dict, display, enabled,
    end, instant, library_recorder, span,
};
#[cfg(feature = "tracing")]
pub use tracing_layer::{AsyncSpans, TracingLayer, layer};
pub use triggers::activate_trigger;
