//! Connects the producer of this process to a tracing daemon, as one more realm.
//!
//! ```text
//!  writers ------- commit, register, unregister ---.
//!  calls thread -- started, stopped, flushed ------+--> Outbox --> I/O thread --> socket
//!                                                                   |   ^
//!  calls thread <--- commands, in order ----------------------------'   '-- descriptor of the memory
//! ```
//!
//! Threads of the application never send on the socket, so a daemon that has stopped delays no trace
//! point. The thread for I/O never calls the application, so a slow callback does not keep the daemon
//! waiting.
//!
//! Each connection is a realm of its own, with its own memory. When it ends, its realm ends, and the
//! next connection begins with nothing. So no writer can mix two memories.

mod options; // how to connect
mod trust; // which daemons may see what is traced
mod outbox; // what waits to be sent
mod counts; // what became of the packets
mod syncs; // waits until the daemon has said what it records
mod totals; // what became of the packets, for a daemon that takes these counts
mod shared; // what the thread shares with the application
mod remote_service; // the daemon, as the producer sees it
mod back_off; // how long to wait until the next attempt
mod socket_watch; // notices that a daemon has made its socket
mod memory; // the memory that writers use
mod requests; // puts what waits into frames
mod calls; // what the daemon tells the producer to do, on a thread of its own
mod connection; // one connection, from the first byte to its end
mod process_exit; // sends what connections have before the process exits
mod client; // connects, again and again

pub use client::{Client, ClientError};
pub use counts::ClientStats;
pub use options::Options;
pub use shared::ClientState;
pub use tracezero_ipc::address::{Address, AddressError};
