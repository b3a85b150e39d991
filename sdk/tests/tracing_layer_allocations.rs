//! Spans and events of `tracing` allocate nothing in the layer, once its slots and buffers have
//! been used.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use support::{Counting, allocations_of, alone};
use tracezero::{BufferConfig, TraceConfig};
use tracing::field::Empty;
use tracing::{Level, event, info, info_span, trace};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP_ROUNDS: u32 = 4_000;
const ROUNDS: u32 = 20_000;

/// A function that records some spans and events, given the number of the round.
type Record = fn(u32);

const FORMS: [(&str, Record); 6] = [
    ("spans", spans),
    ("values that come later", late_values),
    ("spans left out of order", out_of_order),
    ("events", events),
    ("counters", counters),
    ("records of log", log_records),
];

fn spans(round: u32) {
    let _outer = info_span!("outer").entered();
    let _middle = info_span!("middle", round, text = "sixteen bytes ..", ratio = 0.5).entered();
    let _inner = info_span!("inner", debug = ?Some(round), display = %round).entered();
}

fn late_values(round: u32) {
    let span = info_span!("late", early = Empty, late = Empty);
    span.record("early", round);
    let _entered = span.enter();
    span.record("late", round);
}

fn out_of_order(_: u32) {
    let outer = info_span!("outer").entered();
    let inner = info_span!("inner").entered();
    drop(outer);
    drop(inner);
}

fn events(round: u32) {
    info!("constant");
    info!(round, "message {round}");
}

fn counters(round: u32) {
    trace!(counter.rounds = round);
}

/// Records events as the crate `tracing-log` does.
fn log_records(round: u32) {
    event!(
        name: "log event",
        target: "log",
        Level::INFO,
        log.target = "library",
        log.file = "library.rs",
        log.line = 17,
        "message {round}"
    );
}

/// Records into a ring that overwrites, so names are defined again and again.
#[test]
fn spans_and_events_of_threads_allocate_nothing() {
    let _alone = alone();
    let subscriber = registry().with(tracezero::layer());
    tracing::subscriber::with_default(subscriber, || {
        let config = TraceConfig::empty().add_buffer(BufferConfig::ring(256));
        let session = config.record_all().record_in_memory().unwrap();
        for (form, record) in FORMS {
            (0..WARM_UP_ROUNDS * 4).for_each(record);
            let allocations = allocations_of(|| (0..ROUNDS).for_each(record));
            assert_eq!(allocations, 0, "{form}");
        }
        let (_, report) = session.finish();
        assert_eq!((report.losses.dropped, report.losses.nested), (0, 0));
        assert!(report.losses.overwritten > 0, "{report}");
    });
}

/// The allocation is for the span's track.
#[test]
fn a_span_that_is_entered_again_allocates_once() {
    let record = |_| {
        let span = info_span!("again", number = 1);
        for _ in 0..4 {
            span.in_scope(|| ());
        }
    };
    let _alone = alone();
    let subscriber = registry().with(tracezero::layer());
    tracing::subscriber::with_default(subscriber, || {
        let config = TraceConfig::empty().add_buffer(BufferConfig::ring(256));
        let session = config.record_all().record_in_memory().unwrap();
        (0..WARM_UP_ROUNDS).for_each(record);
        let allocations = allocations_of(|| (0..ROUNDS).for_each(record));
        assert_eq!(allocations, u64::from(ROUNDS));
        drop(session);
    });
}
