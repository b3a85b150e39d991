//! The consumer's side: what to record, the session that records it, and where the trace goes.

mod config; // what to record
mod report; // what became of it
mod session; // the handle that applications hold
mod control; // what can be done while it goes on
mod service_state; // what there is beside it
mod snapshot; // what was in the buffers at one moment
mod trigger_callback; // what to do about triggers
mod file_writer; // the session into a file, by a thread of its own

pub use config::BufferExhaustedPolicy;
pub use config::{
    BufferConfig, BuiltinDataSources, Compression, ConfigError, DataSourceConfig, FillPolicy,
    LockdownMode, PrimaryTraceClock, SessionSemaphore, TraceAttributeValue, TraceConfig,
    TrackEventConfig, Trigger, TriggerConfig, TriggerMode, WriteFlushMode,
};
pub(crate) use control::BufferFill;
pub use control::{SessionControl, SessionState};
pub use report::{Losses, Report};
pub use service_state::service_state;
pub use session::{InMemorySession, Session};
pub use snapshot::Snapshot;
pub use trigger_callback::activate_trigger;
