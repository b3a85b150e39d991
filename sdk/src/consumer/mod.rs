//! The consumer's side: what to record, the session that records it, and where the trace goes.

mod session; // the handle that applications hold
mod control; // what can be done while it goes on
mod service_state; // what there is beside it
mod snapshot; // what was in the buffers at one moment
mod trigger_callback; // what to do about triggers
mod file_writer; // the session into a file, by a thread of its own
mod on_error; // errors that nobody asks for
mod answer; // a value that one thread waits for

pub(crate) use control::BufferFill;
pub use control::SessionControl;
pub use on_error::on_error;
pub use service_state::service_state;
pub use session::{InMemorySession, Session};
pub use snapshot::Snapshot;
