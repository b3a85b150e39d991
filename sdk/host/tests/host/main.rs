//! A daemon, with producers and consumers that do what a test says, one step at a time, over real
//! sockets.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod peer; // one connection to the daemon
mod daemon; // a daemon that runs on a thread
mod producer; // a producer that writes real chunks
mod consumer; // a consumer that reads traces
mod silent_file; // a file whose file system does not answer

mod life; // sessions from configuration to trace
mod frames; // frames of all sizes, cut, unknown, malformed
mod descriptors; // descriptors that nothing asked for
mod refusals; // configurations and sessions that are refused
mod closing; // consumers that go in the middle
mod detach; // sessions without a consumer
mod observing; // events that consumers observe
mod queries; // queries about the daemon and its sessions
mod clones; // clones of sessions
mod triggers; // triggers that start, stop and clone sessions
mod files; // sessions that write files
mod silent_files; // files whose file systems never answer
mod other_users; // users who may not do what the daemon's user may
mod own_producers; // applications of tracezero: their accounts, and configurations that change
mod no_memory; // producers that get no shared memory
mod slow_peers; // peers that read slowly or not at all, and floods
mod panics; // requests that make the daemon panic
mod ending; // the end of the daemon
