//! Sessions of `tracezero::Consumer` and of the command `tracezero`, beside those of `perfetto`.

use std::fs::{self, File};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use judge::{Value, Verdict};
use tracezero::{Consumer, ConsumerError, DaemonSession, SessionToClone, TraceConfig};

use crate::commands::with_ticks;
use crate::machine::{Daemon, Machine, PATIENCE, judged, tool};
use crate::recordings::EVERYTHING;

/// How long two sessions record the same program. It ticks every millisecond.
const TOGETHER: Duration = Duration::from_millis(100);

/// Configurations that differ in what the daemon does for the consumer.
const CONFIGS: [&str; 10] = [
    EVERYTHING,
    "buffers { size_kb: 1024 fill_policy: DISCARD } data_sources { config { name: 'track_event' } }",
    "buffers { size_kb: 64 } data_sources { config { name: 'track_event' } }
     incremental_state_config { clear_period_ms: 20 }",
    "buffers { size_kb: 64 } buffers { size_kb: 1024 }
     data_sources { config { name: 'track_event' target_buffer: 1 } }",
    "buffers { size_kb: 1024 name: 'one' }
     data_sources { config { name: 'track_event' target_buffer_name: 'one' } }",
    "buffers { size_kb: 1024 }
     data_sources { config { name: 'track_event' track_event_config {
       disabled_categories: '*' enabled_categories: 'test' } } }",
    "buffers { size_kb: 1024 }
     data_sources { config { name: 'track_event' } producer_name_filter: 'program' }",
    "buffers { size_kb: 1024 } data_sources { config { name: 'track_event' } }
     builtin_data_sources { disable_service_events: true }",
    "buffers { size_kb: 1024 } data_sources { config { name: 'track_event' } }
     flush_period_ms: 10 ",
    "buffers { size_kb: 1024 } data_sources { config { name: 'track_event' } }
     producers { producer_name: 'program' shm_size_kb: 64 page_size_kb: 4 }",
];

fn encoded(config: &str) -> Vec<u8> {
    TraceConfig::from_text(config).unwrap().encode()
}

fn connect(machine: &Machine) -> Consumer {
    Consumer::connect_to(&machine.consumer_address()).unwrap()
}

fn start(machine: &Machine, config: &str) -> DaemonSession {
    let mut session = connect(machine).start(&encoded(config)).unwrap();
    assert!(session.wait_until_started(PATIENCE).unwrap());
    session
}

#[track_caller]
fn read(session: &mut DaemonSession) -> Vec<u8> {
    let mut trace = Vec::new();
    assert!(session.read(&mut trace).unwrap() > 0);
    trace
}

/// The ticks of a trace, with their times.
fn ticks(verdict: &Verdict) -> Vec<(u64, Value)> {
    let ticks = verdict.events_named("tick");
    ticks
        .map(|tick| (tick.timestamp_ns, tick.args["index"].clone()))
        .collect()
}

/// Checks that two traces have the same ticks in the time of both.
#[track_caller]
fn assert_same_ticks(ours: &[u8], theirs: &[u8]) {
    let [ours, theirs] = [ours, theirs].map(|trace| ticks(&judged(trace)));
    let begin = ours[0].0.max(theirs[0].0);
    let end = ours.last().unwrap().0.min(theirs.last().unwrap().0);
    let [ours, theirs] = [ours, theirs].map(|mut ticks| {
        ticks.retain(|(time, _)| (begin..=end).contains(time));
        ticks
    });
    assert!(ours.len() > 10, "{} ticks", ours.len());
    assert_eq!(ours, theirs);
}

#[test]
fn a_consumer_has_the_events_that_perfetto_has() {
    let Some((machine, _program)) = with_ticks() else {
        return;
    };
    for config in CONFIGS {
        // The command knows no other quotes.
        let config = &config.replace('\'', "\"");
        let theirs = machine.record("theirs", config);
        machine.wait_for_session("STARTED");
        let mut ours = start(&machine, config);
        thread::sleep(TOGETHER);
        ours.stop().unwrap();
        let ours = read(&mut ours);
        assert_same_ticks(&ours, &theirs.finish());
    }
}

#[test]
fn the_daemon_writes_the_file_of_a_consumer() {
    let Some((machine, _program)) = with_ticks() else {
        return;
    };
    let config = format!("{EVERYTHING} write_into_file: true file_write_period_ms: 100");
    let theirs = machine.record("theirs", &config);
    machine.wait_for_session("STARTED");
    let path = machine.file("ours");
    let file = File::options();
    let file = { file }.read(true).write(true).create_new(true).open(&path);
    let ours = connect(&machine).record_to_file(&encoded(&config), file.unwrap());
    let mut ours = ours.unwrap();
    assert!(ours.wait_until_started(PATIENCE).unwrap());
    thread::sleep(TOGETHER);
    ours.stop().unwrap();
    assert_same_ticks(&fs::read(path).unwrap(), &theirs.finish());
}

#[test]
fn only_our_daemon_counts_packets() {
    let Some((machine, _program)) = with_ticks() else {
        return;
    };
    let mut session = start(&machine, EVERYTHING);
    thread::sleep(TOGETHER);
    session.stop().unwrap();
    match (Daemon::of_this_run(), session.packet_totals()) {
        (Daemon::Ours, counts) => {
            let counts = counts.unwrap();
            assert_eq!(counts.lost, 0);
            let events = ticks(&judged(&read(&mut session))).len() as u64;
            assert!(counts.begun > events && events > 0);
            assert_eq!(session.packet_totals().unwrap().events, events);
        }
        (Daemon::Traced, counts) => {
            assert!(matches!(counts, Err(ConsumerError::NoSuchMethod { .. })));
        }
    }
}

#[test]
fn a_consumer_knows_producers_and_sessions() {
    let Some((machine, program)) = with_ticks() else {
        return;
    };
    let config = format!("{EVERYTHING} unique_session_name: 'one'");
    let session = start(&machine, &config);
    let state = connect(&machine).daemon_state().unwrap();
    assert_eq!((state.num_sessions, state.num_sessions_started), (1, 1));
    assert_eq!(state.sessions[0].unique_session_name, "one");
    assert_eq!(state.sessions[0].buffer_sizes_kib, [65_536]);
    let producers = state.producers.iter();
    let ours = producers.filter(|producer| producer.name == "program");
    let pids: Vec<_> = ours.map(|producer| producer.pid.cast_unsigned()).collect();
    assert_eq!(pids, [program.id()]);
    assert!(state.data_sources.iter().any(|it| it.name == "track_event"));
    drop(session);
}

#[test]
fn sessions_are_detached_attached_and_cloned() {
    let Some((machine, _program)) = with_ticks() else {
        return;
    };
    let config = format!("{EVERYTHING} unique_session_name: 'one'");
    let session = start(&machine, &config);
    thread::sleep(TOGETHER);
    let mut consumer = session.detach("key").unwrap();
    assert_eq!(consumer.daemon_state().unwrap().num_sessions, 1);
    let one = SessionToClone::Name("one");
    let mut clone = connect(&machine).clone_session(one).unwrap();
    assert!(!ticks(&judged(&read(&mut clone))).is_empty());
    let error = connect(&machine).attach("other").unwrap_err();
    assert!(matches!(error, ConsumerError::Failed { .. }), "{error:?}");
    let mut session = connect(&machine).attach("key").unwrap();
    session.stop().unwrap();
    assert!(ticks(&judged(&read(&mut session))).len() > 10);
}

#[test]
fn a_refused_configuration_has_the_reason_of_the_daemon() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let config = encoded("data_sources { config { name: 'track_event' } }");
    let error = connect(&machine).start(&config).unwrap_err();
    let ConsumerError::Refused { reason } = error else {
        panic!("{error:?}");
    };
    assert!(!reason.is_empty());
}

/// Runs the command `tracezero`, connected to the daemon.
fn tracezero(machine: &Machine, args: &[&str]) -> Output {
    let mut command = Command::new(tool());
    machine.connect(&mut command);
    command.args(args).current_dir(machine.folder());
    command.output().unwrap()
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let [said, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{said}{errors}");
    format!("{said}{errors}")
}

#[test]
fn the_command_records_the_machine() {
    let Some((machine, program)) = with_ticks() else {
        return;
    };
    let args = ["record", "-t", "300ms", "-o", "trace"];
    let said = succeeds(&tracezero(&machine, &args));
    assert!(said.contains(" of 1 process, "), "{said}");
    assert!(said.contains(&program.id().to_string()), "{said}");
    let verdict = judged(&fs::read(machine.file("trace")).unwrap());
    assert!(ticks(&verdict).len() > 50);
}

#[test]
fn the_command_activates_triggers() {
    let Some((machine, _program)) = with_ticks() else {
        return;
    };
    let config = format!(
        "{EVERYTHING} trigger_config {{ trigger_mode: STOP_TRACING trigger_timeout_ms: 60000
           triggers {{ name: 'now' stop_delay_ms: 1 }} }}"
    );
    let mut session = start(&machine, &config);
    thread::sleep(TOGETHER);
    assert!(!session.has_ended(Duration::ZERO).unwrap());
    succeeds(&tracezero(&machine, &["trigger", "other", "now"]));
    assert!(session.has_ended(PATIENCE).unwrap());
    assert!(ticks(&judged(&read(&mut session))).len() > 10);
}

#[test]
fn the_command_detaches_stops_and_copies_sessions() {
    let Some((machine, _program)) = with_ticks() else {
        return;
    };
    let args = ["record", "--detach", "key", "-o", "trace"];
    succeeds(&tracezero(&machine, &args));
    let status = succeeds(&tracezero(&machine, &["status"]));
    assert!(status.contains("track_event"), "{status}");
    assert!(status.contains("STARTED"), "{status}");
    thread::sleep(TOGETHER);
    succeeds(&tracezero(&machine, &["snapshot", "-o", "clone"]));
    let said = succeeds(&tracezero(&machine, &["stop", "key"]));
    if Daemon::of_this_run() == Daemon::Ours {
        assert!(said.contains(" events, 0 lost"), "{said}");
    }
    let [trace, clone] = ["trace", "clone"].map(|name| fs::read(machine.file(name)).unwrap());
    assert!(ticks(&judged(&trace)).len() > 10);
    assert!(!clone.is_empty());
    // `traced` leaves out of a clone what the file of the session has, and events build on that.
    if Daemon::of_this_run() == Daemon::Ours {
        assert!(ticks(&judged(&clone)).len() > 10);
    }
    assert_eq!(tracezero(&machine, &["stop", "key"]).status.code(), Some(2));
    assert!(machine.has_sessions(0));
}

#[test]
fn the_command_takes_over_a_detached_session() {
    let Some((machine, _program)) = with_ticks() else {
        return;
    };
    let config = format!("{EVERYTHING} duration_ms: 300");
    start(&machine, &config).detach("key").unwrap();
    // It ends by itself.
    let args = ["record", "--attach", "key", "-o", "trace"];
    succeeds(&tracezero(&machine, &args));
    let verdict = judged(&fs::read(machine.file("trace")).unwrap());
    assert!(ticks(&verdict).len() > 50);
}
