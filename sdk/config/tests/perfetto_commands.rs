//! Configurations that the real `perfetto` command sends to a service.
//!
//! `perfetto_commands/NN.bin` has the bytes of the field `trace_config` in the request
//! `EnableTracing`, recorded at the consumer socket. `commands.txt` has the version and the command
//! line of each, and `NN.txtpb` or `NN.config` the file that `-c` named, if there was one.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::fs;
use std::path::{Path, PathBuf};

use tracezero_config::{ResolvedConfig, SessionConfig, TriggerMode, decode, decode_foreign};

/// The fields that the `perfetto` command sets in each configuration, and the service ignores.
const ALWAYS: [&str; 2] = ["statsd_metadata", "statsd_logging"];
/// The only command whose configuration is refused.
const REFUSED: &str = "26";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto_commands")
}

/// Returns the numbers of the commands.
fn numbers() -> Vec<String> {
    let commands = fs::read_to_string(folder().join("commands.txt")).unwrap();
    let number = |line: &str| line.split(' ').next().unwrap().to_owned();
    commands.lines().map(number).collect()
}

fn bytes(number: &str) -> Vec<u8> {
    fs::read(folder().join(format!("{number}.bin"))).unwrap()
}

/// Returns a configuration as a service carries it out, and the fields that it ignores beyond those
/// that the command always sets.
fn load(number: &str) -> (SessionConfig, ResolvedConfig, Vec<String>) {
    let config = decode_foreign(&bytes(number)).unwrap_or_else(|error| panic!("{number}: {error}"));
    let resolved = config.session.resolve();
    let resolved = resolved.unwrap_or_else(|error| panic!("{number}: {error}"));
    let mut ignored = config.ignored;
    for always in ALWAYS {
        let position = ignored.iter().position(|path| path == always);
        ignored.remove(position.unwrap_or_else(|| panic!("{number} lists {always}")));
    }
    (config.session, resolved, ignored)
}

#[test]
fn configurations_of_documented_command_lines_load() {
    let numbers = numbers();
    let (refused, loaded): (Vec<_>, Vec<_>) = numbers.iter().partition(|it| *it == REFUSED);
    assert_eq!((refused.len(), loaded.len()), (1, 25));
    for number in loaded {
        let (config, resolved, _) = load(number);
        assert!(!config.data_sources.is_empty(), "{number}");
        assert_eq!(resolved.target_buffers.len(), config.data_sources.len());
    }
}

#[test]
fn each_file_is_the_configuration_of_a_listed_command() {
    let listed = numbers();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            stem == "commands" || listed.iter().any(|number| number == stem),
            "{}",
            path.display()
        );
    }
}

#[test]
fn strict_decoding_refuses_what_the_command_always_sets() {
    for number in numbers() {
        assert!(decode(&bytes(&number)).is_err(), "{number}");
    }
    assert_eq!(
        decode(&bytes("01")).unwrap_err().to_string(),
        "statsd_metadata is not supported; leave it out (only Android's own tools use it)"
    );
}

#[test]
fn each_ignored_field_is_listed() {
    let compression: &[&str] = match cfg!(feature = "deflate") {
        true => &[],
        false => &["compression_type"],
    };
    let clock = "builtin_data_sources.prefer_suspend_clock_for_snapshot";
    let expected = [
        ("05", vec!["notes"]),
        // A configuration with fields that no version of Perfetto has.
        (
            "10",
            vec![
                "buffers[0].99",
                "data_sources[0].config.13",
                "data_sources[0].config.99",
                "data_sources[0].50",
                "99",
                "300",
            ],
        ),
        ("17", vec!["android_report_config"]),
        ("18", vec!["incident_report_config"]),
        ("19", vec!["incident_report_config"]),
        ("22", [&[clock], compression].concat()),
        ("23", vec!["data_sources[1].machine_name_filter[0]"]),
        ("24", vec!["cmd_trace_start_delay"]),
        ("25", vec!["priority_boost"]),
    ];
    for number in numbers().iter().filter(|it| *it != REFUSED) {
        let found = expected.iter().find(|(expected, _)| expected == number);
        let (_, _, ignored) = load(number);
        assert_eq!(ignored, found.map_or(vec![], |it| it.1.clone()), "{number}");
    }
}

#[test]
fn filter_of_packets_is_refused_by_name() {
    assert_eq!(
        decode_foreign(&bytes(REFUSED)).unwrap_err().to_string(),
        "trace_filter is not supported; leave it out, and filter the finished trace"
    );
}

#[test]
fn options_of_the_command_line_are_carried_out() {
    let (config, ..) = load("03");
    assert_eq!(config.duration_ms, 20_000);
    assert_eq!(config.buffers[0].size_kb, 64 * 1024);
    assert!(config.write_into_file);
    assert_eq!(config.max_file_size_bytes, 1 << 30);
    let (config, ..) = load("04");
    assert_eq!(config.duration_ms, 60_000);
    assert_eq!(config.buffers[0].size_kb, 1024 * 1024);
    let names: Vec<_> = config.data_sources.iter().map(|it| &it.name).collect();
    assert!(
        names.contains(&&"android.surfaceflinger.frametimeline".to_owned()),
        "{names:?}"
    );
    let (config, ..) = load("13");
    assert_eq!(config.output_path.as_deref(), Some("/var/tmp/trace"));
}

#[test]
fn triggers_of_each_mode_are_carried_out() {
    let mode = |number: &str| load(number).0.triggers.unwrap().effective_mode();
    assert_eq!(mode("14"), TriggerMode::Start);
    // The configuration asks for a clone instead of the stop, if the service can clone.
    assert_eq!(mode("15"), TriggerMode::CloneSnapshot);
    assert_eq!(mode("16"), TriggerMode::CloneSnapshot);
}

#[test]
fn buffer_by_name_wins_over_index_0() {
    let (config, resolved, _) = load("16");
    assert_eq!(config.data_sources[0].target_name.as_deref(), Some("state"));
    assert_eq!(resolved.target_buffers, [1, 0]);
}

#[test]
fn data_source_of_another_machine_is_recorded_nowhere() {
    let (config, ..) = load("23");
    let is_here: Vec<_> = config
        .data_sources
        .iter()
        .map(|it| it.is_for_this_machine)
        .collect();
    assert_eq!(is_here, [true, false]);
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let mut decoded = 0;
    for number in ["10", "16", "20", "22", "25"] {
        let valid = bytes(number);
        for end in 0..valid.len() {
            // Either result is fine.
            let _ = decode_foreign(&valid[..end]);
        }
        for at in 0..valid.len() {
            for value in [0, 1, 8, 10, 11, 127, 128, 255] {
                let mut bytes = valid.clone();
                bytes[at] = value;
                let config = decode_foreign(&bytes);
                decoded += usize::from(config.is_ok_and(|it| it.session.resolve().is_ok()));
            }
        }
    }
    assert!(decoded > 1000, "{decoded}");
}
