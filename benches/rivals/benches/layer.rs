//! Measures what a span or event of `tracing` costs the thread that records it, with the layers of
//! several SDKs. `registry` is the cost of `tracing` and `tracing-subscriber` themselves, with a
//! layer that does nothing: without any layer, the registry keeps all spans.
//!
//! `tracing-chrome` is in `event.rs`.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use rivals::Recording;
use rivals::perfetto_sdk::PerfettoSdk;
use rivals::tracezero::Tracezero;
use tracing::subscriber::with_default;
use tracing::{Subscriber, info, info_span};
use tracing_subscriber::layer::{Identity, SubscriberExt as _};
use tracing_subscriber::registry;

/// A text of 16 bytes.
const TEXT: &str = "sixteen bytes ..";

fn layer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("layer");
    // The warm-up is long enough to fill a ring once, so that writes to new memory are not
    // measured.
    group.warm_up_time(Duration::from_secs(3));
    group.measurement_time(Duration::from_secs(2));

    measure(&mut group, "registry", registry().with(Identity::new()));

    let ours = || registry().with(tracezero::layer());
    measure(&mut group, "tracezero, no session", ours());
    let recording = Tracezero::start();
    measure(&mut group, "tracezero", ours());
    recording.finish();

    let official = || registry().with(tracing_perfetto_sdk::PerfettoLayer::new());
    tracing_perfetto_sdk::init_in_process();
    measure(&mut group, "tracing-perfetto-sdk, no session", official());
    let recording = PerfettoSdk::start_session();
    measure(&mut group, "tracing-perfetto-sdk", official());
    recording.finish();

    let to_nowhere = tracing_perfetto::PerfettoLayer::new(io::sink).with_debug_annotations(true);
    measure(&mut group, "tracing-perfetto", registry().with(to_nowhere));
    group.finish();
}

fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    subscriber: impl Subscriber + Send + Sync + 'static,
) {
    with_default(subscriber, || {
        group.bench_function(BenchmarkId::new("span", name), |bencher| {
            bencher.iter(|| {
                let _span = info_span!(target: "bench", "span").entered();
            });
        });
        group.bench_function(BenchmarkId::new("span_3_fields", name), |bencher| {
            bencher.iter(|| {
                let (number, size, text) = black_box((7, 1234_u64, TEXT));
                let _span =
                    info_span!(target: "bench", "span_3_fields", number, size, text).entered();
            });
        });
        group.bench_function(BenchmarkId::new("event", name), |bencher| {
            bencher.iter(|| info!(target: "bench", "event"));
        });
    });
}

criterion_group!(benches, layer);
criterion_main!(benches);
