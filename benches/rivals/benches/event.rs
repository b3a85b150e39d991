//! Measures what an event costs the thread that records it, with each SDK.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use rivals::fastrace::Fastrace;
use rivals::perfetto_recorder::PerfettoRecorder;
use rivals::perfetto_sdk::PerfettoSdk;
use rivals::tracezero::Tracezero;
use rivals::tracing_chrome::TracingChrome;
use rivals::{BATCH, Recording};

/// A text of 16 bytes.
const TEXT: &str = "sixteen bytes ..";

fn event(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event");
    // The warm-up is long enough to fill a ring once. Until a ring is full, each write goes to
    // memory that was never used, which costs page faults.
    group.warm_up_time(Duration::from_secs(3));
    group.measurement_time(Duration::from_secs(2));
    // Disabled trace points are measured first, because some SDKs cannot be stopped once they are
    // started.
    disabled::<Tracezero>(&mut group);
    disabled::<PerfettoSdk>(&mut group);
    disabled::<PerfettoRecorder>(&mut group);
    disabled::<Fastrace>(&mut group);
    disabled::<TracingChrome>(&mut group);

    recorded::<Tracezero>(&mut group);
    recorded::<PerfettoSdk>(&mut group);
    recorded::<PerfettoRecorder>(&mut group);
    recorded::<Fastrace>(&mut group);
    recorded::<TracingChrome>(&mut group);
    group.finish();
}

fn disabled<R: Recording>(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.bench_function(BenchmarkId::new("disabled", R::SDK), |bencher| {
        bencher.iter(R::span);
    });
}

fn recorded<R: Recording>(group: &mut BenchmarkGroup<'_, WallTime>) {
    let mut recording = R::start();
    if R::HAS_INSTANTS {
        record(group, "instant", &mut recording, R::instant);
    }
    record(group, "span", &mut recording, R::span);
    record(group, "span_3_args", &mut recording, || {
        let (number, size, text) = black_box((7, 1234, TEXT));
        R::span_3_args(number, size, text);
    });
    recording.finish();
}

/// Measures whole batches, although an iteration is one event.
fn record<R: Recording>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    form: &str,
    recording: &mut R,
    record: impl Fn(),
) {
    group.bench_function(BenchmarkId::new(form, R::SDK), |bencher| {
        bencher.iter_custom(|iterations| {
            let batches = iterations.div_ceil(BATCH.into());
            let duration: Duration = (0..batches).map(|_| recording.time_batch(&record)).sum();
            let events = batches * u64::from(BATCH);
            duration.mul_f64(iterations as f64 / events as f64)
        });
    });
}

criterion_group!(benches, event);
criterion_main!(benches);
