//! Every trace says which service, process, machine and boot it comes from.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use std::env;
use std::fs;
use std::process::{self, Command};

use support::{Folder, alone};
use tracezero::reader::{TraceAttributeValue, TraceIdentity, TraceReader};
use tracezero::{
    BuiltinDataSources, FlightRecorder, InMemorySession, Session, TraceConfig, instant,
    set_service, set_trace_attribute,
};

/// Reads where a trace comes from.
fn identities(trace: &[u8]) -> Vec<TraceIdentity> {
    let mut reader = TraceReader::new(trace);
    while reader.next().unwrap().is_some() {}
    reader.identities().to_vec()
}

fn only(trace: &[u8]) -> TraceIdentity {
    let mut identities = identities(trace);
    assert_eq!(identities.len(), 1, "{identities:?}");
    identities.remove(0)
}

/// Checks that a trace comes from this process, as the service "api" of version 1.2.
fn assert_is_of_api(trace: &[u8]) {
    let identity = only(trace);
    assert_eq!(identity.service_name(), Some("api"));
    assert_eq!(identity.service_version(), Some("1.2"));
    assert_eq!(identity.process_pid(), Some(process::id().into()));
    let executable = identity.executable_name().unwrap();
    assert!(executable.starts_with("trace_attributes"), "{executable}");
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(identity.host_boot_id(), Some(boot_id.trim_end()));
    assert!(identity.host_name().is_some_and(|name| !name.is_empty()));
    if let Ok(machine_id) = fs::read_to_string("/etc/machine-id") {
        assert_ne!(identity.host_id(), Some(machine_id.trim_end()));
        let needle = machine_id.trim_end().as_bytes();
        let has_it = trace.windows(needle.len()).any(|it| it == needle);
        assert!(
            needle.is_empty() || !has_it,
            "it gives the machine's id away"
        );
    }
}

#[test]
fn traces_of_every_kind_name_service_and_machine() {
    let _alone = alone();
    let folder = Folder::empty();
    set_service("api", "1.2");

    let recorder = FlightRecorder::builder()
        .ring_kib(256)
        .directory(folder.path())
        .start()
        .unwrap();
    let file = folder.path().join("app.pftrace");
    let session = Session::record_to_file(&file).unwrap();
    instant!("test", "event");
    let copy = folder.path().join("copy.pftrace");
    session.control().save_snapshot(&copy).unwrap();
    assert_is_of_api(&fs::read(copy).unwrap());
    session.finish().unwrap();
    assert_is_of_api(&fs::read(file).unwrap());

    for name in ["first", "second"] {
        let saved = recorder.snapshot(name).save().unwrap();
        assert_is_of_api(&fs::read(saved).unwrap());
    }
    drop(recorder);
    let session = InMemorySession::start().unwrap();
    let snapshot = session.control().snapshot().unwrap();
    assert_is_of_api(snapshot.trace());
    assert_is_of_api(&session.finish().0);
}

#[test]
fn configuration_counts_more_than_code_and_sessions_keep_what_they_began_with() {
    let _alone = alone();
    set_trace_attribute("com.example.shard", 1);
    set_trace_attribute("com.example.team", "a");
    let config = TraceConfig::default().add_trace_attribute("com.example.shard", 2);
    let session = config.record_in_memory().unwrap();
    set_trace_attribute("com.example.team", "b");
    let (trace, _) = session.finish();
    let identity = only(&trace);
    let shard = identity.get("com.example.shard");
    assert_eq!(shard, Some(&TraceAttributeValue::Long(2)));
    assert_eq!(identity.get("com.example.team"), Some(&"a".into()));
}

#[test]
fn traces_can_be_without_attributes() {
    let _alone = alone();
    for builtin in [
        BuiltinDataSources::new().without_trace_attributes(),
        BuiltinDataSources::new().without_system_info(),
    ] {
        let config = TraceConfig::default().builtin_data_sources(builtin);
        let (trace, _) = config.clone().record_in_memory().unwrap().finish();
        assert_eq!(identities(&trace), []);
        // Those that the user gives for this trace are part of the configuration.
        let config = config.add_trace_attribute("com.example.shard", 2);
        let (trace, _) = config.record_in_memory().unwrap().finish();
        assert_eq!(only(&trace).attributes().count(), 1);
    }
}

/// The environment cannot be changed in a process with threads, so a child process has it.
#[test]
fn environment_names_the_service_unless_it_is_malformed() {
    const CHILD: &str = "TRACEZERO_TEST_TRACE_ATTRIBUTES";
    if env::var_os(CHILD).is_some() {
        let (trace, report) = InMemorySession::start().unwrap().finish();
        let identity = only(&trace);
        let version = identity.service_version();
        println!("name={:?}", identity.service_name());
        println!("version={version:?}");
        println!("report={report}");
        set_service("of code", "9");
        let (trace, _) = InMemorySession::start().unwrap().finish();
        println!("of code={:?}", only(&trace).service_name());
        return;
    }
    let run = |resource: &str| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "--exact",
            "environment_names_the_service_unless_it_is_malformed",
        ]);
        let command = command.args(["--nocapture"]).env(CHILD, "1");
        let command = command.env("OTEL_SERVICE_NAME", "named");
        let command = command.env("OTEL_RESOURCE_ATTRIBUTES", resource);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let out = run("service.name=listed,service.version=3%2C1");
    for line in [
        "name=Some(\"named\")",
        "version=Some(\"3,1\")",
        "of code=Some(\"of code\")",
    ] {
        assert!(out.contains(line), "{out}");
    }
    assert!(!out.contains("warning"), "{out}");
    let out = run("service.version=3,broken");
    assert!(out.contains("version=None"), "{out}");
    let warning = "warning: the variable OTEL_RESOURCE_ATTRIBUTES of the environment was ignored: \
                   \"broken\" has no `=`; write key=value,key=value";
    assert!(out.contains(warning), "{out}");
}
