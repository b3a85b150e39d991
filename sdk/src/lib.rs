//! Tracing for Rust in pure Rust: spans, counters and packets of your own schema, written into
//! traces that Perfetto's viewer and tools open.
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
//! println!("{}", session.finish()?); // 4 events, 1257 bytes, 0 lost: app.pftrace
//! # std::fs::remove_dir_all(&directory).expect("removed");
//! # Ok::<(), tracezero::Error>(())
//! ```
//!
//! The [`guide`] tells the rest, subject by subject.
//!
//! Nothing needs to be set up first, and threads need no care: what they wrote is in the trace when
//! the session finishes. While no session runs, a trace point costs one relaxed load. Nothing that
//! is lost is lost silently: it is counted, marked in the trace, and listed by the [`Report`].
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | `layer`: spans and events of the `tracing` crate |
//! | `testing` | the module `testing`: tests on traces |
//! | `reader` | the module `reader`: reading and checking traces |
//! | `signals` | `FlightRecorderBuilder::snapshot_on_signal` |
//! | `text-config` | [`TraceConfig::from_text`](TraceConfig) |
//! | `deflate`, `zstd` | [`Compression`] |
//!
//! Whoever builds a program removes its trace points by `RUSTFLAGS="--cfg tracezero_off"`: macros and data sources
//! compile to nothing then, in the program and in all libraries.
//!
//! # What happens to an event
//!
//! The macro writes it through a generated writer ([`protos`]) into a chunk of memory that its
//! thread has to itself. A full chunk is committed to the service, which copies it into a ring (`tracezero-service`)
//! and frees it. A session ([`Session`], [`InMemorySession`]) reads whole packets back from the ring and
//! writes the trace.

#[doc = include_str!("guide.md")]
pub mod guide {}

/// The trace clock: what times in traces are measured by.
pub mod clock {
    #[doc(inline)]
    pub use tracezero_core::clock::{Clock, TscError, now_ns};
}

// What users call.
mod consumer; // sessions, as applications hold them
mod report; // what became of what was traced
mod error; // what can go wrong at start and end
mod flight_recorder; // always recording, and a file when something goes wrong
mod capture_handle; // what libraries attach their threads to a test's capture by
#[cfg(feature = "tracing")]
mod tracing_layer; // spans and events of the `tracing` crate
// A byte's journey.
mod triggers; // what the application hits
mod runtime; // producer and service of one process, put together
#[cfg(feature = "testing")]
pub mod testing; // tests on what code traces
mod process_end; // what is finished when the process exits or gets a signal
// What everybody uses.
pub(crate) mod config; // what to record

pub use capture_handle::{Attached, CaptureHandle, CapturedFuture};
pub use config::{
    BufferConfig, BufferExhaustedPolicy, BuiltinDataSources, Compression, ConfigError,
    DataSourceConfig, FillPolicy, LockdownMode, PrimaryTraceClock, SessionSemaphore,
    TraceAttributeValue, TraceConfig, TrackEventConfig, Trigger, TriggerConfig, TriggerMode,
    WriteFlushMode,
};
pub use consumer::{InMemorySession, Session, SessionControl, Snapshot, on_error, service_state};
pub use error::Error;
#[cfg(feature = "signals")]
pub use flight_recorder::Signal;
pub use flight_recorder::{
    FlightError, FlightRecorder, FlightRecorderBuilder, FlightStats, SavingSnapshot,
    SnapshotRequest,
};
pub use process_end::{finish_recordings, leave_signals_alone};
pub use report::{BufferMemory, Losses, Report, Warning};
#[doc(inline)]
pub use tracezero_core::clock::{Clock, TscError};
#[doc(inline)]
pub use tracezero_core::coordination::{FlushInitiator, FlushReason, PacketCounts};
#[doc(inline)]
pub use tracezero_core::ids::SessionId;
#[doc(inline)]
pub use tracezero_core::protos;
#[doc(inline)]
pub use tracezero_macros::{ArgValue, trace};
#[doc(inline)]
pub use tracezero_producer::{
    DataSource, DataSourceState, Flushing, Setup, Starting, Stopping, TraceContext, data_source,
    data_source_state,
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
    SessionSummary, TraceStats, WriterStats,
};
#[doc(hidden)]
pub use tracezero_track_event::{__private, __traced_async};
#[doc(inline)]
pub use tracezero_track_event::{
    ARG_MAX_BYTES, ArgValue, AsyncSpan, Category, ChildOrder, CounterTrack, CounterValue, Dict,
    DictWriter, EndingSpan, Flow, OPEN_SPANS_MAX, Span, TraceFuture, Traced, TracedWithEnd, Track,
    TrackSpan, Unit, async_span, begin, categories, counter, debug, declare_event_schema, dict,
    display, enabled, end, instant, span,
};
#[cfg(feature = "tracing")]
pub use tracing_layer::{AsyncSpans, TracingLayer, layer};
pub use triggers::activate_trigger;
