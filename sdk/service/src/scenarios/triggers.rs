use std::time::Duration;

use crate::{CloneSource, ReceivedTrigger, State};
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig, Trigger, TriggerConfig, TriggerMode};
use tracezero_core::coordination::ServiceControl;
use tracezero_core::protos::trace_packet::Data;

use super::harness::{
    BEGIN_MS, OwnerCall, ReadTrace, TestProducer, TestSession, World, calls, write,
};

const HOUR_MS: u64 = 60 * 60 * 1000;
const TIMEOUT_MS: u32 = 8 * HOUR_MS as u32;

fn config(mode: TriggerMode, triggers: impl IntoIterator<Item = Trigger>) -> TraceConfig {
    let triggers = triggers.into_iter().fold(
        TriggerConfig::new(mode, Duration::from_millis(TIMEOUT_MS.into())),
        TriggerConfig::add_trigger,
    );
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128))
        .add_data_source(DataSourceConfig::new("ds"))
        .triggers(triggers)
}

fn producer(world: &World, name: &str) -> TestProducer {
    let producer = world.producer(name);
    producer.register("ds");
    producer
}

fn is_started(session: &TestSession) -> bool {
    session.state() == Some(State::Started)
}

/// Returns the triggers in a trace: name, producer and delay.
fn triggers_of(trace: &ReadTrace) -> Vec<(String, String, u64)> {
    let read = |data: &Data<'_>| match data {
        Data::Trigger(trigger) => Some((
            trigger.trigger_name().unwrap().unwrap().to_owned(),
            trigger.producer_name().unwrap().unwrap().to_owned(),
            trigger.stop_delay_ms().unwrap().unwrap(),
        )),
        _ => None,
    };
    trace.data().iter().filter_map(read).collect()
}

fn hit_by_p(name: &str, delay_ms: u64) -> (String, String, u64) {
    (name.to_owned(), "p".to_owned(), delay_ms)
}

fn clone_triggers(session: &TestSession) -> Vec<ReceivedTrigger> {
    let told = session.owner_calls().into_iter();
    told.filter_map(|told| match told {
        OwnerCall::CloneTriggered(trigger) => Some(trigger),
        _ => None,
    })
    .collect()
}

#[test]
fn start_trigger_starts_a_session_for_its_delay() {
    let world = World::new();
    let producer = producer(&world, "p");
    let session = world.session(config(
        TriggerMode::Start,
        [Trigger::new("go").stop_delay(Duration::from_millis(100))],
    ));
    assert_eq!(session.state(), Some(State::Configured));
    assert_eq!(producer.calls(), calls(&["set_up ds"]));
    producer.endpoint.activate_triggers(&["go"]);
    assert_eq!(producer.calls(), calls(&["start ds"]));
    write(&mut producer.writer("ds"), "after the trigger");
    world.advance_ms(99);
    assert!(is_started(&session));
    world.advance_ms(1);
    assert_eq!(session.state(), Some(State::Disabled));
    let trace = session.read();
    assert_eq!(triggers_of(&trace), [hit_by_p("go", 100)]);
    assert_eq!(trace.texts(), ["after the trigger"]);
}

#[test]
fn session_without_its_start_trigger_ends_empty() {
    let world = World::new();
    let producer = producer(&world, "p");
    let session = world.session(config(TriggerMode::Start, [Trigger::new("go")]));
    world.advance_ms(u64::from(TIMEOUT_MS));
    assert_eq!(session.state(), Some(State::Disabled));
    assert!(session.owner_calls().contains(&OwnerCall::Disabled(None)));
    assert_eq!(producer.calls(), calls(&["set_up ds", "stop ds"]));
    assert!(session.read().is_empty());
}

#[test]
fn unknown_trigger_mode_is_refused() {
    // trigger_config { trigger_mode: 5 trigger_timeout_ms: 1 }
    let bytes = [0x8a, 0x01, 4, 0x08, 5, 0x18, 1];
    let error = TraceConfig::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("trigger_mode"), "{error}");
}

#[test]
fn trigger_counts_only_from_matching_producers() {
    let world = World::new();
    let start = |pattern: &str| {
        let trigger = Trigger::new("go").producer_name_regex(pattern);
        world.session(config(TriggerMode::Start, [trigger]))
    };
    let (other, part, whole) = (
        start("other"),
        start("mock_produc"),
        start("mock_produc[e-r]+"),
    );
    let producer = producer(&world, "mock_producer");
    producer.endpoint.activate_triggers(&["go"]);
    assert!(!is_started(&other));
    assert!(!is_started(&part));
    assert!(is_started(&whole));
}

#[test]
fn a_trigger_of_another_name_starts_nothing() {
    let world = World::new();
    let producer = producer(&world, "p");
    let session = world.session(config(TriggerMode::Start, [Trigger::new("go")]));
    producer.endpoint.activate_triggers(&["go on"]);
    assert!(!is_started(&session));
}

#[test]
fn one_trigger_of_several_is_enough_to_start() {
    let world = World::new();
    let producer = producer(&world, "p");
    let triggers = [Trigger::new("one"), Trigger::new("two")];
    let session = world.session(config(TriggerMode::Start, triggers));
    producer.endpoint.activate_triggers(&["three", "two"]);
    assert!(is_started(&session));
}

#[test]
fn each_session_gets_the_triggers_that_it_names() {
    let world = World::new();
    let producer = producer(&world, "p");
    let first = world.session(config(TriggerMode::Start, [Trigger::new("a")]));
    let triggers = [Trigger::new("a"), Trigger::new("b")];
    let second = world.session(config(TriggerMode::Start, triggers));
    producer.endpoint.activate_triggers(&["b"]);
    assert!(!is_started(&first));
    assert!(is_started(&second));
    producer.endpoint.activate_triggers(&["a"]);
    assert!(is_started(&first));
    assert_eq!(first.read().triggers(), ["a"]);
    assert_eq!(second.read().triggers(), ["b", "a"]);
}

#[test]
fn unnamed_triggers_are_not_in_the_trace() {
    let world = World::new();
    let producer = producer(&world, "p");
    let session = world.session(config(TriggerMode::Start, [Trigger::new("go")]));
    producer
        .endpoint
        .activate_triggers(&["before", "go", "after"]);
    assert_eq!(session.read().triggers(), ["go"]);
}

#[test]
fn each_trigger_in_a_trace_has_its_own_delay() {
    let world = World::new();
    let producer = producer(&world, "p");
    let triggers = [
        Trigger::new("a").stop_delay(Duration::from_millis(10)),
        Trigger::new("b").stop_delay(Duration::from_millis(20)),
    ];
    let session = world.session(config(TriggerMode::Stop, triggers));
    producer.endpoint.activate_triggers(&["a", "b"]);
    let expected = [hit_by_p("a", 10), hit_by_p("b", 20)];
    assert_eq!(triggers_of(&session.read()), expected);
}

#[test]
fn a_trigger_that_was_read_is_not_read_again() {
    let world = World::new();
    let producer = producer(&world, "p");
    let triggers = [Trigger::new("a"), Trigger::new("b")];
    let session = world.session(config(TriggerMode::Start, triggers));
    producer.endpoint.activate_triggers(&["a"]);
    assert_eq!(session.read().triggers(), ["a"]);
    producer.endpoint.activate_triggers(&["b"]);
    assert_eq!(session.read().triggers(), ["b"]);
    assert!(session.read().triggers().is_empty());
}

#[test]
fn session_without_its_stop_trigger_ends_unreadable() {
    let world = World::new();
    let producer = producer(&world, "p");
    let session = world.session(config(TriggerMode::Stop, [Trigger::new("stop")]));
    write(&mut producer.writer("ds"), "in vain");
    assert!(session.read().is_empty());
    world.advance_ms(u64::from(TIMEOUT_MS));
    assert_eq!(session.state(), Some(State::Disabled));
    assert!(session.read().is_empty());
}

#[test]
fn ring_holds_packets_before_and_after_a_stop_trigger() {
    let world = World::new();
    let producer = producer(&world, "p");
    let trigger = Trigger::new("stop").stop_delay(Duration::from_millis(100));
    let session = world.session(config(TriggerMode::Stop, [trigger]));
    let mut writer = producer.writer("ds");
    let almost_all = 127 * 1024;
    write(&mut writer, &"x".repeat(almost_all));
    let small: Vec<String> = (0..10).map(|number| format!("{number:0200}")).collect();
    for (number, text) in small.iter().enumerate() {
        if number == 5 {
            producer.endpoint.activate_triggers(&["stop"]);
        }
        write(&mut writer, text);
        writer.flush();
    }
    world.advance_ms(100);
    assert_eq!(session.state(), Some(State::Disabled));
    let texts = session.read().texts();
    assert!(texts == small, "{} packets", texts.len());
}

#[test]
fn first_of_several_triggers_decides_the_stop() {
    let world = World::new();
    let producer = producer(&world, "p");
    let triggers = [
        Trigger::new("slow").stop_delay(Duration::from_millis(200)),
        Trigger::new("fast").stop_delay(Duration::from_millis(10)),
    ];
    let session = world.session(config(TriggerMode::Stop, triggers));
    producer.endpoint.activate_triggers(&["slow"]);
    producer.endpoint.activate_triggers(&["fast"]);
    world.advance_ms(199);
    assert!(is_started(&session));
    world.advance_ms(1);
    assert_eq!(session.state(), Some(State::Disabled));
    assert_eq!(session.read().triggers(), ["slow", "fast"]);
}

#[test]
fn trigger_is_limited_in_24_hours_over_all_sessions() {
    let world = World::new();
    let producer = producer(&world, "p");
    let start = || {
        let trigger = Trigger::new("go").max_per_24_h(1);
        world.session(config(TriggerMode::Start, [trigger]))
    };
    let hits = |session: &TestSession| {
        producer.endpoint.activate_triggers(&["go"]);
        is_started(session)
    };
    assert!(hits(&start()));
    world.advance_ms(23 * HOUR_MS);
    let late = start();
    assert!(!hits(&late));
    world.advance_ms(HOUR_MS);
    assert!(hits(&late));
}

#[test]
fn a_trigger_is_skipped_as_often_as_its_probability_says() {
    let world = World::new();
    let producer = producer(&world, "p");
    let trigger = Trigger::new("go").skip_probability(0.15);
    let session = world.session(config(TriggerMode::Start, [trigger]));
    world.set_chance(&[0.14, 0.16]);
    producer.endpoint.activate_triggers(&["go"]);
    assert!(!is_started(&session));
    producer.endpoint.activate_triggers(&["go"]);
    assert!(is_started(&session));
}

#[test]
fn each_triggered_clone_names_only_its_own_trigger() {
    let world = World::new();
    let producer = producer(&world, "p");
    let names = ["first", "second", "third"];
    let triggers = names.map(|name| Trigger::new(name).stop_delay(Duration::from_millis(10)));
    let session = world.session(config(TriggerMode::CloneSnapshot, triggers));
    let mut writer = producer.writer("ds");
    for name in names {
        write(&mut writer, name);
        producer.endpoint.activate_triggers(&[name]);
        assert!(session.read().is_empty());
        assert!(clone_triggers(&session).is_empty());
        world.advance_ms(10);
        let [asked] = &clone_triggers(&session)[..] else {
            panic!("{name} asked for one clone");
        };
        let clone = world
            .begin_clone_into(CloneSource::Id(session.id), 0, Some(asked.clone()), None)
            .finish()
            .unwrap();
        let trace = clone.read();
        assert_eq!(trace.triggers(), [name]);
        assert_eq!(trace.texts().last().unwrap(), name);
    }
    assert!(is_started(&session));
}

#[test]
fn owner_learns_who_hit_a_trigger_and_when() {
    let world = World::new();
    let producer = world.producer_of("p", 77);
    producer.register("ds");
    let trigger = Trigger::new("snap").stop_delay(Duration::from_millis(3));
    let session = world.session(config(TriggerMode::CloneSnapshot, [trigger]));
    world.advance_ms(5);
    producer.endpoint.activate_triggers(&["snap"]);
    world.advance_ms(3);
    let expected = ReceivedTrigger {
        timestamp_ns: (BEGIN_MS + 5) * 1_000_000,
        name: "snap".to_owned(),
        producer_name: "p".to_owned(),
        producer_uid: Some(77),
        stop_delay_ms: 3,
    };
    assert_eq!(clone_triggers(&session), [expected]);
}

#[test]
fn a_clone_names_the_trigger_that_asked_for_it_once() {
    let world = World::new();
    let producer = producer(&world, "p");
    let trigger = Trigger::new("snap").stop_delay(Duration::from_millis(3));
    let session = world.session(config(TriggerMode::CloneSnapshot, [trigger]));
    producer.endpoint.activate_triggers(&["snap"]);
    world.advance_ms(3);
    let asked = clone_triggers(&session).pop();
    let source = CloneSource::Id(session.id);
    let clone = world
        .begin_clone_into(source, 0, asked, None)
        .finish()
        .unwrap();
    let names = |trace: &ReadTrace| -> Vec<String> {
        let name = |data: &Data<'_>| match data {
            Data::CloneSnapshotTrigger(trigger) => {
                Some(trigger.trigger_name().unwrap().unwrap().to_owned())
            }
            _ => None,
        };
        trace.data().iter().filter_map(name).collect()
    };
    assert_eq!(names(&clone.read()), ["snap"]);
    assert!(names(&clone.read()).is_empty());
}

/// Activates triggers for a second. Returns how many of the session are in the next part of its
/// trace, and how many were ignored.
fn flood(world: &World, session: &TestSession, activate: impl Fn()) -> (usize, u64) {
    world.advance_ms(1000);
    let ignored = session.stats().triggers_ignored;
    activate();
    let received = session.read().triggers().len();
    (received, session.stats().triggers_ignored - ignored)
}

#[test]
fn triggers_are_limited_for_each_producer_and_session() {
    let world = World::new();
    let (first, second) = (producer(&world, "p"), producer(&world, "q"));
    let name = "n".repeat(256);
    let session = world.session(config(TriggerMode::Start, [Trigger::new(&name)]));
    let flood = |activate: &dyn Fn()| flood(&world, &session, activate);
    let hit = |names: &[&str]| first.endpoint.activate_triggers(names);
    assert_eq!(flood(&|| hit(&vec![name.as_str(); 64])), (64, 0));
    assert_eq!(flood(&|| hit(&vec![name.as_str(); 65])), (64, 1));
    // A session keeps 64 until they are read.
    assert_eq!(flood(&|| (0..70).for_each(|_| hit(&[&name]))), (64, 6));
    // Each call counts toward the producer's limit of 100 calls per second, even if no session
    // waits for its triggers.
    let call = |producer: &TestProducer, calls| {
        (0..calls).for_each(|_| producer.endpoint.activate_triggers(&["other"]));
    };
    let after_calls = |calls| {
        flood(&|| {
            call(&first, calls);
            hit(&[&name]);
        })
    };
    assert_eq!(after_calls(99), (1, 0));
    assert_eq!(after_calls(100), (0, 1));
    assert_eq!(after_calls(120), (0, 21));
    // Each producer has its own limit.
    let beside = flood(&|| {
        call(&second, 200);
        hit(&[&name]);
    });
    assert_eq!(beside, (1, 100));
    let too_long = format!("{name}n");
    assert_eq!(flood(&|| hit(&[&too_long, &name])), (1, 1));
}

#[test]
fn triggered_clones_that_are_not_due_are_limited() {
    let world = World::new();
    let producer = producer(&world, "p");
    let trigger = Trigger::new("go").stop_delay(Duration::from_secs(60));
    let session = world.session(config(TriggerMode::CloneSnapshot, [trigger]));
    let hit_twice = || (0..2).for_each(|_| producer.endpoint.activate_triggers(&["go"; 40]));
    hit_twice();
    assert_eq!(session.stats().triggers_ignored, 80 - 64);
    world.advance_ms(60_000);
    assert_eq!(clone_triggers(&session).len(), 64);
    // The clone takes over the triggers.
    drop(world.begin_clone(CloneSource::Id(session.id), 0).finish());
    hit_twice();
    world.advance_ms(60_000);
    assert_eq!(clone_triggers(&session).len(), 64);
}

#[test]
fn a_limit_of_hits_in_24_hours_is_at_most_10_000() {
    let world = World::new();
    let producer = producer(&world, "p");
    let limited = Trigger::new("go").max_per_24_h(20_000);
    let session = world.session(config(TriggerMode::CloneSnapshot, [limited]));
    let unlimited = world.session(config(TriggerMode::CloneSnapshot, [Trigger::new("go")]));
    let hits_each = 10_000 / 50;
    for _ in 0..hits_each + 10 {
        producer.endpoint.activate_triggers(&["go"; 50]);
        world.advance_ms(1000);
        for session in [&session, &unlimited] {
            drop(world.begin_clone(CloneSource::Id(session.id), 0).finish());
        }
    }
    assert_eq!(clone_triggers(&session).len(), 10_000);
    assert_eq!(clone_triggers(&unlimited).len(), 10_500);
}
