//! Configurations of sessions.
//!
//! A configuration is the message `perfetto.protos.TraceConfig`, as a struct that owns its fields:
//! [`TraceConfig`](tracezero_core::protos::owned::TraceConfig). It is [decoded](decode) from protobuf, read from a text
//! (`from_text`), or put together by the builder of `tracezero`. [`SessionConfig`] is what a service makes of it.
//!
//! A configuration means what it means to the tracing service that this one is compatible with. The rules for
//! target buffers differ in one point: index 0 given together with a name is checked like any other index.
//!
//! Nothing in a configuration is ignored. A field that is not supported is refused by its name, and an unknown
//! field by the name of its message and its number; Perfetto's own service ignores both. A 32-bit value that does
//! not fit is refused as well, and so are triggers without a mode and an `output_path` without
//! `write_into_file`.

// From bytes or text to the message.
mod schema; // which fields there are: a table that the build script makes
mod known_fields; // every field of an encoded configuration is one of these
mod unsupported; // fields that are refused by name
mod place; // paths of fields
mod error; // wrong configurations
#[cfg(feature = "text-config")]
mod text; // configurations that people write
// From the message to what a service carries out.
mod choices; // values that a field can have
mod local; // choices that the message has no fields for
mod session_config; // the message as a service understands it
mod from_message; // the conversion
mod check; // limits and contradictions
mod resolve; // buffers and targets: names to indices

pub use choices::{
    Compression, FillPolicy, LockdownMode, PrimaryTraceClock, TriggerMode, WriteFlushMode,
};
pub use error::ConfigError;
pub use from_message::{check_source_specific, decode};
pub use local::LocalChoices;
pub use resolve::ResolvedConfig;
pub use session_config::{
    Buffer, BuiltinDataSources, DataSource, SemaphoreLimit, SessionConfig, SharedMemory, Trigger,
    Triggers,
};
#[cfg(feature = "text-config")]
pub use text::from_text;
