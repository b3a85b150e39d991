//! A table of endings: of the program, and of the command.

use std::process::Command;

use judge::Options;
use rustix::process::Signal;

use crate::program::{FAILS_WITH, MANY_PACKETS, command};
use crate::recording::{Recorded, Recording};

/// Enough bytes in the file that it has events of the program.
const EVENTS_BYTES: u64 = 4096;

/// Returns a program that a shell starts after a command of its own.
fn after(shell_command: &str, role: &str) -> Command {
    let program = command(role);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{shell_command}; exec \"$0\" \"$@\"")]);
    shell.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell
}

/// Starts a recording that has events of the program, and sends a signal to the command alone.
fn signalled(program: &Command, signal: Signal) -> Recorded {
    let recording = Recording::start(&[], program);
    recording.wait_for_bytes(EVENTS_BYTES);
    recording.signal(signal);
    recording.finish()
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    for (role, status) in [("one event", 0), ("fails", FAILS_WITH), ("aborts", 128 + 6)] {
        let recorded = Recorded::of(&[], &command(role));
        assert_eq!(recorded.status.code(), Some(status), "{}", recorded.said);
        let options = Options {
            allow_killed_programs: true,
            ..Options::default()
        };
        assert_eq!(recorded.judged_with(options).events_named("one").count(), 1);
    }
}

/// Patches that were not sent end with the process. Each costs the packet that waits for it, and no other.
#[test]
fn a_data_source_that_aborts_at_full_speed_loses_next_to_nothing() {
    let recorded = Recorded::of(&[], &command("many packets, then aborts"));
    let options = Options {
        allow_killed_programs: true,
        ..Options::default()
    };
    let verdict = recorded.judged_with(options);
    let packets = verdict.packets.iter();
    let numbers = packets.filter(|packet| packet.has_for_testing());
    let numbers: Vec<u64> = numbers
        .map(|packet| packet.for_testing().seq_value().into())
        .collect();
    assert!(numbers.is_sorted());
    assert!(numbers.last().unwrap() + 10 > MANY_PACKETS);
    let missing = MANY_PACKETS - numbers.len() as u64;
    assert!(missing < MANY_PACKETS / 100, "{missing} are missing");
}

#[test]
fn a_program_that_cannot_be_started_leaves_no_file() {
    for (program, status) in [("/nonexistent", 127), ("/", 126)] {
        let recorded = Recorded::of(&[], &Command::new(program));
        assert_eq!(recorded.status.code(), Some(status));
        recorded.assert_says("cannot be started");
        assert!(!recorded.has_file());
    }
}

#[test]
fn a_mistyped_option_is_no_program() {
    let recorded = Recorded::of(&["--ouput", "x"], &Command::new("true"));
    assert_eq!(recorded.status.code(), Some(2));
    recorded.assert_says("unexpected argument '--ouput'");
}

#[test]
fn a_trace_stays_until_a_recording_replaces_it() {
    let recorded = Recorded::of(&[], &command("one event"));
    let recorded = recorded.again(&[], &Command::new("/nonexistent"));
    assert_eq!(recorded.status.code(), Some(127));
    assert_eq!(recorded.judged().events_named("one").count(), 1);
    let recorded = recorded.again(&[], &command("spans"));
    assert_eq!(recorded.judged().events_named("one").count(), 0);
}

#[test]
fn a_program_that_starts_after_the_recording_does_not_wait() {
    let program = after("sleep 0.6", "first event at once");
    let recorded = Recorded::of(&["-t", "200ms"], &program);
    // It says with another status that it has waited.
    assert_eq!(recorded.status.code(), Some(3), "{}", recorded.said);
    assert!(!recorded.said.contains("not recorded"), "{}", recorded.said);
}

#[test]
fn nothing_recorded_is_an_exit_status_of_its_own() {
    let recorded = Recorded::of(&[], &Command::new("true"));
    assert_eq!(recorded.status.code(), Some(3));
    recorded.assert_says("nothing was recorded: a program records once");
    // It is said while the program runs, too.
    let recorded = Recorded::of(&[], &command("silent"));
    assert_eq!(recorded.status.code(), Some(3));
    recorded.assert_says("nothing is recorded yet");
    // A status of the program comes first.
    let recorded = Recorded::of(&[], &Command::new("false"));
    assert_eq!(recorded.status.code(), Some(1));
}

#[test]
fn signals_end_the_program_and_complete_the_file() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let recorded = signalled(&command("endless"), signal);
        assert_eq!(
            recorded.status.code(),
            Some(128 + number),
            "{}",
            recorded.said
        );
        let options = Options {
            allow_killed_programs: true,
            ..Options::default()
        };
        assert!(recorded.judged_with(options).events_named("one").count() > 1);
        recorded.assert_says(", 0 lost: ");
    }
}

#[test]
fn a_program_that_ignores_signals_goes_on_without_being_recorded() {
    let program = after("trap '' TERM", "endless");
    let recording = Recording::start(&[], &program);
    recording.wait_for_bytes(EVENTS_BYTES);
    recording.signal(Signal::TERM);
    recording.signal(Signal::TERM);
    let recorded = recording.finish();
    assert_eq!(recorded.status.code(), Some(128 + 15), "{}", recorded.said);
    assert!(recorded.judged().events_named("one").count() > 1);
    recorded.assert_says("the program goes on, and is not recorded any more");
}

#[test]
fn a_command_that_is_killed_leaves_what_was_written() {
    let recorded = signalled(&command("endless"), Signal::KILL);
    assert_eq!(recorded.status.code(), None);
    let options = Options {
        allow_early_end: true,
        allow_killed_programs: true,
        ..Options::default()
    };
    assert!(recorded.judged_with(options).events_named("one").count() > 1);
}

#[test]
fn a_recording_ends_at_its_time_and_the_program_goes_on() {
    let mut recording = Recording::start(&["-t", "700ms"], &command("endless"));
    recording.wait_for_line("no longer recorded; waiting for the program to end");
    recording.signal(Signal::TERM);
    let recorded = recording.finish();
    assert_eq!(recorded.status.code(), Some(128 + 15), "{}", recorded.said);
    assert!(recorded.judged().events_named("one").count() > 1);
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let Some(recording) = Recording::start_on_small_disk(256, &command("spans")) else {
        return;
    };
    let recorded = recording.finish();
    assert_eq!(recorded.status.code(), Some(2), "{}", recorded.said);
    recorded.assert_says("error: the recording has failed: ");
    recorded.assert_says("No space left on device");
    let options = Options {
        allow_early_end: true,
        allow_open_spans: true,
        ..Options::default()
    };
    assert!(recorded.judged_with(options).events_named("work").count() > 100);
}
