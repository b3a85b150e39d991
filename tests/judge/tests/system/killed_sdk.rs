//! Producers of Perfetto's own SDK that are killed.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use judge::{ExtraSchema, Options, judge_with};

use crate::machine::Machine;
use crate::recordings::EVERYTHING;
use crate::restarts::{MORE_KIB, kills};

/// The time until a producer is killed. It connects within 10 ms, and records from then on.
const KILLED_WITHIN: Duration = Duration::from_millis(40);

/// The number of producers in one recording.
const PER_RECORDING: usize = 20;

/// The number of recordings after which the daemon's memory stays as it is.
const WARM_UP: usize = 3;

#[test]
#[ignore = "needs sdk_producer: ci/interop.sh runs it"]
fn what_a_killed_sdk_has_recorded_is_in_the_trace_without_a_gap() {
    let machine = Machine::start().expect("the programs are there");
    let (mut recorded, mut level) = (0, None);
    let runs = Vec::from_iter(0..kills());
    for (index, part) in runs.chunks(PER_RECORDING).enumerate() {
        let recording = machine.record("killed.pftrace", EVERYTHING);
        machine.wait_for_session("STARTED");
        for _ in part {
            let producer = machine
                .sdk_producer(&["1", "1000000", "stalldrop"])
                .unwrap();
            thread::sleep(KILLED_WITHIN.mul_f64(fastrand::f64()));
            producer.kill();
        }
        machine.wait_for_producers(0);
        let options = Options {
            allow_open_spans: true,
            ..Options::default()
        };
        let verdict = judge_with(&recording.finish(), &ExtraSchema::new(), options).unwrap();
        let mut indices: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for event in verdict.events_named("work") {
            let index = event.args["index"].as_u64().unwrap();
            indices.entry(event.sequence_id).or_default().push(index);
        }
        for (sequence, indices) in &indices {
            let whole = 0..indices.len() as u64;
            assert!(indices.iter().copied().eq(whole), "a gap in {sequence}");
        }
        recorded += indices.len();
        let stats = verdict.trace_stats.as_ref().unwrap();
        assert_eq!(stats.invalid_packets(), 0);
        let now = machine.possessions();
        // The allocator keeps what the first recordings have touched.
        if index >= WARM_UP {
            now.check_level(*level.get_or_insert(now), MORE_KIB);
        }
    }
    // Most have lived long enough.
    assert!(recorded * 2 > runs.len(), "{recorded} of {}", runs.len());
}
