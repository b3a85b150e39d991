//! A flight recorder that is killed while a snapshot waits for the time after its request.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use judge::{ExtraSchema, judge};
use rustix::process::{Signal, getpid, kill_process};
use support::wait_for;
use tracezero::FlightRecorder;
use tracezero::crash::leftovers;

use crate::program::{DIRECTORY, Kind, crash_directory, write_packet};

/// The number of packets before the request.
const BEFORE: u64 = 100;
/// The number of packets after it, which lap the ring many times.
const AFTER: u64 = 20_000;

/// The program.
#[test]
#[ignore = "started by another test"]
fn is_killed_while_a_snapshot_waits() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let recorder = FlightRecorder::builder()
        .ring_kib(128)
        .crash_safe_in(&directory)
        .directory(env::temp_dir())
        .start()
        .unwrap();
    (1..=BEFORE).for_each(|number| write_packet(Kind::LargeRing, 0, number));
    let _saving = recorder
        .snapshot("slow")
        .after(Duration::from_secs(3600))
        .save_in_background();
    let session = fs::read_dir(&directory)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("s0");
    wait_for(|| session.join("part0").exists().then_some(())).expect("the part is taken");
    (1..=AFTER).for_each(|number| write_packet(Kind::LargeRing, 0, BEFORE + number));
    kill_process(getpid(), Signal::KILL).unwrap();
}

#[test]
fn what_came_before_a_request_survives_a_kill_while_it_waits() {
    let directory = crash_directory("flight");
    let status = Command::new(env::current_exe().unwrap())
        .args([
            "flight_recorder::is_killed_while_a_snapshot_waits",
            "--exact",
            "--ignored",
        ])
        .env(DIRECTORY, &directory)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    let leftover = leftovers(&directory).unwrap().remove(0);
    let trace = leftover.recover_into(&directory).unwrap().remove(0);
    assert_eq!(trace.damages, [] as [&str; 0]);
    let verdict = judge(&fs::read(&trace.path).unwrap(), &ExtraSchema::new()).unwrap();
    let packets = verdict.packets.iter().filter(|it| it.has_for_testing());
    let numbers: Vec<u64> = packets
        .map(|packet| packet.for_testing().counter())
        .collect();
    let (before, after) = numbers.split_at(BEFORE as usize);
    assert!(before.iter().copied().eq(1..=BEFORE), "{before:?}");
    // Of the packets after the request, the ring has only the newest.
    assert!(
        (100..AFTER as usize).contains(&after.len()),
        "{}",
        after.len()
    );
    assert_eq!(after.last(), Some(&(BEFORE + AFTER)));
    assert!(after.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    leftover.delete().unwrap();
    fs::remove_dir_all(&directory).unwrap();
}

/// Another program: saves what the last run left, says what it has saved, and is killed.
#[test]
#[ignore = "started by another test"]
fn recovers_its_last_run() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let _recorder = FlightRecorder::builder()
        .crash_safe_in(Path::new(&directory).join("crash"))
        .recover_on_start()
        .directory(&directory)
        .on_saved(|name, outcome| println!("{name}: {}", outcome.is_ok()))
        .start()
        .unwrap();
    write_packet(Kind::LargeRing, 0, 1);
    kill_process(getpid(), Signal::KILL).unwrap();
}

#[test]
fn a_recorder_saves_what_its_last_run_left() {
    let directory = crash_directory("recovers");
    fs::create_dir_all(&directory).unwrap();
    for run in 0..3 {
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "flight_recorder::recovers_its_last_run",
                "--exact",
                "--ignored",
            ])
            .arg("--nocapture")
            .env(DIRECTORY, &directory)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            said.matches("crashed: true").count(),
            usize::from(run > 0),
            "{said}"
        );
        let is_snapshot = |entry: &fs::DirEntry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("flight-crashed-")
        };
        let entries = fs::read_dir(&directory).unwrap().map(Result::unwrap);
        let snapshots: Vec<_> = entries.filter(is_snapshot).collect();
        assert_eq!(snapshots.len(), run);
        for snapshot in snapshots {
            let trace = fs::read(snapshot.path()).unwrap();
            let verdict = judge(&trace, &ExtraSchema::new()).unwrap();
            assert_eq!(
                verdict
                    .packets
                    .iter()
                    .filter(|it| it.has_for_testing())
                    .count(),
                1
            );
        }
        assert_eq!(fs::read_dir(directory.join("crash")).unwrap().count(), 1);
    }
    fs::remove_dir_all(&directory).unwrap();
}
