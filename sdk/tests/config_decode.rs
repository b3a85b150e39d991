//! Configurations as protobuf messages. The tests build the bytes field by field, as any encoder
//! might.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use protozero::{HeapBuffered, Message};
use tracezero::{BufferConfig, Compression, DataSourceConfig, TraceConfig};

/// Encodes a message.
fn encoded(write: impl FnOnce(&mut Message<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Message<'_>>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

/// Encodes a configuration with one data source, whose encoded `DataSourceConfig` is `config`.
fn with_source(config: &[u8]) -> Vec<u8> {
    let source = encoded(|out| out.append_bytes::<1>(config));
    encoded(|out| out.append_bytes::<2>(&source))
}

fn error(bytes: &[u8]) -> String {
    TraceConfig::decode(bytes).unwrap_err().to_string()
}

#[test]
fn no_bytes_are_a_configuration_that_chooses_nothing() {
    assert_eq!(TraceConfig::decode(b""), Ok(TraceConfig::empty()));
}

#[test]
fn buffers_and_data_sources_are_read_in_order() {
    let bytes = encoded(|out| {
        out.append_bytes::<1>(&encoded(|out| {
            out.append_uint32::<1>(64);
            out.append_int32::<4>(2);
        }));
        out.append_bytes::<2>(&encoded(|out| {
            out.append_bytes::<1>(&encoded(|out| {
                out.append_string::<1>("com.example.frames");
                out.append_string::<11>("second");
            }));
            out.append_string::<2>("com.example");
        }));
        out.append_bytes::<1>(&encoded(|out| {
            out.append_uint32::<1>(128);
            out.append_string::<7>("second");
        }));
    });
    let expected = TraceConfig::empty()
        .add_buffer(BufferConfig::discard(64))
        .add_buffer(BufferConfig::ring(128).named("second"))
        .add_data_source(
            DataSourceConfig::new("com.example.frames")
                .target_name("second")
                .producer_name("com.example"),
        );
    assert_eq!(TraceConfig::decode(&bytes), Ok(expected));
}

#[test]
fn a_message_in_several_pieces_is_read_as_one() {
    let bytes = encoded(|out| {
        out.append_bytes::<17>(&encoded(|out| out.append_int32::<1>(1)));
        out.append_bytes::<17>(&encoded(|out| out.append_uint32::<3>(1000)));
    });
    let whole = encoded(|out| {
        out.append_bytes::<17>(&encoded(|out| {
            out.append_int32::<1>(1);
            out.append_uint32::<3>(1000);
        }));
    });
    assert_eq!(TraceConfig::decode(&bytes), TraceConfig::decode(&whole));
    assert_ne!(TraceConfig::decode(&bytes), Ok(TraceConfig::empty()));
}

#[test]
fn zero_means_the_same_as_no_value() {
    let triggers = encoded(|out| {
        out.append_bytes::<17>(&encoded(|out| {
            out.append_uint32::<3>(0);
            out.append_bool::<5>(false);
        }));
    });
    assert_eq!(TraceConfig::decode(&triggers), Ok(TraceConfig::empty()));
}

#[test]
fn unknown_messages_reach_the_data_source_unchanged() {
    let unknown = encoded(|out| {
        out.append_bytes::<100>(b"not even a message");
        out.append_uint64::<536>(7);
    });
    let config = encoded(|out| {
        out.append_bytes::<100>(b"not even a message");
        out.append_string::<1>("linux.ftrace");
        out.append_uint64::<536>(7);
    });
    let source = DataSourceConfig::new("linux.ftrace").source_specific(&unknown);
    assert_eq!(
        TraceConfig::decode(&with_source(&config)),
        Ok(TraceConfig::empty().add_data_source(source))
    );
}

#[test]
fn config_cannot_set_fields_of_the_service() {
    let config = encoded(|out| {
        out.append_string::<1>("x");
        out.append_uint32::<3>(5);
        out.append_uint64::<4>(5);
        out.append_bool::<6>(true);
        out.append_uint32::<7>(5);
        out.append_int32::<8>(1);
        out.append_bool::<122>(true);
    });
    let expected = TraceConfig::empty().add_data_source(DataSourceConfig::new("x"));
    assert_eq!(TraceConfig::decode(&with_source(&config)), Ok(expected));
}

#[test]
fn of_several_ways_to_compress_the_best_wins() {
    let compression = |bytes: &[u8]| TraceConfig::decode(bytes).unwrap();
    let chosen = |compression| TraceConfig::empty().compression(compression);
    let by_older_field = encoded(|out| out.append_int32::<24>(1));
    assert_eq!(compression(&by_older_field), chosen(Compression::Deflate));
    let both = encoded(|out| {
        out.append_bytes::<47>(&encoded(|out| {
            out.append_bytes::<2>(b"");
            out.append_bytes::<1>(b"");
        }));
    });
    assert_eq!(compression(&both), chosen(Compression::Zstd { level: 1 }));
    let none = encoded(|out| out.append_bytes::<47>(b""));
    assert_eq!(compression(&none), TraceConfig::empty());
}

#[test]
fn unknown_fields_are_refused_with_the_message_and_their_number() {
    assert_eq!(
        error(&encoded(|out| out.append_uint32::<99>(1))),
        "the configuration has field 99, which is not in the schema; leave it out"
    );
    assert_eq!(
        error(&encoded(|out| {
            out.append_bytes::<1>(b"");
            out.append_bytes::<1>(&encoded(|out| out.append_uint32::<2>(1)));
        })),
        "buffers[1] has field 2, which is not in the schema; leave it out"
    );
    assert_eq!(
        error(&with_source(&encoded(|out| out.append_uint32::<99>(1)))),
        "data_sources[0].config has field 99, which is not in the schema; \
         leave it out"
    );
    assert_eq!(
        error(&with_source(&encoded(|out| out.append_bytes::<113>(
            &encoded(|out| out.append_uint32::<11>(1))
        )))),
        "data_sources[0].config.track_event_config has field 11, \
         which is not in the schema; leave it out"
    );
}

#[test]
fn unsupported_fields_are_refused_by_name() {
    assert_eq!(
        error(&encoded(|out| out.append_bytes::<33>(b""))),
        "trace_filter is not supported; leave it out, and filter the finished trace"
    );
    assert_eq!(
        error(&with_source(&encoded(|out| out.append_bytes::<115>(b"")))),
        "data_sources[0].config.interceptor_config is not supported; \
         leave it out, and read the packets from the trace"
    );
}

#[test]
fn values_out_of_range_are_refused_not_cut_off() {
    assert_eq!(
        error(&encoded(|out| out.append_uint64::<3>(1 << 32))),
        "duration_ms: 4294967296 is more than 4294967295"
    );
    assert_eq!(
        error(&encoded(|out| out.append_int64::<30>(1 << 31))),
        "bugreport_score: 2147483648 is not within -2147483648 to 2147483647"
    );
    assert_eq!(
        error(&encoded(|out| out.append_int32::<44>(4))),
        "write_flush_mode: the value 4 is not supported"
    );
}

#[test]
fn bytes_that_are_no_configuration_are_refused_with_their_place() {
    assert_eq!(
        error(&encoded(|out| out.append_string::<3>("5"))),
        "duration_ms: field 3 has a wire type that its schema does not allow"
    );
    assert_eq!(
        error(&encoded(|out| out.append_bytes::<22>(b"\xff"))),
        "unique_session_name: string field 22 is not UTF-8"
    );
    assert_eq!(
        error(&encoded(|out| out.append_bytes::<1>(b"\x08"))),
        "buffers[0]: the message ends inside the field at offset 0"
    );
    assert_eq!(
        error(&encoded(|out| out.append_uint32::<1>(64))),
        "buffers[0]: field 1 has a wire type that its schema does not allow"
    );
    // An empty group.
    assert_eq!(
        error(b"\x0b\x0c"),
        "the configuration: groups are not supported"
    );
}

#[test]
fn source_specific_fields_are_checked_like_other_fields() {
    let check = |fields: Vec<u8>| {
        TraceConfig::empty()
            .add_buffer(BufferConfig::ring(64))
            .add_data_source(DataSourceConfig::new("x").source_specific(&fields))
            .check()
            .map_err(|error| error.to_string())
    };
    assert_eq!(check(encoded(|out| out.append_uint32::<100>(1))), Ok(()));
    assert_eq!(
        check(encoded(|out| out.append_uint32::<99>(1))).unwrap_err(),
        "data_sources[0].config has field 99, which is not in the schema; \
         leave it out"
    );
    assert_eq!(
        check(encoded(|out| out.append_uint32::<113>(1))).unwrap_err(),
        "data_sources[0].config.track_event_config: field 113 has a wire type that its schema \
         does not allow"
    );
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let valid = with_source(&encoded(|out| {
        out.append_string::<1>("track_event");
        out.append_bytes::<113>(&encoded(|out| out.append_string::<1>("*")));
    }));
    for end in 0..valid.len() {
        // A message that is cut off decodes only if it is valid and shorter; either result is fine.
        let _ = TraceConfig::decode(&valid[..end]);
    }
    let mut decoded = 0;
    for at in 0..valid.len() {
        for value in 0..=u8::MAX {
            let mut bytes = valid.clone();
            bytes[at] = value;
            decoded += usize::from(TraceConfig::decode(&bytes).is_ok());
        }
    }
    assert!(decoded > valid.len(), "{decoded}");
}
