//! The connection to a daemon, with a daemon that does what a test says.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod bad_daemons; // daemons that do not follow the protocol
mod daemon; // the daemon
mod protocol; // what goes over the socket
