//! Processes as producers of Perfetto's real daemon, `traced`. The command `perfetto` records them.
//!
//! `ci/fetch.sh` fetches both. The environment variable `PERFETTO_BIN` names another folder with them.
//! Where they are missing, these tests say that they were not run, and fail if `CI` is set.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use support::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

mod machine; // the daemon and the command
mod programs; // programs that record
mod running; // a program that runs
mod cut_proxy; // a man in the middle who cuts connections
mod recordings; // what the traces have
mod allocations; // recording allocates nothing
mod schemas; // data sources with a schema of their own
mod network; // a daemon that cannot share memory
mod packets; // packets of the programs' own data sources
mod rings; // rings that overwrite their oldest packets
mod triggers; // sessions that wait for a trigger
mod restarts; // daemons and programs that are killed
mod cuts; // connections that are cut
mod trust; // daemons of other users
