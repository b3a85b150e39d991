//! Copies of what a process records at full speed: each is whole, as if the process had been killed
//! then.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use judge::{ExtraSchema, judge};
use tracezero::crash::{LivingProcess, RecoveredTrace, living};

use crate::program::{Kind, Program, crash_directory, text};
use crate::recovered::recover_and_check;

/// The number of copies of each process.
const COPIES: u32 = 8;
/// The number of copies of a streamed session: its file soon has gigabytes.
const COPIES_OF_FILE: u32 = 2;

#[test]
fn copies_of_a_busy_process_have_no_gap() {
    for kind in [Kind::SmallRing, Kind::Discard, Kind::Streaming] {
        let directory = crash_directory(&format!("live-{kind:?}"));
        let program = Program::start(kind, &directory);
        let found = LivingProcess::find(program.pid()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(living(&directory).unwrap().len(), 1);
        let count = match kind {
            Kind::Streaming => COPIES_OF_FILE,
            _ => COPIES,
        };
        let copies: Vec<RecoveredTrace> = (0..count)
            .map(|number| {
                thread::sleep(Duration::from_millis(3));
                let path = directory.join(format!("{number}.pftrace"));
                found[0].copy_session(0, &path).unwrap()
            })
            .collect();
        let reported = program.kill();
        let mut packets = 0;
        for copy in copies {
            packets += check_copy(kind, &copy);
            fs::remove_file(copy.path).unwrap();
        }
        // If a small ring is overwritten as a whole while it is copied, the copy has nothing of it.
        assert!(
            packets > 0 || kind == Kind::SmallRing,
            "{kind:?}: no copy has packets"
        );
        // The copies have changed nothing.
        recover_and_check(kind, &directory, &reported);
    }
}

/// Checks that the packets of each thread are whole and follow one another. Returns their number.
fn check_copy(kind: Kind, trace: &RecoveredTrace) -> usize {
    assert_eq!(trace.damages, [] as [&str; 0], "{kind:?}");
    let bytes = fs::read(&trace.path).unwrap();
    let verdict = judge(&bytes, &ExtraSchema::new()).unwrap();
    let mut numbers: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for packet in verdict.packets.iter().filter(|it| it.has_for_testing()) {
        let event = packet.for_testing();
        let (thread, number) = (event.seq_value(), event.counter());
        assert!(
            event.str() == text(kind, thread, number),
            "{kind:?}, {thread}: {number} is damaged"
        );
        numbers.entry(thread).or_default().push(number);
    }
    for (thread, numbers) in &numbers {
        let is_from_the_start = [Kind::Discard, Kind::Streaming].contains(&kind);
        assert!(numbers[0] == 1 || !is_from_the_start, "{kind:?}, {thread}");
        let gap = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]);
        assert_eq!(gap, None, "{kind:?}, {thread}");
    }
    numbers.values().map(Vec::len).sum()
}
