//! A tracing daemon: the service of tracezero for producers and consumers of other processes, over
//! Perfetto's protocol.
//!
//! ```text
//!  producers --> socket --> Connection --> ProducerPort --> ProducerEndpoint --.
//!                              ^ RemoteProducer: calls become commands         |
//!  consumers --> socket --> Connection --> ConsumerPort --> Service -----------+--> sessions, buffers
//!                              ^ RemoteConsumer: calls become replies          |
//!  event loop: accepts, receives at most 128 KiB per connection and turn, sends, runs timers
//!  a thread for each session that writes a file; producers wait for it if it does not keep up
//! ```
//!
//! Producers are not trusted. Consumers are trusted with traces, but neither with the rights of the
//! daemon nor with the sessions of other users. The event loop never waits for a peer, and for a disk
//! only when it creates or closes the file of an `output_path`. A request that makes this program panic ends its
//! connection alone.

mod limits; // limits on connections
mod log; // the log
mod log_environment; // limits that the service tells go to the log
mod outgoing; // what is to be sent, and what wakes the event loop
mod memory; // sizes and quotas of shared memory
mod peer; // who is at the other end
mod port; // what the ports of producers and consumers have in common
mod file_waker; // what wakes the threads that write files
mod remote_consumer; // a consumer as the service calls it
mod detached; // sessions without a consumer
mod output_folder; // trace files for users that are not trusted
mod host; // what all connections share
mod file_session; // the threads that write files
mod remote_producer; // a producer as the service calls it
mod producer_port; // the methods of producers
mod reading; // a trace that a consumer reads
mod state_reply; // what consumers learn of producers and sessions
mod consumer_port; // the methods of consumers
mod slow_readers; // threads that write files and do not keep up
mod connection; // one connection
mod event_loop; // serves all connections
mod daemon; // listens, serves, ends
mod notify; // tells whoever has started the daemon that it listens

pub use self::daemon::{Daemon, DaemonError, DaemonOptions, Stopper};
pub use self::log::Log;
pub use self::notify::notify_ready;
pub use tracezero_ipc::address::{Address, AddressError};
pub use tracezero_ipc::listener::Permissions;
