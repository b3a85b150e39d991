//! Copies of what a process records at full speed: each is whole, as if the process had been killed
//! then.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use judge::{ExtraSchema, judge};
use rustix::process::{Pid, Signal, kill_process};
use support::wait_for;
use tracezero::crash::{LivingProcess, RecoveredTrace, living};

use crate::program::{Kind, Program, crash_directory, text};
use crate::recovered::recover_and_check;

/// The number of copies of each process.
const COPIES: u32 = 8;

#[test]
fn copies_of_a_busy_process_have_no_gap() {
    for kind in [Kind::SmallRing, Kind::Discard] {
        let directory = crash_directory(&format!("live-{kind:?}"));
        let program = Program::start(kind, &directory);
        let found = LivingProcess::find(program.pid()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(living(&directory).unwrap().len(), 1);
        let mut packets = 0;
        for number in 0..COPIES {
            thread::sleep(Duration::from_millis(3));
            let path = directory.join(format!("{number}.pftrace"));
            let trace = found[0].copy_session(0, &path).unwrap();
            packets += check_copy(kind, &trace);
            fs::remove_file(path).unwrap();
        }
        // If a small ring is overwritten as a whole while it is copied, the copy has nothing of it.
        assert!(
            packets > 0 || kind == Kind::SmallRing,
            "{kind:?}: no copy has packets"
        );
        // The copies have changed nothing.
        let reported = program.kill();
        recover_and_check(kind, &directory, &reported);
    }
}

/// The file would have gigabytes if the process went on meanwhile.
#[test]
fn a_copy_of_a_stopped_process_has_its_file_and_its_ring() {
    let kind = Kind::Streaming;
    let directory = crash_directory("live-stopped");
    let program = Program::start(kind, &directory);
    let file = directory.join("streamed.pftrace");
    let is_written = || {
        let len = fs::metadata(&file).map_or(0, |file| file.len());
        (len > 100_000).then_some(())
    };
    wait_for(is_written).expect("the program writes");
    let pid = Pid::from_raw(program.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let process = LivingProcess::find(program.pid()).unwrap().remove(0);
    let path = directory.join("copy.pftrace");
    let trace = process.copy_session(0, &path).unwrap();
    assert!(check_copy(kind, &trace) > 0);
    fs::remove_file(path).unwrap();
    let reported = program.kill();
    recover_and_check(kind, &directory, &reported);
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
