//! Forked children record nothing, whatever other threads did during the fork, and do not change
//! the trace of their parent.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use judge::{Event, ExtraSchema, Options, Value, Verdict, judge_with};
use perfetto_protos::trace_packet::TracePacket;
use support::alone;
use tracezero::{
    DataSource as _, Error, InMemorySession, Session, SessionState, Snapshot, TraceConfig,
    activate_trigger, counter, data_source, instant, protos, service_state, span,
};
use tracing::dispatcher::{self, Dispatch};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::own_process::{file_of_process, fork, fork_here, process, scratch};

struct Packets;
data_source!(Packets, "com.example.packets");

struct PacketsOfChildren;
data_source!(PacketsOfChildren, "com.example.packets_of_children");

#[test]
fn child_records_nothing_and_leaves_the_file_alone() {
    let _guard = alone();
    let path = scratch("quiet_child.pftrace");
    let mut session = Some(Session::record_to_file(&path).unwrap());
    record("before");
    let open = span!("parent", "across the fork");
    fork(|| {
        record("child");
        record_in_new_places();
        thread::spawn(|| record("child")).join().unwrap();
        thread::spawn(record_in_new_places).join().unwrap();
        drop(span!("parent", "child"));

        let session = session.take().unwrap();
        let control = session.control();
        assert_eq!(control.state(), SessionState::Ended);
        assert!(!control.flush());
        assert!(control.wait(Duration::from_secs(60)));
        assert_eq!(control.stats().sequences.len(), 0);
        assert_eq!(control.end_reason(), None);
        control.on_trigger(|_| ());
        control.stop();
        assert!(matches!(control.snapshot(), Err(Error::ForkedChild)));
        assert!(matches!(session.finish(), Err(Error::ForkedChild)));
        activate_trigger("child");
        assert_eq!(service_state().session_count, 0);

        let own_path = path.with_extension("of_child");
        let own = Session::record_to_file(&own_path).unwrap_err();
        assert!(own.to_string().contains("only after the fork"), "{own}");
        assert!(!own_path.exists());
        assert!(matches!(InMemorySession::start(), Err(Error::ForkedChild)));
        assert!(matches!(
            Snapshot::from_session("any"),
            Err(Error::ForkedChild)
        ));
    })
    .wait();
    fork(|| drop(session.take())).wait();
    drop(open);
    record("after");

    let report = session.take().unwrap().finish().unwrap();
    assert_eq!(report.losses.total(), 0);
    let verdict = accepted(&path, Options::default());
    for name in ["before", "after"] {
        assert_eq!(texts_of_packets(&verdict, name), 1);
        assert_eq!(points_with(&verdict, name), 1);
    }
    assert_eq!(texts_of_packets(&verdict, "child"), 0);
    assert_eq!(points_with(&verdict, "child"), 0);
    assert_eq!(verdict.events_named("new place").count(), 0);
    assert_eq!(verdict.events_named("child").count(), 0);
    assert_eq!(verdict.events_named("across the fork").count(), 1);
}

#[test]
fn child_finishes_memory_session_with_empty_trace() {
    let _guard = alone();
    let mut session = Some(InMemorySession::start().unwrap());
    record("before");
    fork(|| {
        let (trace, report) = session.take().unwrap().finish();
        assert_eq!((trace.len(), report.packets_begun), (0, 0));
    })
    .wait();
    fork(|| drop(session.take())).wait();
    assert_eq!(session.take().unwrap().finish().1.events, 2);
}

#[test]
fn a_packet_that_is_open_at_the_fork_is_the_parents() {
    let _guard = alone();
    let session = InMemorySession::start().unwrap();
    let mut child = None;
    let mut is_child = false;
    // The text is longer than several chunks, so that the child fills the chunk that it inherited.
    let long = "long ".repeat(4_000);
    Packets::trace(|cx| {
        cx.packet(|packet| {
            packet.for_testing(|event| {
                child = fork_here();
                is_child = child.is_none();
                event.set_str(&long);
            });
        });
        cx.packet(|packet| write_text(packet, &long));
    });
    if is_child {
        record("child");
        drop(session);
        std::process::exit(0);
    }
    child.unwrap().wait();
    let (trace, report) = session.finish();
    assert_eq!(report.losses.total(), 0);
    assert_eq!(
        texts_of_packets(&judged(&trace, Options::default()), &long),
        2
    );
}

#[test]
fn forks_while_threads_hold_locks_leave_the_trace_whole() {
    let _guard = alone();
    let path = scratch("many_children.pftrace");
    let mut session = Some(
        TraceConfig::default()
            .file_write_period(Duration::from_millis(10))
            .record_to_file(&path)
            .unwrap(),
    );
    let is_over = &AtomicBool::new(false);
    let control = session.as_ref().unwrap().control().clone();
    // Creates a sequence, so that statistics have one.
    record("parent");
    let recorded: u64 = thread::scope(|scope| {
        let tracing: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let rounds = (1..).take_while(|round| {
                        let _span = span!("parent", "round");
                        counter!("parent", "rounds", *round);
                        if round % 16 == 0 {
                            thread::sleep(Duration::from_millis(1));
                        }
                        !is_over.load(Ordering::Relaxed)
                    });
                    rounds.count() as u64 + 1
                })
            })
            .collect();
        // Starts and ends sessions, so that every lock is sometimes held.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let second = InMemorySession::start().unwrap();
                assert!(second.control().flush());
                drop(second);
                assert!(!control.stats().sequences.is_empty());
            }
        });
        // Ends the threads even if a child fails; otherwise the test would hang.
        let over = StopOnDrop(is_over);
        for _ in 0..200 {
            fork(|| {
                record("child");
                record_in_new_places();
                drop(span!("parent", "child"));
                assert!(InMemorySession::start().is_err());
                control.stop();
                drop(session.take());
            })
            .wait();
        }
        drop(over);
        tracing.into_iter().map(|it| it.join().unwrap()).sum()
    });
    let report = session.take().unwrap().finish().unwrap();
    assert_eq!(report.losses.total(), 0);
    let verdict = accepted(&path, Options::default());
    assert_eq!(verdict.events_named("round").count() as u64, recorded);
    assert_eq!(points_with(&verdict, "child"), 0);
    assert_eq!(verdict.events_named("new place").count(), 0);
    assert_eq!(verdict.open_spans, []);
}

/// A guard that tells threads to end when it is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Records an event as the crate `tracing-log` does for a record of `log`.
fn log_record(target: &str) {
    tracing::event!(
        name: "log event",
        target: "log",
        tracing::Level::INFO,
        log.target = target,
        "record"
    );
}

/// A guard that sets a flag when it is dropped, also by a panic.
struct TrueAtEnd<'a>(&'a AtomicBool);

impl Drop for TrueAtEnd<'_> {
    fn drop(&mut self) {
        // Relaxed: the flag orders no other memory.
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn child_forked_inside_tracing_layer_takes_no_lock() {
    let _guard = alone();
    let subscriber = tracing_subscriber::registry().with(tracezero::layer());
    let dispatch = &Dispatch::new(subscriber);
    let session = InMemorySession::start().unwrap();
    let is_over = &AtomicBool::new(false);
    let shared = &dispatcher::with_default(dispatch, || tracing::info_span!("shared", late = 0));
    let use_layer = || {
        log_record("library");
        shared.in_scope(|| ());
    };
    // Lets `tracing` do its one-time work for each call site.
    dispatcher::with_default(dispatch, use_layer);
    thread::scope(|scope| {
        let _over = TrueAtEnd(is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                dispatcher::with_default(dispatch, || {
                    while !is_over.load(Ordering::Relaxed) {
                        use_layer();
                    }
                });
            });
        }
        dispatcher::with_default(dispatch, || {
            for _ in 0..100 {
                let open = shared.clone().entered();
                fork(|| {
                    drop(open);
                    (0..100).for_each(|_| use_layer());
                })
                .wait();
            }
        });
    });
    drop(session);
}

#[test]
fn a_child_that_runs_a_new_program_records_for_itself() {
    let _guard = alone();
    let (path, path_of_child) = (scratch("parent.pftrace"), scratch("new_program.pftrace"));
    let session = Session::record_to_file(&path).unwrap();
    fork(|| {
        let error = process("forks::new_program", &path_of_child).exec();
        panic!("{error}");
    })
    .wait();
    record("parent");
    assert_eq!(session.finish().unwrap().events, 2);
    let verdict = accepted(&path_of_child, Options::default());
    assert_eq!(points_with(&verdict, "new program"), 1);
    assert_eq!(verdict.events.len(), 2);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn new_program() {
    let Some(path) = file_of_process() else {
        return;
    };
    let session = Session::record_to_file(path).unwrap();
    record("new program");
    assert_eq!(session.finish().unwrap().events, 2);
}

#[test]
fn parent_and_child_record_after_a_fork_before_any_session() {
    let path = scratch("forks_first.pftrace");
    let status = process("forks::forks_first", &path).status().unwrap();
    assert!(status.success(), "{status}");
    let of_child = accepted(&path.with_extension("of_child"), Options::default());
    assert_eq!(points_with(&of_child, "child"), 1);
    let of_parent = accepted(&path, Options::default());
    assert_eq!(points_with(&of_parent, "parent"), 1);
}

#[test]
#[ignore = "a process of its own, which another test starts"]
fn forks_first() {
    let Some(path) = file_of_process() else {
        return;
    };
    // Registers the trace points before the fork, for parent and child.
    record("nobody");
    fork(|| {
        let session = Session::record_to_file(path.with_extension("of_child")).unwrap();
        record("child");
        assert_eq!(session.finish().unwrap().events, 2);
    })
    .wait();
    let session = Session::record_to_file(path).unwrap();
    record("parent");
    assert_eq!(session.finish().unwrap().events, 2);
}

/// Records two events and a packet with this text.
fn record(text: &str) {
    instant!("both", "point", text = text);
    counter!("both", "count", 1);
    Packets::trace(|cx| cx.packet(|packet| write_text(packet, text)));
}

fn write_text(packet: &mut protos::TracePacket<'_>, text: &str) {
    packet.for_testing(|event| {
        event.set_str(text);
    });
}

/// Records at trace points that were not reached before the fork.
fn record_in_new_places() {
    instant!("child", "new place");
    drop(span!("child", "new place"));
    PacketsOfChildren::trace(|cx| cx.packet(|packet| write_text(packet, "child")));
}

fn points_with(verdict: &Verdict, text: &str) -> usize {
    let is_it = |event: &&Event| event.args.get("text") == Some(&Value::Text(text.to_owned()));
    verdict.events_named("point").filter(is_it).count()
}

fn texts_of_packets(verdict: &Verdict, text: &str) -> usize {
    let is_it =
        |packet: &&TracePacket| packet.has_for_testing() && packet.for_testing().str() == text;
    verdict.packets.iter().filter(is_it).count()
}

fn accepted(path: &Path, options: Options) -> Verdict {
    judged(&fs::read(path).unwrap(), options)
}

fn judged(trace: &[u8], options: Options) -> Verdict {
    judge_with(trace, &ExtraSchema::new(), options).unwrap_or_else(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}
