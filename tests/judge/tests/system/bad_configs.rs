//! Configurations that a daemon refuses. The command prints the reason.

use std::fs;

use crate::machine::{Daemon, Machine, wait_until};

const EVENTS: &str = r#"data_sources { config { name: "track_event" } }"#;
const TRIGGER: &str = r#"triggers { name: "a" }"#;

/// Returns configurations, and the reasons of `traced` and of our daemon, which names the field and
/// the remedy.
fn bad_configs() -> Vec<(String, [&'static str; 2])> {
    let buffers = |buffers: &str, target: &str| {
        format!(r#"{buffers} data_sources {{ config {{ name: "track_event" {target} }} }}"#)
    };
    let buffer = "buffers { size_kb: 64 }";
    let more = |more: &str| format!("{buffer} {EVENTS} {more}");
    let triggers =
        |config: &str, rest: &str| more(&format!("trigger_config {{ {config} }} {rest}"));
    vec![
        (
            buffers("buffers { size_kb: 0 }", ""),
            ["Invalid buffer sizes", "buffers[0]: size_kb is 0"],
        ),
        (
            buffers("buffers { size_kb: 4194304 }", ""),
            [
                "Invalid buffer sizes",
                "buffers[0].size_kb: 4194304 is more",
            ],
        ),
        (
            "buffers { size_kb: 4 }\n".repeat(129),
            ["Too many buffers configured (129)", "129 buffers"],
        ),
        (
            buffers(buffer, "target_buffer: 1"),
            ["out of bounds target_buffer (1 >= 1)", "targets buffers[1]"],
        ),
        (
            buffers(buffer, r#"target_buffer_name: "none""#),
            [
                "\"none\" which does not match",
                "targets the buffer \"none\"",
            ],
        ),
        (
            buffers(
                r#"buffers { size_kb: 64 name: "a" } buffers { size_kb: 64 name: "a" }"#,
                "",
            ),
            [
                "Duplicate buffer name \"a\"",
                "buffers[1] has the same name",
            ],
        ),
        (
            buffers(
                &format!(r#"{buffer} buffers {{ size_kb: 64 name: "b" }} {buffer}"#),
                r#"target_buffer: 2 target_buffer_name: "b""#,
            ),
            ["don't match", "targets buffers[1] by name, but buffers[2]"],
        ),
        (
            more("duration_ms: 700000000"),
            [
                "Requested too long trace",
                "duration_ms: 700000000 ms is more",
            ],
        ),
        (
            triggers(&format!("trigger_mode: START_TRACING {TRIGGER}"), ""),
            [
                "must provide a positive trigger_timeout_ms",
                "trigger_timeout_ms: is 0",
            ],
        ),
        (
            triggers(
                &format!("trigger_mode: STOP_TRACING trigger_timeout_ms: 700000000 {TRIGGER}"),
                "",
            ),
            [
                "trigger_timeout_ms < 7 days",
                "trigger_timeout_ms: 700000000 ms is more",
            ],
        ),
        (
            triggers(
                &format!(
                    "trigger_mode: START_TRACING trigger_timeout_ms: 1000 {TRIGGER} {TRIGGER}"
                ),
                "",
            ),
            [
                "Duplicate trigger name: a",
                "already the name of triggers[0]",
            ],
        ),
        (
            triggers(
                &format!("trigger_mode: START_TRACING trigger_timeout_ms: 1000 {TRIGGER}"),
                "duration_ms: 1000",
            ),
            [
                "duration_ms was set",
                "duration_ms: is 1000 together with trigger_config",
            ],
        ),
        (
            triggers(
                &format!("trigger_mode: STOP_TRACING trigger_timeout_ms: 1000 {TRIGGER}"),
                "write_into_file: true",
            ),
            [
                "write_into_file together is unsupported",
                "write_into_file: is set together",
            ],
        ),
        (
            triggers(
                &format!(
                    "trigger_mode: START_TRACING trigger_timeout_ms: 1000 \
                     use_clone_snapshot_if_available: true {TRIGGER}"
                ),
                "",
            ),
            [
                "must be STOP_TRACING",
                "needs the trigger_mode STOP_TRACING",
            ],
        ),
        (
            more(r#"bugreport_filename: "a/b""#),
            [
                "bugreport_filename contains invalid chars",
                "bugreport_filename: '/'",
            ],
        ),
    ]
}

/// Checks that the command refuses to record, and why.
#[track_caller]
pub fn check_refused(machine: &Machine, config: &str, [traced, ours]: [&str; 2]) {
    fs::write(machine.file("config"), config).unwrap();
    let mut perfetto = machine.perfetto();
    perfetto.arg("--txt").arg("-c").arg(machine.file("config"));
    let output = perfetto
        .arg("-o")
        .arg(machine.file("trace"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = match Daemon::of_this_run() {
        Daemon::Traced => traced,
        Daemon::Ours => ours,
    };
    assert!(said.contains(reason), "{config}: {said}");
    // It ends as if all were well, but without a trace.
    assert!(output.status.success(), "{config}");
    assert!(!machine.file("trace").exists(), "{config}");
}

#[test]
fn bad_configs_are_refused_with_their_reasons() {
    let Some(machine) = Machine::start() else {
        return;
    };
    for (config, reasons) in bad_configs() {
        check_refused(&machine, &config, reasons);
    }
    assert!(machine.has_sessions(0));
}

/// The number of sessions that one user may have.
const SESSIONS_OF_USER_MAX: usize = 5;

#[test]
fn a_sixth_session_of_a_user_is_refused() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let config = format!("buffers {{ size_kb: 64 }} {EVENTS} unique_session_name: \"first\"");
    let first = machine.record("first", &config);
    wait_until(|| machine.query().contains("first"));
    let reasons = ["unique session name", "unique_session_name \"first\""];
    check_refused(&machine, &config, reasons);

    let config = format!("buffers {{ size_kb: 64 }} {EVENTS}");
    let others: Vec<_> = (1..SESSIONS_OF_USER_MAX)
        .map(|number| machine.record(&number.to_string(), &config))
        .collect();
    wait_until(|| machine.has_sessions(5));
    let reasons = [
        "Too many concurrent tracing sesions",
        "5 sessions exist already",
    ];
    check_refused(&machine, &config, reasons);
    first.finish();
    wait_until(|| machine.has_sessions(4));
    let another = machine.record("another", &config);
    wait_until(|| machine.has_sessions(5));
    another.finish();
    for other in others {
        other.finish();
    }
}
