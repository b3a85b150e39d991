//! All kinds of trace points, in a program that is built with `--cfg tracezero_off`.
//!
//! The compiler gives no warning, although most values are used only in macros. Nothing is
//! evaluated: each value comes from [`Witness`], which counts evaluations.

#![deny(warnings)]

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tracezero::{
    CaptureHandle, CapturedFuture, CounterTrack, DataSource, Flow, Setup, Starting,
    TraceFuture as _, Track, async_span, begin, counter, data_source, dict, enabled, end, instant,
    span, trace,
};

static EVALUATIONS: AtomicU64 = AtomicU64::new(0);

/// A source of values that counts evaluations, in the whole program.
#[derive(Clone, Copy, Default)]
pub struct Witness;

impl Witness {
    /// Returns how often a value was evaluated, in the whole program.
    pub fn evaluations() -> u64 {
        // Relaxed: a count that orders no other memory.
        EVALUATIONS.load(Ordering::Relaxed)
    }

    /// Counts an evaluation, and returns the value.
    pub fn value<T>(self, value: T) -> T {
        // Relaxed: a count that orders no other memory.
        EVALUATIONS.fetch_add(1, Ordering::Relaxed);
        value
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.value("text"))
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A data source without callbacks.
pub struct Probe;
data_source!(Probe, "com.example.probe");

/// A data source with callbacks, which are never called.
pub struct Sampler;

impl DataSource for Sampler {
    const NAME: &'static str = "com.example.sampler";
    type ThreadState = u32;
    type IncrementalState = u32;
    tracezero::data_source_state!(Sampler);

    fn on_setup(_: &Setup<'_>) -> Self {
        Witness.value(Self)
    }

    fn on_start(&self, starting: Starting) {
        Witness.value(());
        drop(starting);
    }
}

/// Reaches all trace points.
pub fn record_all() {
    spans();
    points();
    counters();
    packets();
    traced(&Witness);
    events_of_libraries();
}

fn events_of_libraries() {
    let w = Witness;
    let only_for_the_trace = 1;
    let _literal = tracezero_events::span!("off", "span", only_for_the_trace, value = w.value(1));
    let named = tracezero_events::span!("off", w.value(String::from("name")), %w, ?w);
    tracezero_events::end!(named, value = w.value(2));
    tracezero_events::instant!("off", "instant", value = w.value(1));
    tracezero_events::counter!("off", "counter", w.value(1));
    if tracezero_events::enabled!("off") {
        w.value(());
    }
}

fn spans() {
    let w = Witness;
    let only_for_the_trace = 1;
    let _literal = span!("off", "span", only_for_the_trace, value = w.value(1));
    let _named = span!("off", w.value(String::from("name")), flow: &w.value(Flow::new()));
    let _placed = span!("off", "span", at: w.value(1_u64), %w, ?w);
    let _on_track = span!("off", "span", track: &w.value(Track::unique("track")));
    span!("off", "at once").end_at(1);
    end!(span!("off", "with a result"), value = w.value(2), %w);
    end!(span!("off", "elsewhere", track: &w.value(Track::unique("track"))), value = w.value(2));
    begin!("off", "begin", w = %w);
    end!("off", value = w.value("text"));
    begin!("off", w.value("name"), track: &w.value(Track::new("track")), at: w.value(1));
    end!("off", track: &w.value(Track::new("track")), at: w.value(2));
}

fn points() {
    let w = Witness;
    let (path, error) = ("path", std::io::Error::other("no such luck"));
    instant!("off", "instant");
    instant!("off, grouped", "instant", path, %error, array = w.value([1, 2]));
    instant!("off", format!("instant {w}"), last_flow: &w.value(Flow::for_process(1)));
    instant!("off", "instant", entries = dict(|entries| {
        entries.add("value", &w.value(true));
    }));
    instant!("off", "instant", fields: |event| {
        event.set_name(w.value("name"));
    });
    if enabled!("off") {
        w.value(());
    }
}

fn counters() {
    let w = Witness;
    counter!("off", "literal", w.value(1));
    counter!("off", "literal", w.value(0.5), at: w.value(1));
    counter!("off", &w.value(CounterTrack::new("track")), w.value(1));
}

fn packets() {
    let w = Witness;
    Probe::trace(|cx| {
        w.value(());
        cx.packet(|packet| {
            packet.for_testing(|event| {
                event.set_str(w.value("text"));
            });
        });
    });
    if Sampler::is_enabled() {
        w.value(());
    }
    Sampler::trace(|cx| {
        let count = w.value(*cx.thread_state());
        cx.incremental_packet(|packet, last| {
            packet.set_timestamp(w.value(1));
            *last += count;
        });
    });
}

#[trace]
fn traced(_: &Witness) {}

/// Has the attribute `trace`, with arguments. Returns the sum.
#[trace("off", name = "sum", args(w = %w, value = w.value(left), right), result = Witness.value(*result))]
pub fn traced_sum(w: &Witness, left: u64, right: u64) -> u64 {
    left + right
}

/// Has the attribute `trace`, and awaits `other`.
#[trace("off", args(value = w.value(1), ?w), result = Witness.value(*result))]
pub async fn traced_await(w: &Witness, other: impl Future<Output = u64>) -> u64 {
    other.await
}

/// Runs `work` on a thread of its own, which tests capture. Returns the result.
pub fn on_another_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let capture = CaptureHandle::current();
    let attached = move || {
        let _attached = capture.map(CaptureHandle::attach);
        work()
    };
    thread::scope(|scope| scope.spawn(attached).join().expect("no panic"))
}

/// Returns the future, or, as an error, the future wrapped by the capture of this thread.
pub fn for_a_runtime<F: Future>(future: F) -> Result<F, CapturedFuture<F>> {
    match CaptureHandle::current() {
        Some(handle) => Err(handle.wrap_future(future)),
        None => Ok(future),
    }
}

/// Returns `other` with a span.
pub fn traced_future<T>(w: &Witness, other: impl Future<Output = T>) -> impl Future<Output = T> {
    let only_for_the_trace = 1;
    let span = async_span!("off", "future", only_for_the_trace, value = w.value(1), %w,
        flow: &w.value(Flow::new()), track: &w.value(Track::new("track")));
    let named = async_span!("off", w.value(String::from("name")), ?w);
    let ended = other.traced(span).end_with(|_, span| end!(span, value = Witness.value(1)));
    ended.traced(named)
}
