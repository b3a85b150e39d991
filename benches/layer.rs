//! Measures what a span of `tracing` costs with the SDK's layer, from its creation to its end.
//!
//! `registry_only` is the cost of `tracing` and `tracing-subscriber` themselves, with a layer that
//! does nothing: without any layer, the registry keeps all spans. `no_session` is the cost with the
//! SDK's layer while no session records.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tracezero::InMemorySession;
use tracing::subscriber::with_default;
use tracing_subscriber::layer::{Identity, SubscriberExt as _};
use tracing_subscriber::registry;

/// A text of 16 bytes.
const TEXT: &str = "sixteen bytes ..";

fn span_0() {
    let _span = tracing::info_span!("span").entered();
}

fn span_3() {
    let (number, size, text) = black_box((7_u32, 1234_u64, TEXT));
    let _span = tracing::info_span!("span_3", number, size, text).entered();
}

fn event() {
    tracing::info!("event");
}

fn event_3() {
    let (number, size, text) = black_box((7_u32, 1234_u64, TEXT));
    tracing::info!(number, size, text, "event_3");
}

fn layer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("layer");
    with_default(registry().with(Identity::new()), || {
        group.bench_function("registry_only_0", |bencher| bencher.iter(span_0));
        group.bench_function("registry_only_3", |bencher| bencher.iter(span_3));
    });
    with_default(registry().with(tracezero::layer()), || {
        group.bench_function("no_session_0", |bencher| bencher.iter(span_0));
        group.bench_function("no_session_3", |bencher| bencher.iter(span_3));
        group.bench_function("no_session_event", |bencher| bencher.iter(event));
        let session = InMemorySession::start().expect("a session");
        group.bench_function("span_0", |bencher| bencher.iter(span_0));
        group.bench_function("span_3", |bencher| bencher.iter(span_3));
        group.bench_function("event", |bencher| bencher.iter(event));
        group.bench_function("event_3", |bencher| bencher.iter(event_3));
        let (_trace, report) = session.finish();
        println!("layer: {report}");
    });
    group.finish();
}

criterion_group!(benches, layer);
criterion_main!(benches);
