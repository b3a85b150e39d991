//! The consumer's side: what to record, the session that records it, and where the trace goes.

mod config; // what to record
mod report; // what became of it
mod session; // the handle that applications hold
mod trace_file; // batches of packets into a file, by a thread of its own

pub(crate) use config::ResolvedConfig;
pub use config::{
    BufferConfig, BuiltinDataSources, Compression, ConfigError, DataSourceConfig, FillPolicy,
    LockdownMode, PrimaryTraceClock, SessionSemaphore, TraceAttributeValue, TraceConfig,
    TrackEventConfig, Trigger, TriggerConfig, TriggerMode, WriteFlushMode,
};
pub use report::{Losses, Report};
pub use session::{InMemorySession, Session};
