//! Measures what an event costs the thread that records it into a ring in memory.
//!
//! `clock` is one read of the clock that events use. All but `disabled` and `data_source_packet`
//! take at least that long; a span reads the clock twice.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tracezero::{Clock, DataSource, InMemorySession, clock, counter, data_source, instant, span};

/// A text of 16 bytes.
const TEXT: &str = "sixteen bytes ..";

/// The number of threads that record in parallel in the throughput benchmark.
const THREADS: u64 = 2;

struct Packets;
data_source!(Packets, "com.example.packets");

fn record_instant() {
    instant!("bench", "instant");
}

fn record_instant_of_library() {
    tracezero_events::instant!("bench", "of_library");
}

fn event(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event");
    group.bench_function("disabled", |bencher| bencher.iter(record_instant));
    group.bench_function("library_disabled", |bencher| {
        bencher.iter(record_instant_of_library);
    });

    let session = InMemorySession::start().expect("a session");
    group.bench_function("clock", |bencher| bencher.iter(clock::now_ns));
    group.bench_function("instant", |bencher| bencher.iter(record_instant));
    group.bench_function("span", |bencher| {
        bencher.iter(|| {
            let _span = span!("bench", "span");
        });
    });
    group.bench_function("span_3_args", |bencher| {
        bencher.iter(|| {
            let (number, size, text) = black_box((7, 1234_u64, TEXT));
            let _span = span!(
                "bench",
                "span_3_args",
                number = number,
                size = size,
                text = text
            );
        });
    });
    group.bench_function("library_instant", |bencher| {
        bencher.iter(record_instant_of_library);
    });
    group.bench_function("library_span", |bencher| {
        bencher.iter(|| {
            let _span = tracezero_events::span!("bench", "library_span");
        });
    });
    group.bench_function("library_span_3_args", |bencher| {
        bencher.iter(|| {
            let (number, size, text) = black_box((7, 1234_u64, TEXT));
            let _span = tracezero_events::span!("bench", "library_span_3_args", number, size, text);
        });
    });
    group.bench_function("counter", |bencher| {
        bencher.iter(|| counter!("bench", "counter", black_box(1234)));
    });
    group.bench_function("data_source_packet", |bencher| {
        bencher.iter(|| {
            Packets::trace(|cx| {
                cx.packet(|packet| {
                    packet.set_timestamp(42);
                    packet.for_testing(|event| {
                        event.set_str(black_box(TEXT));
                    });
                });
            });
        });
    });

    match Clock::Tsc.use_for_events() {
        Ok(()) => {
            group.bench_function("span_tsc", |bencher| {
                bencher.iter(|| {
                    let _span = span!("bench", "span");
                });
            });
        }
        Err(error) => println!("event/span_tsc: {error}"),
    }
    Clock::Boottime
        .use_for_events()
        .expect("the system's clock is always there");

    // The events per second of all threads together, to compare with one thread.
    for threads in [1, THREADS] {
        group.throughput(Throughput::Elements(threads));
        group.bench_function(format!("instants_by_{threads}_threads"), |bencher| {
            bencher.iter_custom(|iterations| {
                let start = Instant::now();
                thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| (0..iterations).for_each(|_| record_instant()));
                    }
                });
                start.elapsed()
            });
        });
    }
    group.finish();

    let (_trace, report) = session.finish();
    println!("event: {report}");
}

criterion_group!(benches, event);
criterion_main!(benches);
