//! After a loss, new events are readable at once: the definitions of lost packets are written
//! again.

use std::sync::mpsc;
use std::thread;

use judge::{ExtraSchema, judge};
use tracezero::{BufferConfig, TraceConfig, instant, span};

/// The number of chunks in one page of shared memory.
const CHUNKS: usize = 14;

/// There is one page of shared memory. While threads hold its chunks, other threads drop packets.
#[test]
fn events_after_a_drop_are_readable_and_drops_are_counted() {
    let session = TraceConfig::empty()
        .add_buffer(BufferConfig::ring(1024))
        .record_all()
        .shared_memory(4, 4)
        .record_in_memory()
        .expect("the first session of this process");

    let (chunk_is_held, held) = mpsc::channel::<()>();
    let holders: Vec<_> = (0..CHUNKS)
        .map(|_| {
            let chunk_is_held = chunk_is_held.clone();
            let (release, released) = mpsc::channel::<()>();
            let holder = thread::spawn(move || {
                instant!("test", "holder");
                chunk_is_held.send(()).expect("the test waits");
                released.recv().expect("the test sends");
            });
            held.recv().expect("the holder sends");
            (release, holder)
        })
        .collect();
    for attempt in 0..10 {
        instant!("test", "event", attempt = attempt);
    }
    for (release, holder) in holders {
        release.send(()).expect("the holder waits");
        holder.join().expect("no panic");
    }
    // The page is free now. A writer that drops packets tries to get a chunk at each packet.
    for attempt in 10..20 {
        let _span = span!("test", "event", attempt = attempt);
    }

    let (trace, report) = session.finish();
    assert!(report.losses.dropped >= 10, "{report}");
    assert_eq!(report.losses.total(), report.losses.dropped, "{report}");
    assert_eq!(
        report.packets_begun,
        report.packets_read + report.losses.dropped
    );
    let verdict = judge(&trace, &ExtraSchema::new()).expect("a valid trace");
    let attempts: Vec<_> = verdict
        .events_named("event")
        .map(|event| event.args["attempt"].as_i64().expect("an integer"))
        .collect();
    assert_eq!(attempts, Vec::from_iter(10..20));
    let reasons: Vec<_> = verdict.losses.iter().map(|loss| loss.reasons).collect();
    let shared_memory_full = 1 | 256;
    assert_eq!(reasons, [shared_memory_full]);
}
