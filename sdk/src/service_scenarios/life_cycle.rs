use crate::consumer::{BufferConfig, DataSourceConfig, TraceConfig};
use crate::service::State;

use super::harness::{Call, Told, World, write};

fn config() -> TraceConfig {
    TraceConfig::new()
        .buffer(BufferConfig::ring(128))
        .data_source(DataSourceConfig::new("ds"))
}

fn names(calls: &[&str]) -> Vec<Call> {
    let call = |call: &&str| {
        let (verb, name) = call.split_once(' ').unwrap();
        let name = name.to_owned();
        match verb {
            "set_up" => Call::SetUp(name),
            "start" => Call::Start(name),
            "stop" => Call::Stop(name),
            other => panic!("{other} is no call"),
        }
    };
    calls.iter().map(call).collect()
}

#[test]
fn data_sources_are_set_up_started_and_stopped_and_their_packets_read() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let session = world.session(config());
    assert_eq!(producer.calls(), names(&["set_up ds", "start ds"]));
    let mut writer = producer.writer("ds");
    write(&mut writer, "one");
    write(&mut writer, "two");
    session.disable();
    assert_eq!(producer.calls(), names(&["stop ds"]));
    assert_eq!(session.state(), Some(State::Disabled));
    assert!(session.told().contains(&Told::Disabled(None)));
    assert_eq!(session.read().texts(), ["one", "two"]);
}
