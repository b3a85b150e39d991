//! Reading a trace in parts.

use super::harness::{ReadTrace, TestSession, World, write};
use support::Account;
use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};

/// The size of a part that a consumer asks for.
const PART_BYTES: usize = 100_000;
/// By how much a part may be longer: a batch of packets, with the chunk that comes last.
const BATCH_MAX_BYTES: usize = 256 * 1024;

fn config() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(8192))
        .add_buffer(BufferConfig::ring(8192))
        .add_data_source(DataSourceConfig::new("first"))
        .add_data_source(DataSourceConfig::new("second").target_index(1))
}

/// Reads the rest in parts. Calls `between` after each part.
fn read_in_parts(world: &World, session: &TestSession, mut between: impl FnMut()) -> ReadTrace {
    let mut trace = Vec::new();
    let mut goes_on = true;
    while goes_on {
        let before = trace.len();
        goes_on = world.service.read_some(session.id, PART_BYTES, &mut trace);
        let part_bytes = trace.len() - before;
        assert!(part_bytes <= PART_BYTES + BATCH_MAX_BYTES, "{part_bytes}");
        between();
    }
    ReadTrace::of(trace)
}

/// Returns the texts of packets that are about 1000 bytes long.
fn texts(count: usize) -> Vec<String> {
    let text = |number| format!("{number} {}", "x".repeat(1000));
    (0..count).map(text).collect()
}

#[test]
fn parts_of_a_trace_are_the_trace() {
    let world = World::new();
    let producer = world.producer("p");
    let mut expected = Vec::new();
    for name in ["first", "second"] {
        producer.register(name);
    }
    let session = world.session(config());
    for name in ["first", "second"] {
        let mut writer = producer.writer(name);
        for text in texts(2000) {
            write(&mut writer, &text);
            expected.push(text);
        }
    }
    session.disable();
    let mut parts = 0;
    let trace = read_in_parts(&world, &session, || parts += 1);
    assert!(parts > 10, "{parts}");
    assert_eq!(trace.texts(), expected);
    // The packets of the service came once, and nothing comes again.
    let ends = |event: &&&str| **event == "read_tracing_buffers_completed";
    assert_eq!(trace.events().iter().filter(ends).count(), 1);
    assert!(session.read().texts().is_empty());
}

#[test]
fn packets_that_come_between_parts_are_in_a_trace_once() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("first");
    let session = world.session(config());
    let mut writer = producer.writer("first");
    let mut all = texts(4000).into_iter();
    let mut write_some = |count| {
        all.by_ref()
            .take(count)
            .for_each(|text| write(&mut writer, &text));
        writer.flush();
    };
    write_some(2000);
    let first = read_in_parts(&world, &session, || write_some(20));
    write_some(4000);
    session.disable();
    let second = read_in_parts(&world, &session, || {});
    let texts_of_both = [first.texts(), second.texts()].concat();
    assert_eq!(texts_of_both, texts(4000));
}

#[test]
fn reading_everything_finishes_what_was_read_in_part() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("first");
    let session = world.session(config());
    let mut writer = producer.writer("first");
    texts(2000).iter().for_each(|text| write(&mut writer, text));
    session.disable();
    let mut part = Vec::new();
    assert!(world.service.read_some(session.id, PART_BYTES, &mut part));
    let part = ReadTrace::of(part).texts();
    let rest = session.read().texts();
    assert!(!part.is_empty() && !rest.is_empty());
    assert_eq!([part, rest].concat(), texts(2000));
}

#[test]
fn reading_goes_on_to_the_end_of_a_session_that_ended_between_parts() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("first");
    let session = world.session(config());
    let mut writer = producer.writer("first");
    let all = texts(4000);
    let (before, after) = all.split_at(2000);
    before.iter().for_each(|text| write(&mut writer, text));
    writer.flush();
    let mut trace = Vec::new();
    assert!(world.service.read_some(session.id, PART_BYTES, &mut trace));
    after.iter().for_each(|text| write(&mut writer, text));
    session.disable();
    trace.extend(session.read().bytes);
    // The last account is that of the whole trace.
    let account = Account::of(&trace);
    assert_eq!((account.begun, account.read), (4000, 4000), "{account:?}");
    assert_eq!(ReadTrace::of(trace).texts(), all);
}
