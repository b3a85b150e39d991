//! Processes as producers of Perfetto's real daemon, `traced`, and of our own. The command `perfetto`
//! records them.
//!
//! The tests run with `traced`. One of them, in `our_daemon.rs`, runs others again with our daemon.
//! To run one test with our daemon, set `TRACEZERO_TEST_DAEMON=tracezero`.
//!
//! `ci/fetch.sh` fetches both. The environment variable `PERFETTO_BIN` names another folder with them.
//! Where they are missing, these tests say that they were not run, and fail if `CI` is set.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use support::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[path = "../../../../sdk/protovm/tests/build/mod.rs"]
mod build; // encodes programs and messages
#[path = "../../../../sdk/protovm/tests/model/interpreter.rs"]
#[allow(dead_code)] // The instructions alone are needed.
mod interpreter;
#[path = "../../../../sdk/host/tests/host/peer.rs"]
#[allow(dead_code)] // Not all of it is needed.
mod peer; // a connection, frame by frame
#[path = "../../../../sdk/host/tests/host/producer.rs"]
#[allow(dead_code)] // Not all of it is needed.
mod producer; // a producer that writes its chunks itself
#[path = "../../../../sdk/protovm/tests/model/random.rs"]
#[allow(dead_code)] // Initial states and limits are not needed.
mod random; // random programs and patches

mod machine; // the daemon and the command
mod programs; // programs that record
mod running; // a program that runs
mod our_daemon; // most of the following tests, with our daemon
mod cut_proxy; // a man in the middle who cuts connections
mod recordings; // what the traces have
mod allocations; // recording allocates nothing
mod schemas; // data sources with a schema of their own
mod network; // a daemon that cannot share memory
mod packets; // packets of the programs' own data sources
mod rings; // rings that overwrite their oldest packets
mod states; // states that a ring keeps of them
mod triggers; // sessions that wait for a trigger
mod restarts; // daemons and programs that are killed
mod cuts; // connections that are cut
mod trust; // daemons of other users
mod probes; // what traced_probes records
mod lake; // recordings as tables, read by foreign engines
mod commands; // ways to use the command
mod consumer; // sessions of our own consumer, and of the command `tracezero`
mod bad_configs; // configurations that the daemon refuses
mod killed_commands; // commands that are killed, producers that are stopped
mod sdk; // producers of the SDK in C++
mod stopped_daemon; // a daemon that is stopped for a while
mod soak; // everything at random
