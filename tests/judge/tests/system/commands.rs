//! Uses of the command `perfetto`. `ci/perfetto_uses.sh` compares more of them.

use std::fs;

use perfetto_protos::trace_config::TraceConfig;
use protobuf::Message as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::machine::{Machine, wait_until};
use crate::programs::{IDLE, RECORDING, TICKS};
use crate::recordings::EVERYTHING;
use crate::restarts::ticks;
use crate::running::Program;

/// A machine with a program that records all the time.
pub fn with_ticks() -> Option<(Machine, Program)> {
    let machine = Machine::start()?;
    let mut program = machine.program(TICKS);
    program.wait_for("connected");
    machine.wait_for_producers(1);
    Some((machine, program))
}

/// Runs `perfetto` to its end, and checks its exit code. Returns its standard output.
#[track_caller]
fn perfetto_ends(machine: &Machine, args: &[&str], input: &str, code: i32) -> Vec<u8> {
    let perfetto = machine.perfetto_with(args, input.as_bytes());
    let output = perfetto.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    output.stdout
}

#[test]
fn text_and_binary_configs_from_files_and_pipes_record() {
    let Some((machine, mut program)) = with_ticks() else {
        return;
    };
    let text = EVERYTHING;
    let config: TraceConfig = protobuf::text_format::parse_from_str(text).unwrap();
    let binary = config.write_to_bytes().unwrap();
    fs::write(machine.file("text"), text).unwrap();
    fs::write(machine.file("binary"), &binary).unwrap();
    let uses: [(&[&str], &[u8]); 4] = [
        (&["--txt", "-c", "text"], b""),
        (&["--txt", "-c", "-"], text.as_bytes()),
        (&["-c", "binary"], b""),
        (&["-c", "-"], &binary),
    ];
    for (args, input) in uses {
        let perfetto = machine.perfetto_with(&[args, &["-o", "-"]].concat(), input);
        program.wait_for(RECORDING);
        kill_process(Pid::from_child(&perfetto), Signal::INT).unwrap();
        let output = perfetto.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}");
        assert!(ticks(&output.stdout) > 0, "{args:?}");
        program.wait_for(IDLE);
    }
    assert!(machine.has_sessions(0));
}

#[test]
fn a_command_in_the_background_records_until_its_signal() {
    let Some((machine, mut program)) = with_ticks() else {
        return;
    };
    let args = ["--txt", "-c", "-", "-o", "trace", "--background-wait"];
    let said = perfetto_ends(&machine, &args, EVERYTHING, 0);
    // With `--background-wait`, the command returns only when all data sources have started.
    assert!(machine.query().contains("(started: 1)"));
    program.wait_for(RECORDING);
    let pid = String::from_utf8(said).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    wait_until(|| machine.has_sessions(0));
    assert!(ticks(&fs::read(machine.file("trace")).unwrap()) > 0);
}

#[test]
fn a_detached_session_is_attached_and_stopped() {
    let Some((machine, mut program)) = with_ticks() else {
        return;
    };
    // The daemon writes the file only in the end.
    let config = format!("{EVERYTHING} write_into_file: true file_write_period_ms: 60000");
    let args = ["--txt", "-c", "-", "-o", "trace", "--detach=key"];
    perfetto_ends(&machine, &args, &config, 0);
    perfetto_ends(&machine, &["--is_detached=key"], "", 0);
    perfetto_ends(&machine, &["--is_detached=other"], "", 2);
    perfetto_ends(&machine, &["--attach=other"], "", 2);
    program.wait_for(RECORDING);
    perfetto_ends(&machine, &["--attach=key", "--stop"], "", 0);
    wait_until(|| machine.has_sessions(0));
    assert!(ticks(&fs::read(machine.file("trace")).unwrap()) > 0);
    perfetto_ends(&machine, &["--is_detached=key"], "", 2);
}

/// Returns the words of the last line of `query` that ends with `last`. `query` is the output of
/// `perfetto --query`.
fn line_of(query: &str, last: &str) -> Vec<String> {
    let lines = query.lines().filter(|line| line.trim_end().ends_with(last));
    let mut words = lines.map(|line| line.split_whitespace().map(str::to_owned).collect());
    words.next_back().unwrap()
}

#[test]
fn the_state_of_the_service_has_producers_and_sessions() {
    let Some((machine, program)) = with_ticks() else {
        return;
    };
    let config = format!("{EVERYTHING} unique_session_name: \"named\" duration_ms: 60000");
    let recording = machine.record("trace", &config);
    machine.wait_for_session("STARTED");
    let query = machine.query();
    let pid = program.id().to_string();
    let mut lines = query.lines();
    let producer = lines.find(|line| line.contains(" program ")).unwrap();
    let words: Vec<_> = producer.split_whitespace().collect();
    assert_eq!(words[1..3], [&*pid, "0"], "{producer}");
    assert!(producer.contains("tracezero"), "{producer}");
    let [_, uid, state, buffers, size_kb, duration_s, sources, _, _] =
        &line_of(&query, "named")[..]
    else {
        panic!("{query}");
    };
    let session = [uid, state, buffers, size_kb, duration_s, sources];
    assert_eq!(session, ["0", "STARTED", "(1)", "65536", "60", "1"]);
    let raw = perfetto_ends(&machine, &["--query-raw"], "", 0);
    for text in ["program", "track_event", "named", "STARTED"] {
        let is_there = raw.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(is_there, "{text}");
    }
    recording.finish();
}

#[test]
fn clones_by_name_and_number_have_the_trace_so_far() {
    let Some((machine, mut program)) = with_ticks() else {
        return;
    };
    let config = format!("{EVERYTHING} unique_session_name: \"original\"");
    let recording = machine.record("trace", &config);
    program.wait_for(RECORDING);
    let id = line_of(&machine.query(), "original").remove(0);
    let cloned = |args: [&str; 2]| {
        perfetto_ends(&machine, &[&args[..], &["-o", "clone"]].concat(), "", 0);
        ticks(&fs::read(machine.file("clone")).unwrap())
    };
    let first = cloned(["--clone", &id]);
    assert!(first > 0);
    let mut last = 0;
    // The program may be late with its next tick.
    wait_until(|| {
        last = cloned(["--clone-by-name", "original"]);
        assert!(last >= first);
        last > first
    });
    let args = ["--clone-by-name", "another", "-o", "none"];
    perfetto_ends(&machine, &args, "", 0);
    assert!(!machine.file("none").exists());
    assert!(ticks(&recording.finish()) >= last);
}

#[test]
fn a_config_of_triggers_starts_a_session() {
    let Some((machine, mut program)) = with_ticks() else {
        return;
    };
    let config = format!(
        r#"{EVERYTHING} trigger_config {{
          trigger_mode: START_TRACING trigger_timeout_ms: 60000
          triggers {{ name: "now" stop_delay_ms: 60000 }}
        }}"#
    );
    let recording = machine.record("trace", &config);
    machine.wait_for_session("CONFIGURED");
    let args = ["--txt", "-c", "-"];
    perfetto_ends(&machine, &args, "activate_triggers: \"now\"", 0);
    program.wait_for(RECORDING);
    assert!(ticks(&recording.finish()) > 0);
}
