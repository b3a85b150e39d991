//! An allocator that traces. Each allocation is recorded if possible and counted otherwise, and
//! nothing hangs or recurses.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.
#![allow(unsafe_code)] // An allocator is an unsafe trait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use judge::{Event, EventKind, ExtraSchema, judge};
use support::alone;
use tracezero::{InMemorySession, Session, counter, instant, span};

struct Tracing;

thread_local! {
    /// True if the allocations of this thread are traced.
    static TRACES: Cell<bool> = const { Cell::new(false) };
}

static TRACED: AtomicU64 = AtomicU64::new(0);

impl Tracing {
    fn trace(layout: Layout) {
        if TRACES.try_with(Cell::get).unwrap_or(false) {
            TRACED.fetch_add(3, Ordering::Relaxed);
            instant!("heap", "allocate", bytes = layout.size());
            counter!("heap", "last size", layout.size());
            tracezero_events::instant!("heap", "seen by a library", bytes = layout.size());
        }
    }
}

// SAFETY: each call is passed on to the system's allocator. Tracing before it does not unwind: it
// records only numbers. Allocations of the tracer itself do not recurse, because a trace point
// inside of another one only counts.
unsafe impl GlobalAlloc for Tracing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::trace(layout);
        // SAFETY: the caller keeps the contract of the method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of the method.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Tracing = Tracing;

#[test]
fn sessions_work_on_threads_whose_allocations_are_traced() {
    let _guard = alone();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tracing_allocator.pftrace");
    TRACES.set(true);
    for _ in 0..10 {
        let session = InMemorySession::start().unwrap();
        let to_file = Session::record_to_file(&path).unwrap();
        instant!("heap", "in between");
        assert!(session.control().flush());
        assert!(!session.control().stats().sequences.is_empty());
        assert!(session.control().snapshot().unwrap().events() > 0);
        assert_eq!(to_file.finish().unwrap().losses.dropped, 0);
        let (trace, _) = session.finish();
        TRACES.set(false);
        for trace in [trace, fs::read(&path).unwrap()] {
            let verdict = judge(&trace, &ExtraSchema::new()).unwrap();
            assert_eq!(verdict.events_named("in between").count(), 1);
        }
        TRACES.set(true);
    }
    TRACES.set(false);
}

#[test]
fn allocations_are_recorded_and_those_of_the_tracer_counted() {
    let _guard = alone();
    // The process's first trace point is inside the allocator, and itself allocates.
    TRACES.set(true);
    drop(black_box(vec![1_u8; 10]));
    TRACES.set(false);
    let session = InMemorySession::start().unwrap();
    TRACED.store(0, Ordering::Relaxed);
    let work = || {
        TRACES.set(true);
        for _ in 0..100 {
            let _span = span!("heap", "work", text = format!("{:>100}", "text"));
            drop(black_box(vec![1_u8; 1_000]));
        }
        TRACES.set(false);
    };
    let threads: Vec<_> = (0..2).map(|_| thread::spawn(work)).collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    work();
    let traced = TRACED.load(Ordering::Relaxed);
    let (trace, report) = session.finish();

    let verdict = judge(&trace, &ExtraSchema::new()).unwrap();
    let instants = verdict.events_named("allocate").count() as u64;
    let is_counter = |event: &&Event| event.kind == EventKind::Counter;
    let counters = verdict.events.iter().filter(is_counter).count() as u64;
    let by_library = verdict.events_named("seen by a library").count() as u64;
    let recorded = instants + counters + by_library;
    assert_eq!(verdict.events_named("work").count(), 300);
    let least = instants.min(counters).min(by_library);
    assert!(least >= 600, "{instants}, {counters}, {by_library}");
    // The tracer allocates inside of trace points; these nested events are lost.
    assert!(report.losses.nested > 0);
    assert_eq!(recorded + report.losses.nested, traced);
    assert_eq!(report.losses.total(), report.losses.nested);
}
