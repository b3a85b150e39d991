//! `losses [KIB]`: counts events that are missing in the trace although no buffer was too small for
//! them. Two threads record as fast as they can, and share KIB of memory with the service.
//!
//! The other SDKs of this package keep events in memory that grows until they are written, so they
//! lose nothing while there is memory.

use std::thread;
use std::time::{Duration, Instant};

use rivals::perfetto_sdk::PerfettoSdk;
use rivals::tracezero::Tracezero;
use rivals::{Recording, SHARED_MEMORY_KB};
use tracezero::protos::TraceDecoder;
use tracezero::protos::track_event::Type;

const THREADS: usize = 2;
const EVENTS_PER_THREAD: usize = 300_000;

fn main() {
    let kib = std::env::args().nth(1);
    let kib = kib.map_or(SHARED_MEMORY_KB, |kib| {
        kib.parse().expect("a number of KiB")
    });
    println!("{THREADS} threads, {EVENTS_PER_THREAD} instants each, {kib} KiB of shared memory");

    let recording = Tracezero::start_with(kib);
    let duration = record::<Tracezero>();
    print::<Tracezero>(duration, &recording.into_trace());

    let recording = PerfettoSdk::start_with(kib);
    let duration = record::<PerfettoSdk>();
    print::<PerfettoSdk>(duration, &recording.into_trace());
}

fn record<R: Recording>() -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..EVENTS_PER_THREAD).for_each(|_| R::instant()));
        }
    });
    start.elapsed()
}

fn print<R: Recording>(duration: Duration, trace: &[u8]) {
    let begun = THREADS * EVENTS_PER_THREAD;
    let lost = begun - instants(trace);
    let percent = 100.0 * lost as f64 / begun as f64;
    let per_event_ns = duration.as_nanos() as f64 / EVENTS_PER_THREAD as f64;
    println!(
        "{}: {per_event_ns:.0} ns per event and thread, {lost} of {begun} lost ({percent:.2} %)",
        R::SDK
    );
}

/// Counts the instants in the trace by decoding it.
fn instants(trace: &[u8]) -> usize {
    TraceDecoder::new(trace)
        .packet()
        .filter_map(|packet| packet.expect("a packet").track_event().expect("readable"))
        .filter(|event| event.r#type().expect("readable") == Some(Type::INSTANT))
        .count()
}
