//! Records the same events with several tracing SDKs: one module for each, all behind
//! [`Recording`].
//!
//! Each SDK is used as its own documentation shows it. The README lists how the SDKs differ.

// Each module names its SDK's crate with a leading `::`.
pub mod tracezero; // the SDK of this repository
pub mod perfetto_sdk; // the official binding to the C++ library
pub mod perfetto_recorder; // keeps events in memory, encodes them at the end
pub mod fastrace; // spans of requests, for a collector
pub mod tracing_chrome; // a layer of `tracing` that writes JSON

pub mod packets; // reads the packets of a trace
pub mod perfetto_trace; // counts the spans of a trace
pub mod kernel_trace; // counts the events of the kernel in a trace
pub mod programs; // starts and ends the programs of a bench, and has a folder for their files
pub mod daemons; // daemons, and sessions that the command `perfetto` starts
pub mod recorders; // the SDKs of programs that record through a daemon
pub mod usage; // processor time, memory and wake-ups of a process

use std::time::{Duration, Instant};

/// The number of events between two reads of the clock.
pub const BATCH: u32 = 500;

/// The size of the memory between writers and service, for SDKs that have it, in KiB.
pub const SHARED_MEMORY_KB: u32 = 4 * 1024;

/// The size of the ring of packets, for SDKs that have one, in KiB.
pub const RING_KB: u32 = 512 * 1024;

/// A recording with one SDK.
///
/// The functions without `self` record one event each. They may also be called without a recording,
/// to measure a disabled trace point.
pub trait Recording: Sized {
    /// The SDK's name.
    const SDK: &str;
    /// True if the SDK has events without a duration. If not, [`instant`](Self::instant) does
    /// nothing.
    const HAS_INSTANTS: bool = true;

    /// Starts recording. Called once for each SDK and process, because most SDKs cannot start
    /// twice.
    fn start() -> Self;

    /// Records an event without a duration.
    fn instant();

    /// Records a span without arguments.
    fn span();

    /// Records a span with two integers and a text.
    fn span_3_args(number: i32, size: u64, text: &'static str);

    /// Returns the time that [`BATCH`] events take on the thread that records them. If the SDK
    /// keeps events in memory without a limit, this function drains them afterwards, outside of the
    /// measured time.
    fn time_batch(&mut self, record: impl Fn()) -> Duration {
        time(BATCH, record)
    }

    /// Stops recording. Returns the size of the file in bytes, if the SDK has a file format.
    fn finish(self) -> Option<u64>;
}

/// Returns the time of `events` calls.
fn time(events: u32, record: impl Fn()) -> Duration {
    let start = Instant::now();
    for _ in 0..events {
        record();
    }
    start.elapsed()
}
