use std::time::Duration;

use super::{BufferConfig, ConfigError, DataSourceConfig, TraceConfig};

fn two_buffers() -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(64).named("a"))
        .add_buffer(BufferConfig::discard(64).named("b"))
}

fn target(data_source: DataSourceConfig) -> Result<usize, ConfigError> {
    let config = two_buffers()
        .add_data_source(data_source)
        .session_config()?;
    Ok(config.resolve()?.target_buffers[0])
}

#[test]
fn target_is_an_index_a_name_or_both_and_buffer_0_by_default() {
    let x = || DataSourceConfig::new("x");
    assert_eq!(target(x()), Ok(0));
    assert_eq!(target(x().target_index(1)), Ok(1));
    assert_eq!(target(x().target_name("b")), Ok(1));
    assert_eq!(target(x().target_name("b").target_index(1)), Ok(1));
}

#[test]
fn invalid_targets_are_rejected_with_their_values() {
    let x = || DataSourceConfig::new("x");
    let message = |data_source| target(data_source).unwrap_err().to_string();
    assert_eq!(
        message(x().target_index(2)),
        "data_sources[0] (x) targets buffers[2], which does not exist; the number of buffers is 2"
    );
    assert_eq!(
        message(x().target_name("c")),
        "data_sources[0] (x) targets the buffer \"c\", which does not exist; \
         use the name of a buffer"
    );
    assert_eq!(
        message(x().target_name("b").target_index(0)),
        "data_sources[0] (x) targets buffers[1] by name, but buffers[0] by index; \
         leave one of them out"
    );
}

#[test]
fn buffers_need_a_size_and_distinct_names() {
    let config = two_buffers().add_buffer(BufferConfig::ring(64).named("a"));
    assert_eq!(
        config.check().unwrap_err().to_string(),
        "buffers[2] has the same name as buffers[0], \"a\"; rename one of them"
    );
    let config = two_buffers().add_buffer(BufferConfig::ring(0));
    assert_eq!(config.check(), Err(ConfigError::EmptyBuffer { index: 2 }));
    let config = (0..129).fold(TraceConfig::empty(), |config, _| {
        config.add_buffer(BufferConfig::ring(4))
    });
    assert_eq!(
        config.check(),
        Err(ConfigError::TooManyBuffers { count: 129 })
    );
}

#[test]
fn shared_memory_consists_of_whole_pages_of_a_legal_size() {
    assert_eq!(two_buffers().shared_memory(256, 4).check(), Ok(()));
    for (size_kb, page_size_kb) in [(256, 3), (18, 16), (2, 4), (64 << 10, 4)] {
        let config = two_buffers().shared_memory(size_kb, page_size_kb);
        assert!(matches!(
            config.check(),
            Err(ConfigError::SharedMemory { .. })
        ));
    }
}

#[test]
fn recording_something_needs_a_buffer() {
    assert_eq!(TraceConfig::empty().check(), Ok(()));
    assert_eq!(
        TraceConfig::empty().record_all().check(),
        Err(ConfigError::NoBuffers)
    );
}

#[cfg(feature = "text-config")]
#[test]
fn decoding_restores_an_encoded_configuration() {
    for text in [
        include_str!("../../tests/configs/every_field.txtpb"),
        include_str!("../../tests/configs/every_notation.txtpb"),
        include_str!("../../tests/configs/shared_memory.txtpb"),
    ] {
        let config = TraceConfig::from_text(text).expect("valid");
        let carried = config.encode();
        assert_eq!(TraceConfig::decode(&carried), Ok(config));
    }
}

#[test]
fn wait_limit_is_set_per_data_source_or_for_all() {
    let limit = Duration::from_millis(7);
    let config = two_buffers()
        .wait_limit(Duration::from_secs(3))
        .add_data_source(DataSourceConfig::new("x"))
        .add_data_source(DataSourceConfig::new("y").stall_limit(limit));
    let config = config.session_config().expect("valid");
    let limits = config.data_sources.iter().map(|source| source.stall_limit);
    assert_eq!(limits.collect::<Vec<_>>(), [None, Some(limit)]);
    assert_eq!(config.wait_limit, Duration::from_secs(3));
}

#[test]
fn last_choice_of_shared_memory_wins() {
    let config = two_buffers()
        .shared_memory_for("", 256, 4)
        .shared_memory(512, 4);
    assert_eq!(config.message.producers.len(), 1);
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn empty_configuration_encodes_to_nothing() {
    assert_eq!(TraceConfig::empty().encode(), b"");
}

#[test]
fn fields_of_the_service_are_rejected_in_source_specific() {
    let name = [0x0a, 1, b'x'];
    let config = two_buffers().add_data_source(DataSourceConfig::new("y").source_specific(&name));
    assert_eq!(
        config.check().unwrap_err().to_string(),
        "data_sources[0].config.name: is not specific to the data source; use the method for it, \
         or leave it to the service"
    );
}
