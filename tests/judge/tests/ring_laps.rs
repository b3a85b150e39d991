//! A ring that has lapped: what is left of it can be read by itself.

use judge::{ExtraSchema, Options, judge_with};
use tracezero::{BufferConfig, TraceConfig, counter, instant};

#[test]
fn the_newest_events_of_a_ring_are_readable_however_often_it_has_lapped() {
    const EVENTS: i64 = 100_000;
    let session = TraceConfig::new()
        .buffer(BufferConfig::ring(64))
        .record_all()
        .record_in_memory()
        .expect("a session");
    for number in 0..EVENTS {
        instant!("test", "numbered", number = number);
        counter!("test", "count", number);
    }
    let (trace, report) = session.finish();
    assert!(report.losses.overwritten > 0, "{report}");

    let options = Options {
        allow_unreadable_after_loss: true,
        ..Options::default()
    };
    let verdict = judge_with(&trace, &ExtraSchema::new(), options).expect("a valid trace");
    let numbers: Vec<_> = verdict
        .events_named("numbered")
        .map(|event| event.args["number"].as_i64().expect("an integer"))
        .collect();
    // At most the oldest quarter lacks what it builds on.
    assert!(
        verdict.events.len() as u64 >= report.events * 7 / 10,
        "{} of {} events are readable",
        verdict.events.len(),
        report.events
    );
    let first = EVENTS - numbers.len() as i64;
    assert_eq!(numbers, Vec::from_iter(first..EVENTS));
}
