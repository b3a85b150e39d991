//! Tests of target buffers: by name, by index, and buffers that a producer may not write to.

use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::ids::BufferId;

use super::harness::{World, write};

/// Creates a configuration with two named buffers and one without a name.
fn buffers() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(128).named("first"))
        .add_buffer(BufferConfig::ring(128).named("second"))
        .add_buffer(BufferConfig::ring(128))
}

/// Returns the buffer that a data source is set up to write to, in a new service; or the error of
/// the session.
fn target(data_source: DataSourceConfig) -> Result<BufferId, String> {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let config = buffers().add_data_source(data_source);
    let session = world
        .try_session(config, 0)
        .map_err(|error| error.to_string())?;
    let mut writer = producer.writer("ds");
    write(&mut writer, "found its way");
    session.disable();
    assert_eq!(session.read().texts(), ["found its way"]);
    Ok(producer.setup("ds").1.target_buffer)
}

fn ds() -> DataSourceConfig {
    DataSourceConfig::new("ds")
}

#[test]
fn a_buffer_is_targeted_by_name_by_index_or_by_both() {
    assert_eq!(target(ds().target_name("second")), Ok(BufferId(2)));
    assert_eq!(
        target(ds().target_name("second").target_index(1)),
        Ok(BufferId(2))
    );
    assert_eq!(target(ds().target_index(2)), Ok(BufferId(3)));
    assert_eq!(target(ds()), Ok(BufferId(1)));
}

#[test]
fn missing_or_contradictory_target_is_refused() {
    let unknown = target(ds().target_name("third")).unwrap_err();
    assert!(
        unknown.contains("\"third\", which does not exist"),
        "{unknown}"
    );
    let mismatch = target(ds().target_name("second").target_index(2)).unwrap_err();
    assert!(
        mismatch.contains("buffers[1] by name, but buffers[2]"),
        "{mismatch}"
    );
    let outside = target(ds().target_index(3)).unwrap_err();
    assert!(outside.contains("buffers[3]"), "{outside}");
}

#[test]
fn two_buffers_of_one_name_are_refused() {
    let world = World::new();
    let config = buffers().add_buffer(BufferConfig::ring(128).named("first"));
    let message = world.try_session(config, 0).err().unwrap().to_string();
    assert!(
        message.contains("buffers[3] has the same name as buffers[0], \"first\""),
        "{message}"
    );
}

#[test]
fn chunks_for_a_session_without_the_producer_are_dropped() {
    let world = World::new();
    let (inside, outside) = (world.producer("inside"), world.producer("outside"));
    inside.register("ds");
    outside.register("other");
    let session = world.session(buffers().add_data_source(ds()));
    let target = inside.setup("ds").1.target_buffer;
    let mut own = inside.writer("ds");
    write(&mut own, "allowed");
    let mut wrong_buffer = inside.writer_to(BufferId(target.0 + 1));
    write(&mut wrong_buffer, "a buffer that is for nobody");
    let mut stranger = outside.writer_to(target);
    write(&mut stranger, "a producer that takes no part");
    for writer in [&mut own, &mut wrong_buffer, &mut stranger] {
        writer.flush();
    }
    assert_eq!(session.stats().chunks_discarded, 2);
    session.disable();
    assert_eq!(session.read().texts(), ["allowed"]);
}

#[test]
fn chunks_for_a_freed_session_are_dropped() {
    let world = World::new();
    let producer = world.producer("p");
    producer.register("ds");
    let first = world.session(buffers().add_data_source(ds()));
    let mut late = producer.writer("ds");
    write(&mut late, "too late");
    drop(first);
    let second = world.session(buffers().add_data_source(ds()));
    late.flush();
    assert_eq!(second.stats().chunks_discarded, 1);
    second.disable();
    assert!(second.read().texts().is_empty());
}
