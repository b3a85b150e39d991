//! A consumer: starts sessions of a tracing daemon, reads their traces, and asks what the daemon has.
//!
//! The daemon is `tracezero daemon`, or Perfetto's `traced`.
//!
//! ```text
//!  Consumer         a connection without a session: queries, and the calls that make a session
//!  DaemonSession    a session of the daemon, and the connection that it belongs to
//!  port             requests, and the replies and events that arrive for them
//! ```
//!
//! Each connection has at most one session. So the calls that make a session take the [`Consumer`], and
//! a session that is detached gives it back.

mod error; // errors of calls
mod port; // requests and replies
mod daemon_state; // what the daemon has
mod session_event; // what happens in a session
mod consumer; // a connection without a session
mod daemon_session; // a session of a daemon
mod triggers; // activates triggers
mod new_session; // the calls that make a session of a connection

pub use consumer::{Capabilities, Consumer};
pub use daemon_session::{DaemonSession, PacketTotals};
pub use daemon_state::{DaemonProducer, DaemonSessionState, DaemonState, OfferedDataSource};
pub use error::ConsumerError;
pub use new_session::SessionToClone;
pub use session_event::SessionEvent;
pub use tracezero_ipc::address::{Address, AddressError};
pub use triggers::activate_triggers;
