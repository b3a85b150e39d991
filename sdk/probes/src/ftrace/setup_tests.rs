//! What a session writes to tracefs, which is a folder here.

use std::fs;
use std::path::PathBuf;

use support::Folder;
use tracezero::SessionId;

use super::config::Config;
use super::error::FtraceError;
use super::recorder::Recorder;
use super::tracefs::Tracefs;
use crate::instance_key::InstanceKey;

/// The instance that the sessions of these tests use: a folder makes no files for a new one.
const INSTANCE: &str = "instances/ours";

const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";

const WAKING: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n";

/// A tracefs with one instance and some events.
struct FakeTracefs(Folder);

impl FakeTracefs {
    fn new() -> Self {
        let tracefs = Self(Folder::empty());
        tracefs.event("sched/sched_switch", 1, SWITCH);
        tracefs.event("sched/sched_waking", 2, WAKING);
        tracefs.event("raw_syscalls/sys_enter", 3, "");
        tracefs.event("raw_syscalls/sys_exit", 4, "");
        for (file, content) in [
            ("tracing_on", "1"),
            ("trace", "of somebody else"),
            ("events/enable", "1"),
            ("events/header_page", HEADER_PAGE),
            ("current_tracer", "nop\n"),
            ("trace_clock", "[local] global boot mono_raw\n"),
            ("buffer_size_kb", "7 (expanded: 1408)\n"),
            ("buffer_percent", "50\n"),
            ("set_event_pid", ""),
            ("set_event", ""),
            ("tracing_cpumask", "3\n"),
            ("options/event-fork", "0\n"),
            ("per_cpu/cpu0/trace_pipe_raw", ""),
            ("per_cpu/cpu0/stats", "entries: 0\n"),
        ] {
            tracefs.write(&format!("{INSTANCE}/{file}"), content);
        }
        tracefs
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.file(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    /// Adds an event that can be enabled.
    fn event(&self, path: &str, id: u16, fields: &str) {
        let (_, name) = path.split_once('/').expect("group and event");
        let format = format!("name: {name}\nID: {id}\n{COMMON}{fields}\nprint fmt: \"\"\n");
        self.write(&format!("events/{path}/format"), &format);
        self.write(&format!("{INSTANCE}/events/{path}/enable"), "0");
        self.write(&format!("{INSTANCE}/events/{path}/filter"), "none");
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.file(format!("{INSTANCE}/{file}"))
    }

    /// Returns what a file of the instance contains.
    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).expect("the instance has the file")
    }

    fn is_enabled(&self, event: &str) -> bool {
        self.read(&format!("events/{event}/enable")) == "1"
    }

    fn set_up(&self, config: Config) -> Result<Recorder, FtraceError> {
        let tracefs = Tracefs::at(self.0.path().to_owned());
        Recorder::set_up(&tracefs, InstanceKey::unique(), SessionId::new(1), config)
    }
}

/// A configuration with events by name, for the instance of the tests.
fn config(events: &[&str]) -> Config {
    let mut config = Config::decode(&[]).expect("an empty configuration");
    config.events = events.iter().map(|&event| event.to_owned()).collect();
    config.instance = "ours".to_owned();
    config
}

#[test]
fn clock_and_size_are_set_and_the_tracer_waits_for_the_start() {
    let tracefs = FakeTracefs::new();
    let mut config = config(&["sched/sched_switch"]);
    config.buffer_kib = 65;
    let mut recorder = tracefs.set_up(config).expect("it is set up");
    // A folder's file keeps what is behind the new text.
    assert!(tracefs.read("trace_clock").starts_with("boot"));
    assert!(tracefs.read("buffer_size_kb").starts_with("65"));
    assert_eq!(tracefs.read("tracing_on"), "0");
    recorder.start();
    assert_eq!(tracefs.read("tracing_on"), "1");
}

#[test]
fn events_are_enabled_by_name_group_and_star() {
    let tracefs = FakeTracefs::new();
    let recorder = tracefs.set_up(config(&["sched_switch", "raw_syscalls/*"]));
    assert!(recorder.expect("it is set up").has_no_failures());
    for event in [
        "sched/sched_switch",
        "raw_syscalls/sys_enter",
        "raw_syscalls/sys_exit",
    ] {
        assert!(tracefs.is_enabled(event), "{event}");
    }
    assert!(!tracefs.is_enabled("sched/sched_waking"));
}

#[test]
fn event_of_two_groups_is_enabled_in_both() {
    let tracefs = FakeTracefs::new();
    tracefs.event("other/sched_switch", 9, SWITCH);
    let recorder = tracefs.set_up(config(&["sched_switch"]));
    recorder.expect("it is set up");
    assert!(tracefs.is_enabled("sched/sched_switch") && tracefs.is_enabled("other/sched_switch"));
}

#[test]
fn event_that_cannot_be_enabled_is_added_to_the_list() {
    let tracefs = FakeTracefs::new();
    fs::remove_file(tracefs.path("events/sched/sched_switch/enable")).expect("it is there");
    let recorder = tracefs.set_up(config(&["sched/sched_switch"]));
    assert!(recorder.expect("it is set up").has_no_failures());
    assert_eq!(tracefs.read("set_event"), "sched:sched_switch");
}

#[test]
fn unpublished_events_can_be_left_out() {
    let tracefs = FakeTracefs::new();
    tracefs.event("mine/unpublished", 9, "");
    let mut config = config(&["sched/sched_switch", "mine/unpublished"]);
    config.is_without_generic = true;
    tracefs.set_up(config.clone()).expect("it is set up");
    assert!(!tracefs.is_enabled("mine/unpublished"));
    config.is_without_generic = false;
    tracefs.set_up(config).expect("it is set up");
    assert!(tracefs.is_enabled("mine/unpublished"));
}

#[test]
fn system_calls_are_filtered_by_number() {
    let tracefs = FakeTracefs::new();
    let mut config = config(&[]);
    config.syscalls = ["sys_read", "sys_no_such_call"].map(str::to_owned).to_vec();
    let recorder = tracefs.set_up(config).expect("it is set up");
    let filter = tracefs.read("events/raw_syscalls/sys_enter/filter");
    let number = if cfg!(target_arch = "x86_64") { 0 } else { 63 };
    assert_eq!(filter, format!("id == {number}"));
    assert_eq!(tracefs.read("events/raw_syscalls/sys_exit/filter"), filter);
    assert_eq!(recorder.unknown_events(), ["sys_no_such_call"]);
}

#[test]
fn threads_cpus_and_options_are_set() {
    let tracefs = FakeTracefs::new();
    let mut config = config(&["sched/sched_switch"]);
    config.tids = vec![123, 456];
    config.cpumask = "1".to_owned();
    config.options = vec![("event-fork".to_owned(), true)];
    let recorder = tracefs.set_up(config).expect("it is set up");
    assert!(recorder.has_no_failures());
    assert_eq!(tracefs.read("set_event_pid"), "123 456");
    assert!(tracefs.read("tracing_cpumask").starts_with('1'));
    assert!(tracefs.read("options/event-fork").starts_with('1'));
}

#[test]
fn options_that_are_none_are_named() {
    let tracefs = FakeTracefs::new();
    let mut config = config(&["sched/sched_switch"]);
    config.options = ["no-such-option", "../tracing_on"]
        .map(|it| (it.to_owned(), true))
        .to_vec();
    let recorder = tracefs.set_up(config).expect("it is set up");
    let failures = recorder.failures().join("\n");
    assert!(
        failures.contains("options/no-such-option does not accept \"1\""),
        "{failures}"
    );
    assert!(
        failures.contains("\"../tracing_on\" is no option"),
        "{failures}"
    );
}

#[test]
fn instance_must_exist_and_be_idle() {
    let tracefs = FakeTracefs::new();
    for name in ["no_such", "a/b", "..", "../x"] {
        let mut config = config(&["sched/sched_switch"]);
        config.instance = name.to_owned();
        let error = tracefs
            .set_up(config)
            .expect_err("there is no such instance");
        assert!(
            matches!(error, FtraceError::NoInstance(_)),
            "{name}: {error}"
        );
    }
    tracefs.write(&format!("{INSTANCE}/current_tracer"), "function\n");
    let error = tracefs
        .set_up(config(&["sched/sched_switch"]))
        .expect_err("it is in use");
    let expected = "instance_name: \"ours\" is in use: its current_tracer is function, not nop";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn instance_of_others_is_for_one_session_and_left_idle() {
    let tracefs = FakeTracefs::new();
    let config = config(&["sched/sched_switch"]);
    let mut recorder = tracefs.set_up(config.clone()).expect("it is set up");
    assert_eq!(
        tracefs.read("trace"),
        "",
        "what was there belongs to no session"
    );
    recorder.start();
    let error = tracefs.set_up(config.clone()).expect_err("it is in use");
    assert!(
        error
            .to_string()
            .ends_with("another session records with it"),
        "{error}"
    );
    drop(recorder);
    assert_eq!(tracefs.read("tracing_on"), "0");
    assert_eq!(tracefs.read("events/enable"), "0");
    tracefs.set_up(config).expect("it is free again");
}

#[test]
fn layout_that_is_not_known_is_said() {
    let tracefs = FakeTracefs::new();
    tracefs.write(&format!("{INSTANCE}/events/header_page"), "nonsense");
    let recorder = tracefs.set_up(config(&["sched/sched_switch"]));
    let failures = recorder.expect("it is set up").failures().join("\n");
    assert!(
        failures.contains("events/header_page: field `timestamp`"),
        "{failures}"
    );
}

#[test]
fn unknown_system_calls_alone_record_none() {
    let tracefs = FakeTracefs::new();
    let mut config = config(&[]);
    config.syscalls = vec!["sys_no_such_call".to_owned()];
    tracefs.set_up(config).expect("it is set up");
    assert!(!tracefs.is_enabled("raw_syscalls/sys_enter"));
}

#[test]
fn threads_that_cannot_be_chosen_are_an_error() {
    let tracefs = FakeTracefs::new();
    fs::remove_file(tracefs.path("set_event_pid")).expect("it is there");
    let mut config = config(&["sched/sched_switch"]);
    config.tids = vec![1];
    tracefs
        .set_up(config)
        .expect_err("all threads would be recorded");
}

#[test]
fn columns_need_switches_of_the_usual_layout() {
    let tracefs = FakeTracefs::new();
    let has_columns = |config: Config| {
        let recorder = tracefs.set_up(config);
        recorder.expect("it is set up").has_columns()
    };
    assert!(has_columns(config(&[
        "sched/sched_switch",
        "sched/sched_waking"
    ])));
    assert!(has_columns(config(&["sched/sched_switch"])));
    assert!(!has_columns(config(&["sched/sched_waking"])));
    let mut verbose = config(&["sched/sched_switch"]);
    verbose.is_compact = false;
    assert!(!has_columns(verbose));
    tracefs.event(
        "sched/sched_switch",
        1,
        &SWITCH.replace(
            "next_comm[16];\toffset:40;\tsize:16",
            "next_comm[32];\toffset:40;\tsize:32",
        ),
    );
    assert!(!has_columns(config(&["sched/sched_switch"])));
}
