//! While a session runs, recording allocates nothing, however large the packets are and whatever
//! becomes of them; only the queues of a central buffer, one per writer, grow as it fills up for the
//! first time.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.
#![allow(unsafe_code)] // An allocator is an unsafe trait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tracezero::{BufferConfig, DataSource as _, TraceConfig, counter, data_source, instant, span};

use self::schema::TracePacketExt as _;

mod schema {
    protozero::include_protos!("render");
}

struct Frames;
data_source!(Frames, "com.example.frames");

/// Enough for chunks, rings and tables to have been used all over.
const WARM_UP_ROUNDS: u32 = 2_000;
const ROUNDS: u32 = 20_000;

/// The queue of a writer's chunks doubles until the central buffer has been full once.
#[test]
fn recording_into_a_ring_that_still_fills_up_allocates_only_when_a_queue_doubles() {
    let allocations = allocations_while_recording(BufferConfig::ring(1024 * 1024));
    assert!(allocations <= 8, "{allocations}");
}

#[test]
fn recording_into_a_ring_that_overwrites_allocates_nothing() {
    assert_eq!(allocations_while_recording(BufferConfig::ring(256)), 0);
}

#[test]
fn recording_into_a_buffer_that_is_full_allocates_nothing() {
    assert_eq!(allocations_while_recording(BufferConfig::discard(256)), 0);
}

#[test]
fn trace_points_allocate_nothing_while_no_session_runs() {
    let _guard = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    record_all(0); // registers the trace points
    assert_eq!(allocations_of(|| (0..1000).for_each(record_all)), 0);
}

#[test]
fn the_counting_allocator_counts() {
    assert_eq!(
        allocations_of(|| drop(std::hint::black_box(vec![1, 2, 3]))),
        1
    );
}

/// Sessions are of the whole process.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn allocations_while_recording(buffer: BufferConfig) -> u64 {
    let _guard = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let config = TraceConfig::new().buffer(buffer).record_all();
    let session = config.record_in_memory().unwrap();
    (0..WARM_UP_ROUNDS).for_each(record_all);
    let allocations = allocations_of(|| (0..ROUNDS).for_each(record_all));
    let (_, report) = session.finish();
    assert!(report.packets_begun > u64::from(WARM_UP_ROUNDS + ROUNDS) * 6);
    assert_eq!((report.losses.dropped, report.losses.nested), (0, 0));
    allocations
}

fn record_all(round: u32) {
    let _span = span!("work", "round", number = round, ratio = 0.5, path = "a/b/c");
    instant!("work", "point", even = round.is_multiple_of(2));
    counter!("work", "rounds", round);
    counter!("work", "share", f64::from(round) / 7.0);
    record_frame(round, 1);
    if round.is_multiple_of(64) {
        record_frame(round, 500); // more than a chunk holds
    }
}

fn record_frame(number: u32, passes: u32) {
    Frames::trace(|cx| {
        let now = cx.now();
        cx.packet(|packet| {
            packet.set_timestamp(now);
            packet.frame(|frame| {
                frame.set_number(number);
                for pass in 0..passes {
                    frame.add_passes(|out| {
                        out.set_name("shadows").set_duration_ns(u64::from(pass));
                    });
                }
                frame.set_triangles(0..passes);
            });
        });
    });
}

thread_local! {
    /// Allocations of this thread so far.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator; counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}
