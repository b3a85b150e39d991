//! Programs that record for the daemon.

#![allow(unsafe_code)] // Forks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fmt, io, process, thread};

use tracezero::protos::track_event::Type;
use tracezero::{
    DataSource as _, DataSourceConfig, InMemorySession, System, SystemState, TraceConfig,
    TrackEventConfig, data_source, enabled, instant, span,
};

use self::schema::TrackEventExt as _;
use crate::allocations::counts_allocations;
use crate::machine::wait_until;

mod packets; // packets of a data source of the program
mod table; // changes of a table
mod triggers; // sessions that wait for a trigger

pub use self::packets::{LONG_PACKET_BYTES, NUMBERS, PAYLOAD_BYTES, payload};
pub use self::table::{CHANGES, TABLE, Table, change, patch, schema as table_schema};
pub use self::triggers::TRIGGER;

/// The environment variable that says what the program does.
pub const KIND: &str = "TRACEZERO_TEST_PRODUCER";

/// The kind of a program that connects to a daemon of another user.
pub const UNTRUSTING: &str = "untrusting";
/// The user of that daemon.
pub const STRANGER: u32 = 65_534;

/// The environment variable with the name of the producer.
pub const NAME: &str = "TRACEZERO_TEST_PRODUCER_NAME";

/// The kind of a program that does not connect by itself.
pub const BY_ENVIRONMENT: &str = "environment";

/// The kind of a program whose writers wait long for a daemon that has stopped.
pub const PATIENT: &str = "fast and patient";

/// The kind of a program whose writers wait for [`IMPATIENT_LIMIT`].
pub const IMPATIENT: &str = "fast and impatient";
pub const IMPATIENT_LIMIT: Duration = Duration::from_millis(100);

/// The kind of a program that ticks all the time, and what it says when a session begins and ends.
pub const TICKS: &str = "ticks";
pub const RECORDING: &str = "recording";
pub const IDLE: &str = "idle";

/// The number of spans of each thread.
pub const SPANS: u64 = 10_000;
/// The number of instants of a thread that then sleeps.
pub const INSTANTS: u64 = 100;

type Work = fn(&System);

/// The number of threads that [`threads_of_five_events`] starts.
pub const SHORT_LIVES: u64 = 10_000;
/// The number of events that each of these threads records.
pub const EVENTS_OF_A_LIFE: u64 = 5;

/// The number of events of a program that laps its ring.
pub const MANY_EVENTS: u64 = 1_000_000;

/// The kinds of programs, each with the function that such a program calls.
const KINDS: &[(&str, Work)] = &[
    ("spans", three_threads_with_spans),
    ("sleepers", threads_that_sleep),
    ("both", a_session_of_its_own),
    (TICKS, ticks_for_ever),
    ("reports", events_with_reports),
    ("fast", at_full_speed),
    (PATIENT, at_full_speed),
    (IMPATIENT, at_full_speed),
    ("forks", forks_in_a_packet),
    ("samples", samples_of_an_own_schema),
    ("exits", exits_at_once),
    ("allocations", |_| counts_allocations()),
    ("short lives", threads_of_five_events),
    ("two sessions", two_sessions),
    ("start trigger", triggers::starts_a_session),
    ("stop trigger", triggers::stops_a_session),
    ("clone trigger", triggers::clones_a_session),
    ("laps", many_events),
    ("late numbers", packets::numbers_of_a_late_data_source),
    ("payloads", packets::payloads_of_all_sizes),
    ("long packet", packets::one_long_packet),
    ("table", table::changes_of_a_table),
];

/// The program.
#[test]
#[ignore = "started by other tests"]
fn is_a_producer() {
    let Ok(kind) = env::var(KIND) else {
        return;
    };
    if kind == BY_ENVIRONMENT {
        return ticks_while_enabled();
    }
    if kind == UNTRUSTING {
        return trusts_at_the_second_attempt();
    }
    let (_, work) = KINDS.iter().find(|(name, _)| *name == kind).unwrap();
    let name = env::var(NAME).unwrap();
    let mut builder = System::builder().producer_name(name);
    match &*kind {
        PATIENT | "payloads" | "long packet" => {
            builder = builder.stall_limit(Duration::from_secs(30));
        }
        IMPATIENT => builder = builder.stall_limit(IMPATIENT_LIMIT),
        _ => {}
    }
    let system = builder.connect().unwrap();
    assert!(system.wait_connected(Duration::from_secs(10)), "{system:?}");
    say("connected");
    work(&system);
}

pub fn say(word: &str) {
    println!("\n{word}");
}

/// Waits for a line on the standard input. Ends the program if the test has ended.
pub fn wait_for_line() {
    if io::stdin().read_line(&mut String::new()).unwrap() == 0 {
        process::exit(1);
    }
}

fn three_threads_with_spans(_: &System) {
    wait_until(|| enabled!("test"));
    thread::scope(|scope| {
        for number in 0..3 {
            let name = format!("worker {number}");
            let work = move || {
                for index in 0..SPANS {
                    let _span = span!(
                        "test",
                        "work",
                        index,
                        half = index as f64 / 2.0,
                        on = "a thread"
                    );
                }
            };
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, work)
                .unwrap();
        }
    });
    say("done");
    wait_for_line();
}

fn threads_that_sleep(_: &System) {
    wait_until(|| enabled!("test"));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (wrote, has_written) = std::sync::mpsc::channel();
                scope.spawn(move || {
                    for index in 0..INSTANTS {
                        instant!("test", "before sleep", index);
                    }
                    wrote.send(()).unwrap();
                    thread::park();
                });
                has_written
            })
            .collect();
        for has_written in threads {
            has_written.recv().unwrap();
        }
        say("done");
    });
}

mod schema {
    protozero::include_protos!("memory");
}

/// A data source whose schema the trace must have.
struct Samples;
data_source!(
    Samples,
    "com.example.samples",
    protozero::include_descriptor_set!("memory")
);

/// The number of samples.
pub const SAMPLES: u64 = 1000;

fn samples_of_an_own_schema(_: &System) {
    Samples::register();
    wait_until(Samples::is_enabled);
    for index in 0..SAMPLES {
        Samples::trace(|cx| {
            let now = cx.now_ns();
            cx.packet(|packet| {
                packet.set_timestamp(now);
                packet.track_event(|event| {
                    event.set_type(Type::INSTANT);
                    event.set_name("sample");
                    event.memory_sample(|sample| {
                        sample.set_virtual_kb(index).set_resident_kb(1);
                    });
                });
            });
        });
    }
    say("done");
    wait_for_line();
}

/// Starts many threads one after the other, a few at once. Each records a few events.
fn threads_of_five_events(_: &System) {
    /// The number of threads that are alive at once.
    const AT_ONCE: u64 = 8;

    wait_until(|| enabled!("test"));
    let life = |number: u64| {
        for index in 0..EVENTS_OF_A_LIFE {
            instant!("test", "of a short life", number, index);
        }
    };
    thread::scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || {
                for number in (first..SHORT_LIVES).step_by(AT_ONCE as usize) {
                    thread::spawn(move || life(number)).join().unwrap();
                }
            });
        }
    });
    say("done");
    wait_for_line();
}

/// Records so many events at full speed that small rings are lapped many times.
fn many_events(_: &System) {
    wait_until(|| enabled!("test"));
    for index in 0..MANY_EVENTS {
        instant!("test", "one of many", index);
    }
    say("done");
    wait_for_line();
}

/// Has a session of its own beside that of the daemon.
fn a_session_of_its_own(_: &System) {
    wait_until(|| enabled!("another") && enabled!("system"));
    let only_own = TrackEventConfig::default()
        .disable("*")
        .enable("both")
        .enable("own");
    let events = DataSourceConfig::new("track_event").track_event(&only_own);
    let config = TraceConfig::default().add_data_source(events);
    let session: InMemorySession = config.record_in_memory().unwrap();
    for index in 0..1000_u64 {
        instant!("both", "for both", index);
        instant!("own", "for its own", index);
        instant!("system", "for the daemon", index);
    }
    let report = session.finish().1;
    assert_eq!((report.events, report.losses.total()), (2000, 0));
    say("done");
    wait_for_line();
}

/// Knows nothing of the daemon. The environment makes it connect at its first trace point.
fn ticks_while_enabled() {
    wait_until(|| enabled!("test"));
    for index in 0..100_u64 {
        instant!("test", "tick", index);
    }
    say("done");
    wait_for_line();
}

/// Ends without dropping the connection, as soon as it has recorded.
fn exits_at_once(_: &System) {
    wait_until(|| enabled!("test"));
    for index in 0..INSTANTS {
        instant!("test", "tick", index);
    }
    process::exit(0);
}

/// Records a few events in each of two sessions, which record different categories. The first session
/// may be cut off.
fn two_sessions(_: &System) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| enabled!("first") || is_over.load(Ordering::Relaxed));
            for index in 0..INSTANTS {
                instant!("first", "in the first session", index);
            }
            say("first");
        });
        wait_for_line();
        is_over.store(true, Ordering::Relaxed);
    });
    wait_until(|| enabled!("second"));
    let process = process::id();
    for index in 0..INSTANTS {
        instant!("second", "in the second session", process, index);
    }
    say("second");
    wait_for_line();
}

/// Connects to a daemon of another user, says why it does not trust the daemon, and trusts it then.
fn trusts_at_the_second_attempt() {
    let untrusting = System::connect().unwrap();
    let mut why = None;
    wait_until(|| {
        if let SystemState::Waiting { reason, .. } = untrusting.state() {
            why = Some(reason);
        }
        why.is_some()
    });
    say(&why.unwrap());
    drop(untrusting);
    let system = System::builder().trust_uid(STRANGER).connect().unwrap();
    assert!(system.wait_connected(Duration::from_secs(10)), "{system:?}");
    ticks_while_enabled();
}

/// Emits a tick every millisecond. Says [`RECORDING`] at the first tick that a session records, and
/// [`IDLE`] at the first one after it that no session records.
fn ticks_for_ever(_: &System) {
    let mut is_recorded = false;
    for index in 0_u64.. {
        let was_recorded = is_recorded;
        is_recorded = false;
        // The block is evaluated only if a session records this call site. `enabled!` has a switch
        // of its own, which a session may turn on earlier.
        instant!(
            "test",
            "tick",
            index = {
                is_recorded = true;
                index
            }
        );
        if is_recorded != was_recorded {
            say(if is_recorded { RECORDING } else { IDLE });
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Says the number of each event after it. The name of the program is the number of its run.
fn events_with_reports(_: &System) {
    let run: u64 = env::var(NAME).unwrap().parse().unwrap();
    wait_until(|| enabled!("test"));
    for index in 0_u64.. {
        instant!("test", "reported", run, index);
        println!("{index}");
    }
}

/// Records at full speed until a line comes, and says the longest time of an event.
fn at_full_speed(system: &System) {
    wait_until(|| enabled!("test"));
    say("started");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_for_line();
            is_over.store(true, Ordering::Relaxed);
        });
        let mut longest = Duration::ZERO;
        let mut count = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            let start = Instant::now();
            instant!("test", "fast", count);
            longest = longest.max(start.elapsed());
            count += 1;
        }
        // Records events until one is not dropped. The packet of that event reports the losses
        // before it, so every loss is reported.
        let is_recorded = |count: u64| {
            let before = system.stats().packets.packets_dropped;
            instant!("test", "fast", count);
            system.stats().packets.packets_dropped == before
        };
        wait_until(|| {
            count += 1;
            is_recorded(count - 1)
        });
        let stats = system.stats();
        println!(
            "\n{count} {} {} {} {}",
            longest.as_micros(),
            stats.packets.packets_dropped,
            stats.packets.drop_episodes,
            stats.waited.as_micros()
        );
    });
    wait_for_line();
}

/// Forks while an argument of an event is formatted. The child records, and outlives its parent.
fn forks_in_a_packet(_: &System) {
    /// Seconds for which the child lives.
    const CHILD_SECONDS: u64 = 5;

    struct Forks;

    impl fmt::Display for Forks {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            // SAFETY: the child does what Rust programs do after a fork in one thread, and ends.
            let child = unsafe { libc::fork() };
            f.write_str(if child == 0 { "child" } else { "parent" })
        }
    }

    wait_until(|| enabled!("test"));
    let parent = process::id();
    instant!("test", "forked in", by = %Forks);
    for index in 0..1000_u64 {
        instant!("test", "after the fork", index);
    }
    if process::id() != parent {
        thread::sleep(Duration::from_secs(CHILD_SECONDS));
        process::exit(0);
    }
    say("forked");
    wait_for_line();
}
