//! Configurations of other programs: what of them is carried out, listed or refused.

#![allow(clippy::unwrap_used)] // In helpers as in tests, an unwrap is an assertion.

use protozero::{HeapBuffered, Message};
use tracezero_config::{
    ConfigError, LISTED_FIELDS_MAX, data_source_configs, decode, decode_foreign,
};

/// Encodes a message.
fn encoded(write: impl FnOnce(&mut Message<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Message<'_>>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

/// Encodes a configuration with one buffer and one data source, whose `DataSourceConfig` is `config`.
fn with_source(config: &[u8]) -> Vec<u8> {
    let buffer = encoded(|out| out.append_uint32::<1>(64));
    let source = encoded(|out| out.append_bytes::<1>(config));
    encoded(|out| {
        out.append_bytes::<1>(&buffer);
        out.append_bytes::<2>(&source);
    })
}

/// Encodes a field whose value is the number 0 or an empty message.
fn field(number: u32, is_message: bool) -> Vec<u8> {
    let tag = number << 3 | if is_message { 2 } else { 0 };
    let mut bytes = Vec::new();
    let mut rest = tag;
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.extend([rest as u8, 0]);
    bytes
}

fn ignored(bytes: &[u8]) -> Vec<String> {
    decode_foreign(bytes).unwrap().ignored
}

fn error(bytes: &[u8]) -> String {
    decode_foreign(bytes).unwrap_err().to_string()
}

/// Returns the error of a configuration that is decoded, but cannot be carried out.
fn contradiction(bytes: &[u8]) -> String {
    let config = decode_foreign(bytes).unwrap().session;
    config.resolve().unwrap_err().to_string()
}

/// Returns what decoding says about a field whose type is not known.
fn outcome(encode: impl Fn(bool) -> Vec<u8>) -> Result<Vec<String>, ConfigError> {
    let results = [true, false].map(|is_message| decode_foreign(&encode(is_message)));
    let mut results = results.into_iter();
    let fits = results.find(|it| !matches!(it, Err(ConfigError::Malformed { .. })));
    fits.expect("one of the types is right")
        .map(|it| it.ignored)
}

/// Sorts the numbers of fields into those that are listed, with the paths, and those that are
/// refused. All others are carried out or passed on.
fn sort(
    numbers: impl Iterator<Item = u32>,
    encode: impl Fn(u32, bool) -> Vec<u8>,
) -> (Vec<(u32, String)>, Vec<u32>) {
    let (mut listed, mut refused) = (Vec::new(), Vec::new());
    for number in numbers {
        match outcome(|is_message| encode(number, is_message)) {
            Ok(paths) => listed.extend(paths.into_iter().map(|path| (number, path))),
            Err(_) => refused.push(number),
        }
    }
    (listed, refused)
}

#[test]
fn each_field_of_a_session_is_carried_out_listed_or_refused() {
    let (listed, refused) = sort(1..=50, field);
    let expected = [
        (7, "statsd_metadata"),
        (15, "15"),
        (18, "activate_triggers"),
        (25, "incident_report_config"),
        (26, "26"),
        (31, "statsd_logging"),
        (34, "android_report_config"),
        (35, "cmd_trace_start_delay"),
        (37, "37"),
        (40, "priority_boost"),
        (42, "42"),
        (46, "notes"),
        (49, "49"),
        (50, "50"),
    ];
    assert_eq!(
        listed,
        expected.map(|(number, path)| (number, path.to_owned()))
    );
    // The filter of packets, and its number in the first versions of Perfetto.
    assert_eq!(refused, [32, 33]);
}

#[test]
fn each_field_of_a_data_source_is_carried_out_listed_or_passed_on() {
    let encode = |number, is_message| with_source(&field(number, is_message));
    let (listed, refused) = sort((1..=20).chain(99..=150).chain([1000, 1001, 2000]), encode);
    let numbers: Vec<_> = listed.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [5, 13, 14, 15, 16, 17, 18, 19, 20, 99]);
    assert_eq!(listed[0].1, "data_sources[0].config.5");
    assert_eq!(refused, []);
}

#[test]
fn each_ignored_field_is_named_once() {
    let bytes = encoded(|out| {
        out.append_string::<18>("first");
        out.append_bytes::<1>(&encoded(|out| out.append_uint32::<99>(1)));
        out.append_uint32::<99>(1);
        out.append_string::<18>("second");
        out.append_bytes::<1>(&encoded(|out| {
            out.append_uint32::<99>(1);
            out.append_string::<99>("again");
        }));
        out.append_string::<99>("again");
    });
    assert_eq!(
        ignored(&bytes),
        ["activate_triggers", "buffers[0].99", "99", "buffers[1].99"]
    );
}

#[test]
fn list_of_ignored_fields_has_a_limit() {
    let many: Vec<u8> = (1000..2000)
        .flat_map(|number| field(number, true))
        .collect();
    let listed = ignored(&many);
    assert_eq!(listed.len(), LISTED_FIELDS_MAX);
    assert_eq!(listed.last().unwrap(), "1063");
}

#[test]
fn filter_of_packets_is_refused_by_name_and_remedy() {
    let expected = "trace_filter is not supported; leave it out, and filter the finished trace";
    assert_eq!(error(&field(33, true)), expected);
    assert_eq!(error(&field(32, true)), expected);
}

#[test]
fn wrong_values_are_refused_as_in_own_configurations() {
    let too_long = encoded(|out| out.append_uint64::<3>(1 << 32));
    let malformed = encoded(|out| out.append_string::<3>("5"));
    let trigger_without_mode = encoded(|out| {
        out.append_bytes::<17>(&encoded(|out| out.append_uint32::<3>(1000)));
    });
    for bytes in [
        &too_long,
        &malformed,
        &trigger_without_mode,
        &b"\x0b\x0c".to_vec(),
    ] {
        assert_eq!(error(bytes), decode(bytes).unwrap_err().to_string());
    }
    let out_of_bounds = with_source(&encoded(|out| {
        out.append_string::<1>("ds");
        out.append_uint32::<2>(1);
    }));
    assert_eq!(
        contradiction(&out_of_bounds),
        "data_sources[0] (ds) targets buffers[1], which does not exist; the number of buffers is 1"
    );
    let week = encoded(|out| out.append_uint32::<3>(7 * 24 * 3_600_000 + 1));
    assert_eq!(
        contradiction(&week),
        "duration_ms: 604800001 ms is more than the limit of 604800000 ms (168 hours)"
    );
    let empty_buffer = encoded(|out| out.append_bytes::<1>(b""));
    assert_eq!(
        contradiction(&empty_buffer),
        "buffers[0]: size_kb is 0; give at least 1"
    );
}

#[test]
fn unknown_values_that_change_what_is_recorded_are_refused() {
    let policy = encoded(|out| {
        out.append_bytes::<1>(&encoded(|out| out.append_int32::<4>(3)));
    });
    assert_eq!(
        error(&policy),
        "buffers[0].fill_policy: the value 3 is not supported"
    );
    let lockdown = encoded(|out| out.append_int32::<5>(3));
    assert_eq!(
        error(&lockdown),
        "lockdown_mode: the value 3 is not supported"
    );
    let mode = encoded(|out| {
        out.append_bytes::<17>(&encoded(|out| out.append_int32::<1>(3)));
    });
    assert_eq!(
        error(&mode),
        "trigger_config.trigger_mode: the value 3 is not supported"
    );
}

#[test]
fn other_unknown_values_leave_the_defaults() {
    let bytes = encoded(|out| {
        out.append_bytes::<1>(&encoded(|out| out.append_int32::<8>(2)));
        out.append_bytes::<20>(&encoded(|out| out.append_int32::<5>(9)));
        out.append_int32::<44>(4);
    });
    let config = decode_foreign(&bytes).unwrap();
    assert_eq!(
        config.ignored,
        [
            "buffers[0].experimental_mode",
            "write_flush_mode",
            "builtin_data_sources.primary_trace_clock",
        ]
    );
    assert_eq!(
        config.session.builtin_data_sources.primary_trace_clock,
        None
    );
    assert_eq!(config.session.write_flush_mode, Default::default());
}

#[test]
fn compression_that_the_build_lacks_is_none() {
    let older = encoded(|out| out.append_int32::<24>(1));
    let newer = encoded(|out| {
        out.append_bytes::<47>(&encoded(|out| out.append_bytes::<2>(b"")));
    });
    for (bytes, field, is_built) in [
        (older, "compression_type", cfg!(feature = "deflate")),
        (newer, "compression", cfg!(feature = "zstd")),
    ] {
        let config = decode_foreign(&bytes).unwrap();
        let is_none = config.session.compression == Default::default();
        let expected = if is_built { vec![] } else { vec![field] };
        assert_eq!(
            (is_none, config.ignored),
            (!is_built, expected.into_iter().map(str::to_owned).collect())
        );
        assert!(config.session.resolve().is_ok());
    }
}

#[test]
fn sizes_of_shared_memories_are_left_to_who_makes_them() {
    let producer = |size_kb: u32| {
        encoded(|out| {
            out.append_string::<1>("p");
            out.append_uint32::<2>(size_kb);
        })
    };
    let bytes = encoded(|out| {
        out.append_bytes::<6>(&producer(18));
        out.append_bytes::<6>(&producer(4096));
    });
    let config = decode_foreign(&bytes).unwrap();
    assert_eq!(config.ignored, ["producers[1]"]);
    let sizes: Vec<_> = config
        .session
        .shared_memory
        .iter()
        .map(|it| it.size_kb)
        .collect();
    assert_eq!(sizes, [18]);
    assert!(config.session.resolve().unwrap().shared_memory.is_none());
}

#[test]
fn fields_for_the_data_source_are_not_judged() {
    // A pattern that this SDK's own data source refuses, and an unknown field beside it.
    let events = encoded(|out| {
        out.append_string::<1>("a*b");
        out.append_uint32::<11>(1);
    });
    let config = with_source(&encoded(|out| {
        out.append_bytes::<100>(b"not even a message");
        out.append_bytes::<113>(&events);
    }));
    assert_eq!(ignored(&config), [] as [&str; 0]);
    assert!(decode(&config).is_err());
}

#[test]
fn bytes_of_data_sources_are_those_of_the_configuration() {
    let source = |pieces: &[&[u8]]| {
        encoded(|out| {
            for piece in pieces {
                out.append_bytes::<1>(piece);
                out.append_string::<2>("a producer");
            }
        })
    };
    let bytes = encoded(|out| {
        out.append_bytes::<2>(&source(&[b"\x0a\x01a\x10\x00"]));
        out.append_uint32::<3>(5);
        out.append_bytes::<2>(&source(&[]));
        out.append_bytes::<2>(&source(&[b"\x0a\x01b", b"\x98\x06\x07"]));
    });
    let expected: [&[u8]; 3] = [b"\x0a\x01a\x10\x00", b"", b"\x0a\x01b\x98\x06\x07"];
    assert_eq!(data_source_configs(&bytes), expected);
    assert_eq!(
        decode_foreign(&bytes).unwrap().session.data_sources.len(),
        3
    );
}
