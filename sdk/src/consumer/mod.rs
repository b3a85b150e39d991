//! The consumer: sessions, and where their traces go.

mod session; // the handles that applications hold
mod control; // operations on a running session
mod service_state; // the data sources and sessions of the service
mod snapshot; // copies of a session's buffers
mod trigger_callback; // hands snapshots that triggers ask for to the application
mod file_writer; // the thread that streams a session into its file
mod segments; // files of limited size, in a folder under a budget
mod on_error; // errors that no caller receives
mod oneshot; // a channel for a single value

pub(crate) use control::BufferFill;
pub use control::SessionControl;
pub use on_error::on_error;
pub use segments::{Segment, Segments};
pub use service_state::service_state;
pub use session::{InMemorySession, Session};
pub use snapshot::Snapshot;
