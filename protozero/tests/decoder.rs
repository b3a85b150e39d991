//! Tests of the decoder, with valid and malformed messages.
#![cfg(feature = "alloc")]

mod support;

use protozero::{DecodeError, Decoder, Field, GROUPS_MAX_DEPTH, Message, Value, types};
use support::random_message::{tree, write_random};
use support::{Random, encode};

/// Reads all fields. Returns the first error, if there is one.
fn read(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, DecodeError> {
    Decoder::new(bytes)
        .fields()
        .map(|field| field.map(|Field { number, value }| (number, value)))
        .collect()
}

fn repeated<T: types::FieldType>(
    bytes: &[u8],
    number: u32,
) -> Result<Vec<T::Value<'_>>, DecodeError> {
    Decoder::new(bytes).repeated::<T>(number).collect()
}

#[test]
fn fields_of_every_wire_type_are_read_at_every_width_of_tag() {
    let long = [vec![0xba, 0x3e, 0x83, 0x01], vec![7; 131]].concat();
    let cases: [(&[u8], u32, Value<'_>); 14] = [
        (&[0x08, 0], 1, Value::Varint(0)),
        (&[0x08, 1], 1, Value::Varint(1)),
        (&[0x08, 0x42], 1, Value::Varint(0x42)),
        (&[0xf8, 0x07, 0x42], 127, Value::Varint(0x42)),
        (
            &[0xb8, 0x3e, 0xff, 0xff, 0xff, 0xff, 0x0f],
            999,
            Value::Varint(0xffff_ffff),
        ),
        (&[0x7d, 0x42, 0, 0, 0], 15, Value::Fixed32(0x42)),
        (
            &[0xbd, 0x3e, 0x78, 0x56, 0x34, 0x12],
            999,
            Value::Fixed32(0x1234_5678),
        ),
        (&[0x79, 0x42, 0, 0, 0, 0, 0, 0, 0], 15, Value::Fixed64(0x42)),
        (
            &[0xb9, 0x3e, 8, 7, 6, 5, 4, 3, 2, 1],
            999,
            Value::Fixed64(0x0102_0304_0506_0708),
        ),
        (&[0x0a, 0], 1, Value::Bytes(&[])),
        (&[0x0a, 4, 1, 2, 3, 4], 1, Value::Bytes(&[1, 2, 3, 4])),
        (
            &[0xba, 0x3e, 4, 1, 2, 3, 4],
            999,
            Value::Bytes(&[1, 2, 3, 4]),
        ),
        (&long, 999, Value::Bytes(&[7; 131])),
        (
            &[0xf8, 0xff, 0xff, 0xff, 0x0f, 5],
            (1 << 29) - 1,
            Value::Varint(5),
        ),
    ];
    for (bytes, number, value) in cases {
        assert_eq!(read(bytes), Ok(vec![(number, value)]));
    }
    assert_eq!(
        Decoder::new(&[8, 0]).last::<types::Bool>(1),
        Ok(Some(false))
    );
    assert_eq!(Decoder::new(&[8, 1]).last::<types::Bool>(1), Ok(Some(true)));
}

#[test]
fn floats_keep_their_bits() {
    let bytes = [0x0d, 0, 0, 0xa0, 0x3f];
    assert_eq!(Decoder::new(&bytes).last::<types::Float>(1), Ok(Some(1.25)));
    let bytes = [0x11, 0, 0, 0, 0, 0, 0x42, 0x8f, 0xc0];
    let double = Decoder::new(&bytes).last::<types::Double>(2);
    assert_eq!(double, Ok(Some(-1000.25)));
}

#[test]
fn strings_are_borrowed_from_the_message() {
    let bytes = encode(|message| {
        message.append_string::<1>("test");
        message.append_string::<1>("honk honk");
    });
    let strings = repeated::<types::Str>(&bytes, 1).unwrap();
    assert_eq!(strings, ["test", "honk honk"]);
    assert!(bytes.as_ptr_range().contains(&strings[1].as_ptr()));
    let last = Decoder::new(&bytes).last::<types::Str>(1);
    assert_eq!(last, Ok(Some("honk honk")));
}

#[test]
fn string_that_is_not_utf8_can_be_read_only_as_bytes() {
    let bytes = [0x0a, 1, 0xff];
    let decoder = Decoder::new(&bytes);
    let invalid = Err(DecodeError::InvalidUtf8 { field: 1 });
    assert_eq!(decoder.last::<types::Str>(1), invalid);
    assert_eq!(decoder.last::<types::Bytes>(1), Ok(Some(&[0xff][..])));
}

#[test]
fn nested_messages_are_read_by_decoders_of_their_own() {
    let bytes = [
        0x18, 5, 0x2a, 18, 0x0a, 5, b'h', b'e', b'l', b'l', b'o', 0x28, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 1,
    ];
    let outer = Decoder::new(&bytes);
    assert_eq!(outer.last::<types::Int32>(3), Ok(Some(5)));
    let inner = Decoder::new(outer.last::<types::Bytes>(5).unwrap().unwrap());
    assert_eq!(inner.last::<types::Str>(1), Ok(Some("hello")));
    assert_eq!(inner.last::<types::Int32>(5), Ok(Some(-1)));
    assert_eq!(inner.fields().count(), 2);
}

#[test]
fn a_field_beyond_256_mib_does_not_hide_its_neighbours() {
    const LARGE: usize = 257 << 20;
    let header = [0x08, 11, 0x12, 0x80, 0x80, 0xc0, 0x80, 0x01];
    let mut bytes = vec![0; header.len() + LARGE + 2];
    bytes[..header.len()].copy_from_slice(&header);
    bytes[header.len() + LARGE..].copy_from_slice(&[0x18, 13]);
    let fields = read(&bytes).unwrap();
    assert_eq!(fields[0], (1, Value::Varint(11)));
    assert_eq!(fields[2], (3, Value::Varint(13)));
    let large = Decoder::new(&bytes).last::<types::Bytes>(2);
    assert_eq!(large.unwrap().unwrap().len(), LARGE);
}

#[test]
fn interleaved_fields_keep_their_order_and_the_last_wins() {
    let bytes = [8, 10, 16, 20, 24, 30, 8, 11, 16, 21, 16, 22];
    let numbers: Vec<u32> = read(&bytes).unwrap().iter().map(|field| field.0).collect();
    assert_eq!(numbers, [1, 2, 3, 1, 2, 2]);
    let decoder = Decoder::new(&bytes);
    for (number, last, all) in [
        (1, 11, &[10, 11][..]),
        (2, 22, &[20, 21, 22]),
        (3, 30, &[30]),
    ] {
        assert_eq!(decoder.last::<types::Uint32>(number), Ok(Some(last)));
        assert_eq!(repeated::<types::Uint32>(&bytes, number).unwrap(), all);
    }
}

#[test]
fn zero_value_is_distinguished_from_an_absent_field() {
    let decoder = Decoder::new(&[0x08, 0]);
    assert_eq!(decoder.last::<types::Uint32>(1), Ok(Some(0)));
    assert_eq!(decoder.last::<types::Uint32>(2), Ok(None));
    assert_eq!(decoder.repeated::<types::Uint32>(2).count(), 0);
}

#[test]
fn repeated_fields_may_be_many_and_end_after_the_last() {
    let bytes = encode(|message| {
        for value in 0..2000 {
            message.append_uint32::<1>(value);
            message.append_bool::<2>(true);
        }
    });
    let values = repeated::<types::Uint32>(&bytes, 1).unwrap();
    assert!(values.into_iter().eq(0..2000));
    let mut one = Decoder::new(&[0x08, 7]).repeated::<types::Uint32>(1);
    assert_eq!(one.next(), Some(Ok(7)));
    assert_eq!(one.next(), None);
    assert_eq!(one.next(), None);
}

#[test]
fn cloned_iterator_continues_at_the_same_position() {
    let bytes = [8, 1, 8, 2, 8, 3];
    let mut values = Decoder::new(&bytes).repeated::<types::Uint32>(1);
    assert_eq!(values.next(), Some(Ok(1)));
    let copy = Box::new(values.clone());
    assert_eq!(values.next(), Some(Ok(2)));
    assert_eq!(copy.collect::<Result<Vec<_>, _>>(), Ok(vec![2, 3]));
}

#[test]
fn packed_fields_of_every_width_are_read() {
    let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let varints = [&[0x0a, 14, 0x2a, 0xff, 1, 0][..], &minus_one].concat();
    let read = repeated::<types::Int32>(&varints, 1);
    assert_eq!(read, Ok(vec![42, 255, 0, -1]));
    let bytes = encode(|message| message.append_packed_fixed32::<2>([42, 255, 0, 1]));
    let read = repeated::<types::Fixed32>(&bytes, 2);
    assert_eq!(read, Ok(vec![42, 255, 0, 1]));
    let bytes = encode(|message| message.append_packed_sfixed64::<3>([42, 255, 0, -1]));
    let read = repeated::<types::Sfixed64>(&bytes, 3);
    assert_eq!(read, Ok(vec![42, 255, 0, -1]));
    assert_eq!(repeated::<types::Sfixed64>(&bytes, 4), Ok(vec![]));
    assert_eq!(repeated::<types::Uint32>(&[0x0a, 0], 1), Ok(vec![]));
}

#[test]
fn packed_and_unpacked_pieces_of_one_field_are_read_in_order() {
    let bytes = encode(|message| {
        message.append_packed_sint32::<1>([-1, 2]);
        message.append_sint32::<1>(-3);
        message.append_packed_sint32::<1>([]);
        message.append_uint32::<2>(9);
        message.append_sint32::<1>(4);
        message.append_packed_sint32::<1>([-5]);
    });
    let read = repeated::<types::Sint32>(&bytes, 1);
    assert_eq!(read, Ok(vec![-1, 2, -3, 4, -5]));
}

#[test]
fn packed_varints_of_one_and_two_bytes_are_told_apart() {
    let read = repeated::<types::Uint32>(&[0x0a, 5, 1, 2, 0x7f, 0x80, 1], 1);
    assert_eq!(read, Ok(vec![1, 2, 127, 128]));
    let read = repeated::<types::Uint32>(&[0x0a, 4, 0xac, 2, 0x90, 3], 1);
    assert_eq!(read, Ok(vec![300, 400]));
}

#[test]
fn incomplete_packed_element_is_an_error_after_whole_ones() {
    let malformed = Some(Err(DecodeError::MalformedPacked { field: 1 }));
    let bytes = [0x0a, 10, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0];
    let mut values = Decoder::new(&bytes).repeated::<types::Fixed32>(1);
    assert_eq!(values.next(), Some(Ok(1)));
    assert_eq!(values.next(), Some(Ok(2)));
    assert_eq!(values.next(), malformed);
    assert_eq!(values.next(), None);
    let bytes = [0x0a, 5, 0x80, 8, 0x80, 0x10, 0x80, 8, 1];
    let mut values = Decoder::new(&bytes).repeated::<types::Uint64>(1);
    assert_eq!(values.next(), Some(Ok(1024)));
    assert_eq!(values.next(), Some(Ok(2048)));
    assert_eq!(
        values.next(),
        Some(Err(DecodeError::MalformedPacked { field: 1 }))
    );
    assert_eq!(values.next(), None);
}

#[test]
fn a_field_of_another_wire_type_is_an_error_that_names_it() {
    let mismatch = DecodeError::WireTypeMismatch { field: 1 };
    let varint = Decoder::new(&[0x08, 7]);
    assert_eq!(varint.last::<types::Fixed32>(1), Err(mismatch));
    assert_eq!(varint.last::<types::Bytes>(1), Err(mismatch));
    let repeated = varint.repeated::<types::Double>(1).next();
    assert_eq!(repeated, Some(Err(mismatch)));
    let bytes = Decoder::new(&[0x0a, 1, 7]);
    assert_eq!(bytes.last::<types::Uint32>(1), Err(mismatch));
}

#[test]
fn field_numbers_reach_to_their_limit_and_not_beyond() {
    let bytes = encode(|message| {
        message.append_uint32::<1>(1);
        message.append_uint32::<{ 1 << 24 }>(2);
        message.append_uint32::<65_535>(3);
        message.append_uint32::<{ (1 << 24) + 1023 }>(4);
        message.append_uint32::<2>(5);
        message.append_uint32::<{ 1 << 28 }>(6);
        message.append_uint32::<268_435_455>(7);
    });
    let numbers: Vec<u32> = read(&bytes).unwrap().iter().map(|field| field.0).collect();
    let expected = [
        1,
        1 << 24,
        65_535,
        (1 << 24) + 1023,
        2,
        1 << 28,
        268_435_455,
    ];
    assert_eq!(numbers, expected);
    let last = Decoder::new(&bytes).last::<types::Uint32>(268_435_455);
    assert_eq!(last, Ok(Some(7)));

    let invalid = Err(DecodeError::InvalidTag { offset: 0 });
    assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x10, 0]), invalid, "2^29");
    assert_eq!(
        read(&[0x88, 0x80, 0x80, 0x80, 0x80, 1, 0]),
        invalid,
        "2^32 + 1"
    );
}

#[test]
fn each_malformed_field_gives_its_own_error() {
    let truncated = DecodeError::Truncated { offset: 0 };
    let invalid = DecodeError::InvalidTag { offset: 0 };
    assert_eq!(read(&[]), Ok(vec![]));
    let malformed: [(&[u8], DecodeError); 16] = [
        (&[0x08], truncated),
        (&[0x80], truncated),
        (&[0x08, 0x80], truncated),
        (&[0x0d, 1, 2, 3], truncated),
        (&[0x09, 1, 2, 3, 4, 5, 6, 7], truncated),
        (&[0x0a], truncated),
        (&[0x0a, 1], truncated),
        (&[0x0a, 3, 1, 2], truncated),
        (
            &[
                0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 7,
            ],
            truncated,
        ),
        (&[0x00, 1], invalid),
        (&[0x01, 1], invalid),
        (&[0x02, 1, 1], invalid),
        (&[0x05, 1, 2, 3, 4], invalid),
        (&[0x0c], invalid),
        (&[0x0e, 0], invalid),
        (&[0x0f, 0], invalid),
    ];
    for (bytes, error) in malformed {
        assert_eq!(read(bytes), Err(error), "{bytes:02x?}");
        assert_eq!(Decoder::new(bytes).last::<types::Uint32>(1), Err(error));
        let mut repeated = Decoder::new(bytes).repeated::<types::Uint32>(1);
        assert_eq!(repeated.next(), Some(Err(error)));
        assert_eq!(repeated.next(), None, "an error is the last item");
    }
}

#[test]
fn varints_longer_than_needed_are_accepted() {
    let two_byte_tag = [0x88, 0, 7];
    let ten_byte_value = [8, 0x87, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0];
    for bytes in [&two_byte_tag[..], &ten_byte_value] {
        assert_eq!(read(bytes), Ok(vec![(1, Value::Varint(7))]));
    }
    let four_byte_length = [0x0a, 0x81, 0x80, 0x80, 0, 7];
    assert_eq!(read(&four_byte_length), Ok(vec![(1, Value::Bytes(&[7]))]));
}

#[test]
fn a_good_field_is_delivered_before_the_bad_one_after_it() {
    let mut fields = Decoder::new(&[8, 7, 0x0a, 9]).fields();
    assert_eq!(fields.next().unwrap().unwrap().value, Value::Varint(7));
    assert_eq!(fields.offset(), 2);
    let truncated = DecodeError::Truncated { offset: 2 };
    assert_eq!(fields.next(), Some(Err(truncated)));
}

#[test]
fn groups_are_skipped_with_their_content() {
    let group = [
        0x13, 0x08, 0x96, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 1, 0x14, 0x13, 0x14, 0x1b,
        0x1c, 0x25, 1, 2, 3, 4, 0x14,
    ];
    let bytes = [&[8, 1][..], &group, &[8, 2]].concat();
    assert_eq!(repeated::<types::Uint32>(&bytes, 1), Ok(vec![1, 2]));
    assert_eq!(read(&group), Ok(vec![]), "a message may end with a group");
}

#[test]
fn groups_end_with_their_own_number_only() {
    let invalid = Err(DecodeError::InvalidTag { offset: 2 });
    let truncated = Err(DecodeError::Truncated { offset: 2 });
    let cases: [(&[u8], Result<usize, DecodeError>); 7] = [
        (&[0x13, 0x14], Ok(1)),
        (&[0x13, 0x1b, 0x1c, 0x14], Ok(1)),
        (&[0x13, 0x1c], invalid),
        (&[0x13, 0x1b, 0x14, 0x1c], invalid),
        (&[0x13, 0x04], invalid),
        (&[0x13], truncated),
        (&[0x13, 0x13, 0x14], truncated),
    ];
    for (group, outcome) in cases {
        let bytes = [&[8, 1], group].concat();
        assert_eq!(
            read(&bytes).map(|fields| fields.len()),
            outcome,
            "{group:02x?}"
        );
    }
}

#[test]
fn groups_nest_as_deep_as_the_limit_and_no_deeper() {
    let nested = |depth| [vec![0x13; depth], vec![0x14; depth]].concat();
    assert_eq!(read(&nested(GROUPS_MAX_DEPTH)), Ok(vec![]));
    let too_deep = Err(DecodeError::GroupsTooDeep { offset: 0 });
    assert_eq!(read(&nested(GROUPS_MAX_DEPTH + 1)), too_deep);
    assert_eq!(read(&vec![0x13; 1 << 20]), too_deep);
}

/// Reads a message and the messages in it with every method of the decoder.
fn read_in_every_way(bytes: &[u8], depth_left: u32) {
    let decoder = Decoder::new(bytes);
    let mut fields = decoder.fields();
    for field in fields.by_ref() {
        if let (Ok(Value::Bytes(payload)), 1..) = (field.map(|field| field.value), depth_left) {
            read_in_every_way(payload, depth_left - 1);
        }
    }
    assert_eq!(fields.offset(), bytes.len(), "at the end nothing is left");
    for number in [1, 2, 4, 5, 9, 300] {
        let whole = decoder.fields().all(|field| field.is_ok());
        if decoder.last::<types::Uint64>(number).is_ok() {
            assert!(whole, "a value is never taken from a malformed message");
        }
        assert!(decoder.repeated::<types::Sint64>(number).count() <= bytes.len());
        assert!(decoder.repeated::<types::Fixed32>(number).count() <= bytes.len());
        assert!(decoder.repeated::<types::Str>(number).count() <= bytes.len());
    }
}

/// Returns messages with every wire type, a group, and nested messages.
fn golden_messages() -> Vec<Vec<u8>> {
    let mut messages = vec![
        encode(|message| {
            message.append_uint64::<1>(u64::MAX);
            message.append_fixed64::<2>(1);
            message.append_string::<257>("0123456789abcdefABCDEF");
            message.append_fixed32::<5>(7);
            message.append_raw(&[0x13, 0x08, 0x96, 0x01, 0x14]);
            message.append_sint32::<3>(-21);
            message.append_packed_int64::<4>([1, -1, 300]);
        }),
        encode(|message: &mut Message<'_>| {
            let mut child = message.begin_nested::<9>();
            child.append_raw(&[0x08; 200]);
            child.begin_nested::<9>().append_uint32::<1>(321);
        }),
    ];
    for seed in 1..40 {
        messages.push(encode(|message| {
            let _ = write_random(message, &mut Random(seed), 4);
        }));
    }
    messages
}

#[test]
fn message_cut_at_any_byte_is_an_error_or_a_clean_prefix() {
    for message in golden_messages() {
        let boundaries: Vec<usize> = {
            let mut fields = Decoder::new(&message).fields();
            core::iter::from_fn(|| {
                let offset = fields.offset();
                fields.next().map(|field| field.map(|_| offset))
            })
            .chain([Ok(message.len())])
            .collect::<Result<_, _>>()
            .unwrap()
        };
        let whole = read(&message).unwrap();
        for cut in 0..=message.len() {
            read_in_every_way(&message[..cut], 5);
            let fields: Vec<_> = Decoder::new(&message[..cut]).fields().collect();
            let good = fields.iter().filter(|field| field.is_ok()).count();
            for (field, expected) in fields.iter().flatten().zip(&whole) {
                assert_eq!((field.number, field.value), *expected);
            }
            if boundaries.contains(&cut) {
                assert_eq!(fields.len(), good, "a clean prefix");
            }
            // A group may lie between the last good field and the field that is cut.
            match fields[good..] {
                [] => {}
                [Err(DecodeError::Truncated { offset })] => {
                    assert!((boundaries[good]..cut).contains(&offset));
                }
                ref other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn random_bytes_never_make_the_decoder_panic_or_loop() {
    let mut random = Random(0x5eed);
    for _ in 0..20_000 {
        let len = random.below(40) as usize;
        let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        read_in_every_way(&bytes, 3);
    }
}

#[test]
fn damaged_messages_never_make_the_decoder_panic_or_loop() {
    let mut random = Random(0xdead);
    for message in golden_messages() {
        if message.is_empty() {
            continue;
        }
        assert_eq!(tree(&message).len(), read(&message).unwrap().len());
        for _ in 0..200 {
            let mut damaged = message.clone();
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.next() as u8;
            read_in_every_way(&damaged, 5);
        }
    }
}
