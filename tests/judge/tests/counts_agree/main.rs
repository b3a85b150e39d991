//! The session's report, the commands `tracezero summary`, `check` and `view`, and the judge count
//! the same in every trace, however unusual.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod agreement; // counts of all sources, compared
mod disagreement; // differences are noticed
mod events; // events of all kinds, on all kinds of tracks
mod files; // compressed, limited, cut off, merged
#[path = "../sources/numbers.rs"]
mod numbers; // a data source with incremental state
mod losses; // traces with losses
#[path = "../processes/own_process.rs"]
#[expect(dead_code)] // other tests use the rest
mod own_process; // children by `fork`, and this executable as another process
mod sessions; // several sessions, snapshots, flight recorders, forks
mod sources; // packets of data sources
