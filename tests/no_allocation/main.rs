//! Recording allocates nothing while a session runs, however large the packets are, and even if
//! they are lost. Only the queues of a trace buffer, one per writer, grow until the buffer has been
//! full once.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

mod forms; // all forms of events

use std::time::Duration;

use support::{Counting, allocations_of, alone};
use tracezero::{
    BufferConfig, DataSource as _, InMemorySession, Report, TraceConfig, counter, data_source,
    instant, span,
};

use self::forms::{FORMS, OF_TRACKS, record_forms};
use self::render::TracePacketExt as _;

mod render {
    protozero::include_protos!("render");
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Frames;
data_source!(Frames, "com.example.frames");

/// The number of rounds after which all chunks, rings and tables have been used.
const WARM_UP_ROUNDS: u32 = 2_000;
const ROUNDS: u32 = 20_000;

/// Returns a ring that overwrites. It holds 58 or 59 chunks, so a queue of chunks that had room for
/// 64 never grows again.
fn ring() -> BufferConfig {
    BufferConfig::ring(240)
}

/// A writer's queue of chunks doubles, until the trace buffer has been full once.
#[test]
fn filling_a_ring_allocates_only_when_a_queue_doubles() {
    let allocations = allocations_while_recording(BufferConfig::ring(1024 * 1024));
    assert!(allocations <= 8, "{allocations}");
}

#[test]
fn recording_into_a_ring_that_overwrites_allocates_nothing() {
    assert_eq!(allocations_while_recording(ring()), 0);
}

#[test]
fn recording_into_a_buffer_that_is_full_allocates_nothing() {
    assert_eq!(allocations_while_recording(BufferConfig::discard(256)), 0);
}

/// Records into a ring that overwrites, so names and tracks are defined again and again.
#[test]
fn no_form_of_event_allocates() {
    let _guard = alone();
    let session = record_into(ring());
    for (form, record) in FORMS {
        // First fills the whole ring with packets of this form. The service's queues then have
        // their largest size for this form, and do not grow below.
        (0..ROUNDS * 2).for_each(record);
        let allocations = allocations_of(|| (0..ROUNDS).for_each(record));
        assert_eq!(allocations, 0, "{form}");
    }
    let report = finish(session);
    assert!(report.losses.overwritten > 0, "{report}");
}

/// A track or name that is made for one event is on the heap.
#[test]
fn only_new_tracks_and_names_allocate() {
    let _guard = alone();
    let session = record_into(ring());
    for (form, record, allocations_per_call) in OF_TRACKS {
        (0..WARM_UP_ROUNDS * 4).for_each(record);
        let allocations = allocations_of(|| (0..ROUNDS).for_each(record));
        let expected = allocations_per_call * u64::from(ROUNDS);
        assert_eq!(allocations, expected, "{form}");
    }
    finish(session);
}

#[test]
fn trace_points_allocate_nothing_while_no_session_runs() {
    let _guard = alone();
    let record = |round| {
        record_all(round);
        record_forms(round);
        OF_TRACKS.iter().for_each(|(_, record, _)| record(round));
    };
    record(0); // registers the trace points
    assert_eq!(allocations_of(|| (0..1000).for_each(record)), 0);
}

#[test]
fn the_counting_allocator_counts() {
    assert_eq!(
        allocations_of(|| drop(std::hint::black_box(vec![1, 2, 3]))),
        1
    );
}

fn allocations_while_recording(buffer: BufferConfig) -> u64 {
    let _guard = alone();
    let session = record_into(buffer);
    (0..WARM_UP_ROUNDS).for_each(record_all);
    let allocations = allocations_of(|| (0..ROUNDS).for_each(record_all));
    let report = finish(session);
    assert!(report.packets_begun > u64::from(WARM_UP_ROUNDS + ROUNDS) * 6);
    allocations
}

fn record_into(buffer: BufferConfig) -> InMemorySession {
    let config = TraceConfig::empty().add_buffer(buffer).record_all();
    let session = config.record_in_memory().unwrap();
    // A thread allocates when it first waits for a lock. That might happen at any time, so it is
    // done here.
    assert!(!session.control().wait(Duration::from_millis(1)));
    session
}

fn finish(session: InMemorySession) -> Report {
    let (_, report) = session.finish();
    assert_eq!((report.losses.dropped, report.losses.nested), (0, 0));
    report
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
        let now = cx.now_ns();
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
