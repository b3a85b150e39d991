//! Clones of sessions.

use std::fs::File;

use tracezero_ipc::consumer_port::requests::{BEST_FOR_BUGREPORT, CloneSource, Request};

use crate::consumer::{Consumer, cloning, recording};
use crate::daemon::TestDaemon;
use crate::files::into_file;
use crate::producer::{Instance, Producer};

/// Starts a session that records a packet. Returns its producer, consumer, instance and id.
fn session(daemon: &TestDaemon, config: &str) -> (Producer, Consumer, Instance, u64) {
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    consumer.enable(&format!("{} {config}", recording("ds")));
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    let id = daemon.state().sessions.last().unwrap().id;
    (producer, consumer, instance, id)
}

#[test]
fn a_clone_has_what_its_source_has_recorded() {
    let daemon = TestDaemon::start();
    let (mut producer, mut consumer, instance, id) = session(&daemon, "unique_session_name: 'n'");
    for (source, numbers) in [
        (CloneSource::Id(id), vec![1]),
        (CloneSource::Name("n"), vec![1, 2]),
    ] {
        let mut cloner = daemon.consumer();
        let request = cloner.ask(&cloning(source));
        producer.answer_flush();
        let cloned = cloner.cloned(request).unwrap();
        assert_ne!(cloned.uuid, (0, 0));
        assert!(!cloned.was_written_into_file);
        assert_eq!(cloner.read_numbers(), numbers);
        producer.write(&instance, *numbers.last().unwrap() + 1);
        producer.sync();
    }
    assert_eq!(consumer.read_numbers(), [1, 2, 3]);
}

#[test]
fn the_best_for_a_bug_report_has_the_highest_score() {
    let daemon = TestDaemon::start();
    let mut cloner = daemon.consumer();
    let best = CloneSource::Id(BEST_FOR_BUGREPORT);
    let reason = cloner.clone_session(best).unwrap_err();
    assert!(reason.contains("does not exist"), "{reason}");
    let mut sessions = Vec::new();
    for score in [3, 7, 5] {
        let mut consumer = daemon.consumer();
        let config = format!("bugreport_score: {score} unique_session_name: 'n{score}'");
        consumer.enable(&format!("{} {config}", recording("ds")));
        consumer.state();
        sessions.push(consumer);
    }
    cloner.clone_session(best).unwrap();
    let sessions = daemon.state().sessions;
    let clone = sessions.iter().find(|it| it.state == "CLONED_READ_ONLY");
    assert_eq!(clone.unwrap().name, "n7");
}

#[test]
fn clone_of_no_session_or_by_its_owner_is_refused() {
    let daemon = TestDaemon::start();
    let (_producer, mut consumer, _instance, id) = session(&daemon, "");
    let mut cloner = daemon.consumer();
    for source in [
        CloneSource::Id(0),
        CloneSource::Id(id + 1),
        CloneSource::Name(""),
        CloneSource::Name("n"),
    ] {
        let reason = cloner.clone_session(source).unwrap_err();
        assert!(reason.contains("does not exist"), "{source:?}: {reason}");
    }
    let reason = consumer.clone_session(CloneSource::Id(id)).unwrap_err();
    assert!(reason.contains("has a session already"), "{reason}");
    assert_eq!(daemon.state().num_sessions, 1);
}

#[test]
fn a_connection_clones_one_session_at_a_time() {
    let daemon = TestDaemon::start();
    let (mut producer, _consumer, _instance, id) = session(&daemon, "");
    let mut cloner = daemon.consumer();
    // The clone waits for a flush. Meanwhile, the daemon refuses a second clone and a new session.
    let first = cloner.ask(&cloning(CloneSource::Id(id)));
    let second = cloner.ask(&cloning(CloneSource::Id(id)));
    let enabled = cloner.enable(&recording("ds"));
    let reason = cloner.cloned(second).unwrap_err();
    assert!(reason.contains("has a session already"), "{reason}");
    let reason = cloner.ended(enabled).unwrap();
    assert!(reason.contains("has a session already"), "{reason}");
    producer.answer_flush();
    cloner.cloned(first).unwrap();
    assert_eq!(cloner.read_numbers(), [1]);
    assert_eq!(daemon.state().num_sessions, 2);
    cloner.call(&Request::FreeBuffers);
    assert_eq!(daemon.state().num_sessions, 1);
    // After a failed clone, the connection may start a session.
    assert!(cloner.clone_session(CloneSource::Id(0)).is_err());
    let enabled = cloner.enable(&recording("none"));
    cloner.disable();
    assert_eq!(cloner.ended(enabled), None);
}

#[test]
fn a_file_session_is_cloned_into_a_file() {
    let daemon = TestDaemon::start();
    let mut producer = daemon.producer("p");
    producer.register("ds");
    let mut consumer = daemon.consumer();
    let trace = daemon.folder.file("trace");
    let open = |path| {
        let mut options = File::options();
        let options = options.read(true).write(true).create_new(true);
        options.open(path).unwrap()
    };
    let config = into_file("");
    let enabled = consumer.enable_with(&config, open(&trace));
    let instance = producer.started();
    producer.write(&instance, 1);
    producer.sync();
    let id = daemon.state().sessions[0].id;

    let mut cloner = daemon.consumer();
    let request = cloner.ask(&cloning(CloneSource::Id(id)));
    let reason = cloner.cloned(request).unwrap_err();
    assert!(reason.contains("clone it into a file"), "{reason}");
    let clone = daemon.folder.file("clone");
    let request = cloner.ask_with(&cloning(CloneSource::Id(id)), open(&clone).into());
    producer.answer_flush();
    let cloned = cloner.cloned(request).unwrap();
    assert!(cloned.was_written_into_file);
    // The file is complete when the reply comes.
    let bytes = std::fs::read(&clone).unwrap();
    assert!(support::is_whole(&bytes));
    assert_eq!(support::numbers(&bytes), [1]);

    producer.write(&instance, 2);
    producer.sync();
    consumer.disable();
    assert_eq!(consumer.ended(enabled), None);
    assert_eq!(support::numbers(&std::fs::read(&trace).unwrap()), [1, 2]);
}
