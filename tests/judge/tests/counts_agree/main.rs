//! Report, `tracezero summary`, `check`, `view` and the judge count the same in every trace, however odd.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod agreement; // who counts, and whether all agree
mod disagreement; // that a difference is noticed, whoever is wrong
mod events; // events of all kinds, on all kinds of tracks
mod files; // compressed, limited, cut off, merged
#[path = "../sources/numbers.rs"]
mod numbers; // a data source with incremental state
mod losses; // rings that lap, packets that are dropped or invalid
#[path = "../processes/own_process.rs"]
#[expect(dead_code)] // Other tests need the rest.
mod own_process; // children, and this executable as another process
mod sessions; // several at once, snapshots, flight recorders, forks
mod sources; // packets of data sources
