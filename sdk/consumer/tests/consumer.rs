//! Calls to a daemon of this process.

#![allow(clippy::unwrap_used)] // In tests, an unwrap is an assertion.

use std::fs::{self, File};
use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use protozero::OwnedMessage as _;
use support::Folder;
use tracezero_consumer::{Address, Consumer, ConsumerError, DaemonSession, SessionToClone};
use tracezero_host::{Daemon, DaemonOptions, Log, Stopper};

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon on a thread of this process.
struct TestDaemon {
    folder: Folder,
    stopper: Stopper,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl TestDaemon {
    fn start() -> Self {
        let folder = Folder::empty();
        let mut options = DaemonOptions::new(Log::new(|_| ()));
        options.producer_addresses = vec![Address::Path(folder.file("producers"))];
        options.consumer_addresses = vec![Address::Path(folder.file("consumers"))];
        let daemon = Daemon::bind(options).unwrap();
        Self {
            folder,
            stopper: daemon.stopper(),
            thread: Some(thread::spawn(|| daemon.run())),
        }
    }

    fn connect(&self) -> Consumer {
        self.connect_to("consumers").unwrap()
    }

    fn connect_to(&self, socket: &str) -> Result<Consumer, ConsumerError> {
        Consumer::connect_to(&Address::Path(self.folder.file(socket)))
    }

    fn start_session(&self, config: &str) -> DaemonSession {
        self.connect().start(&encoded(config)).unwrap()
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        self.stopper.stop();
        let served = self.thread.take().unwrap().join();
        if !thread::panicking() {
            served.unwrap().unwrap();
        }
    }
}

fn encoded(config: &str) -> Vec<u8> {
    tracezero_config::from_text(config).unwrap().encode_to_vec()
}

/// A session that has only the service's own packets.
const EMPTY: &str = "buffers { size_kb: 64 }";

#[track_caller]
fn assert_is_trace(bytes: &[u8]) {
    assert!(!bytes.is_empty());
    tracezero_reader::check(bytes, |finding| panic!("{finding:?}")).unwrap();
}

#[test]
fn a_trace_is_read_when_the_session_has_stopped() {
    let daemon = TestDaemon::start();
    let mut session = daemon.start_session(EMPTY);
    assert!(session.wait_until_started(PATIENCE).unwrap());
    assert!(!session.has_ended(Duration::ZERO).unwrap());
    assert!(session.flush(PATIENCE).unwrap());
    session.stop().unwrap();
    assert!(session.has_ended(Duration::ZERO).unwrap());
    let mut trace = Vec::new();
    assert!(session.read(&mut trace).unwrap() > 0);
    assert_is_trace(&trace);
    // It may be stopped again.
    session.stop().unwrap();
}

#[test]
fn a_session_ends_after_its_duration() {
    let daemon = TestDaemon::start();
    let mut session = daemon.start_session(&format!("{EMPTY} duration_ms: 10"));
    assert!(session.has_ended(PATIENCE).unwrap());
    let mut trace = Vec::new();
    session.read(&mut trace).unwrap();
    assert_is_trace(&trace);
}

#[test]
fn a_session_with_a_deferred_start_is_started_later() {
    let daemon = TestDaemon::start();
    let mut session = daemon.start_session(&format!("{EMPTY} deferred_start: true"));
    assert!(
        !session
            .wait_until_started(Duration::from_millis(20))
            .unwrap()
    );
    session.start_tracing().unwrap();
    assert!(session.wait_until_started(PATIENCE).unwrap());
}

#[test]
fn a_connection_has_one_session_after_another() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.connect();
    for _ in 0..3 {
        let mut session = consumer.start(&encoded(EMPTY)).unwrap();
        assert!(session.wait_until_started(PATIENCE).unwrap());
        assert_eq!(session.daemon_state().unwrap().num_sessions, 1);
        consumer = session.free().unwrap();
        assert_eq!(consumer.daemon_state().unwrap().num_sessions, 0);
    }
}

#[test]
fn a_refused_configuration_has_a_reason() {
    let daemon = TestDaemon::start();
    let config = encoded("data_sources { config { name: 'ds' } }");
    let error = daemon.connect().start(&config).unwrap_err();
    let ConsumerError::Refused { reason } = error else {
        panic!("{error:?}");
    };
    assert!(reason.contains("buffer"), "{reason}");
    // Nothing was sent of this one.
    let config = format!("{EMPTY} unique_session_name: '{}'", "n".repeat(200_000));
    let error = daemon.connect().start(&encoded(&config)).unwrap_err();
    assert!(matches!(error, ConsumerError::TooLong { .. }), "{error:?}");
}

#[test]
fn the_daemon_writes_the_trace_into_a_file() {
    let daemon = TestDaemon::start();
    let path = daemon.folder.file("trace");
    let config = encoded(&format!("{EMPTY} write_into_file: true"));
    let file = File::create_new(&path).unwrap();
    let mut session = daemon.connect().record_to_file(&config, file).unwrap();
    session.stop().unwrap();
    assert_is_trace(&fs::read(&path).unwrap());
    assert_eq!(session.read(io::sink()).unwrap(), 0);

    let unwritable = File::open(&path).unwrap();
    let started = daemon.connect().record_to_file(&config, unwritable);
    // The daemon may have noticed it already.
    let error = started.and_then(|mut session| session.stop()).unwrap_err();
    assert!(matches!(error, ConsumerError::Refused { .. }), "{error:?}");
}

#[test]
fn a_detached_session_is_attached_by_its_key() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.start_session(EMPTY).detach("key").unwrap();
    assert_eq!(consumer.daemon_state().unwrap().num_sessions, 1);
    let error = consumer.attach("other").unwrap_err();
    assert!(
        matches!(error, ConsumerError::Failed { method: "Attach" }),
        "{error:?}"
    );
    let mut session = daemon.connect().attach("key").unwrap();
    session.stop().unwrap();
    let mut trace = Vec::new();
    session.read(&mut trace).unwrap();
    assert_is_trace(&trace);
}

#[test]
fn a_session_is_cloned_by_number_and_name() {
    let daemon = TestDaemon::start();
    let config = format!("{EMPTY} unique_session_name: 'one' bugreport_score: 1");
    let mut session = daemon.start_session(&config);
    let state = session.daemon_state().unwrap();
    let [only] = &state.sessions[..] else {
        panic!("{state:?}");
    };
    assert_eq!(only.unique_session_name, "one");
    assert_eq!(only.buffer_sizes_kib, [64]);
    for wanted in [
        SessionToClone::Id(only.id),
        SessionToClone::Name("one"),
        SessionToClone::BestForBugreport,
    ] {
        let mut clone = daemon.connect().clone_session(wanted).unwrap();
        assert!(clone.has_ended(Duration::ZERO).unwrap());
        let mut trace = Vec::new();
        clone.read(&mut trace).unwrap();
        assert_is_trace(&trace);
    }
    let error = daemon.connect().clone_session(SessionToClone::Name("two"));
    assert!(matches!(error, Err(ConsumerError::Refused { .. })));
    assert!(!session.has_ended(Duration::ZERO).unwrap());
}

#[test]
fn a_clone_of_a_session_with_a_file_needs_a_file() {
    let daemon = TestDaemon::start();
    let config = encoded(&format!(
        "{EMPTY} unique_session_name: 'one' write_into_file: true"
    ));
    let file = File::create_new(daemon.folder.file("trace")).unwrap();
    let _session = daemon.connect().record_to_file(&config, file).unwrap();
    let one = SessionToClone::Name("one");
    let error = daemon.connect().clone_session(one).unwrap_err();
    assert!(matches!(error, ConsumerError::Refused { .. }), "{error:?}");
    let path = daemon.folder.file("clone");
    let file = File::create_new(&path).unwrap();
    daemon.connect().clone_to_file(one, file).unwrap();
    assert_is_trace(&fs::read(path).unwrap());

    // One without a file may be written into a file as well.
    let config = format!("{EMPTY} unique_session_name: 'two'");
    let _session = daemon.start_session(&config);
    let path = daemon.folder.file("other");
    let file = File::create_new(&path).unwrap();
    let two = SessionToClone::Name("two");
    daemon.connect().clone_to_file(two, file).unwrap();
    assert_is_trace(&fs::read(path).unwrap());
}

#[test]
fn a_daemon_says_what_it_can_do() {
    let daemon = TestDaemon::start();
    let mut consumer = daemon.connect();
    assert!(consumer.capabilities().unwrap().has_clones);
    let state = consumer.daemon_state().unwrap();
    assert!(state.version.contains("tracezero"), "{}", state.version);
    assert!(state.producers.is_empty());
}

#[test]
fn an_address_without_a_consumer_port_is_an_error_with_a_remedy() {
    let daemon = TestDaemon::start();
    let error = daemon.connect_to("producers").unwrap_err();
    assert!(
        matches!(error, ConsumerError::NoSuchPort { .. }),
        "{error:?}"
    );
    let error = daemon.connect_to("nobody").unwrap_err();
    assert!(matches!(error, ConsumerError::Connect { .. }), "{error:?}");
    assert!(
        error.to_string().contains("start `tracezero daemon`"),
        "{error}"
    );
}

#[test]
fn the_end_of_the_daemon_ends_the_session() {
    let daemon = TestDaemon::start();
    let mut session = daemon.start_session(EMPTY);
    daemon.stopper.stop();
    // The daemon lets consumers read their traces, and then closes the connection.
    assert!(session.has_ended(PATIENCE).unwrap());
    let mut trace = Vec::new();
    session.read(&mut trace).unwrap();
    assert_is_trace(&trace);
    drop(daemon);
    let error = session.stats().unwrap_err();
    assert!(
        matches!(error, ConsumerError::Closed | ConsumerError::Io(_)),
        "{error:?}"
    );
}
