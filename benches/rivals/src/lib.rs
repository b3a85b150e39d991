//! The same events through several tracing SDKs: one module for each, all behind [`Recording`].
//!
//! An SDK is used as its own documentation shows it. Where SDKs differ in kind, the README says so.

// Each module names its SDK's crate with a leading `::`.
pub mod tracezero; // ours
pub mod perfetto_sdk; // the official binding to the C++ library
pub mod perfetto_recorder; // keeps events in memory, encodes them at the end
pub mod fastrace; // spans of requests, for a collector
pub mod tracing_chrome; // a layer of `tracing` that writes JSON

use std::time::{Duration, Instant};

/// Events that are recorded between two looks at the clock.
pub const BATCH: u32 = 500;

/// Memory between writers and service, for SDKs that have it, in KiB.
pub const SHARED_MEMORY_KB: u32 = 4 * 1024;

/// The ring that packets are kept in, for SDKs that have one, in KiB.
pub const RING_KB: u32 = 512 * 1024;

/// What one SDK records, from its start to the size of its file.
///
/// The functions without `self` record one event each. They may be called without a recording, and
/// then show what a disabled trace point costs.
pub trait Recording: Sized {
    /// The SDK's name.
    const SDK: &str;
    /// Whether the SDK has events without a duration. If not, [`instant`](Self::instant) does
    /// nothing.
    const HAS_INSTANTS: bool = true;

    /// Starts recording. One recording for each SDK and process: most of them cannot have a second.
    fn start() -> Self;

    /// One event without a duration.
    fn instant();

    /// A span without arguments.
    fn span();

    /// A span with two integers and a text.
    fn span_3_args(number: i32, size: u64, text: &'static str);

    /// The time that [`BATCH`] events take the thread that records them. What the SDK keeps in
    /// memory without a limit is drained afterwards, when nobody measures.
    fn time_batch(&mut self, record: impl Fn()) -> Duration {
        time(BATCH, record)
    }

    /// Stops recording; returns the size of the file in bytes, if the SDK has a format for files.
    fn finish(self) -> Option<u64>;
}

/// The time of `events` calls.
fn time(events: u32, record: impl Fn()) -> Duration {
    let start = Instant::now();
    for _ in 0..events {
        record();
    }
    start.elapsed()
}
