//! Tests of the wire format: tags, varints, zigzag and padded lengths, written and read back.
#![cfg(feature = "alloc")]

mod support;

use protozero::{DecodeError, Decoder, Message, Value, redundant_varint, types};
use support::encode;

/// Numbers at every boundary of 7-bit groups, with their hand-computed varints.
const VARINTS: [(u64, &[u8]); 23] = [
    (0, &[0]),
    (1, &[1]),
    (0x7f, &[0x7f]),
    (0xff, &[0xff, 1]),
    (0x3fff, &[0xff, 0x7f]),
    (0x4000, &[0x80, 0x80, 1]),
    (0x1f_ffff, &[0xff, 0xff, 0x7f]),
    (0x20_0000, &[0x80, 0x80, 0x80, 1]),
    (0xfff_ffff, &[0xff, 0xff, 0xff, 0x7f]),
    (0x1000_0000, &[0x80, 0x80, 0x80, 0x80, 1]),
    (0xffff_ffff, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
    (1 << 32, &[0x80, 0x80, 0x80, 0x80, 0x10]),
    ((1 << 35) - 1, &[0xff, 0xff, 0xff, 0xff, 0x7f]),
    (1 << 35, &[0x80, 0x80, 0x80, 0x80, 0x80, 1]),
    ((1 << 42) - 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
    (1 << 42, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]),
    ((1 << 49) - 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
    (1 << 49, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]),
    (
        (1 << 56) - 1,
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    ),
    (
        1 << 56,
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
    ),
    (
        (1 << 63) - 1,
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    ),
    (
        1 << 63,
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
    ),
    (
        u64::MAX,
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    ),
];

/// Returns the tags of field `FIELD` with the wire types varint, fixed64, length-delimited and
/// fixed32.
fn tags<const FIELD: u32>() -> [u64; 4] {
    let write: [fn(&mut Message<'_>); 4] = [
        |message| message.append_uint32::<FIELD>(0),
        |message| message.append_double::<FIELD>(0.0),
        |message| message.append_bytes::<FIELD>(&[]),
        |message| message.append_float::<FIELD>(0.0),
    ];
    let value_lens = [1, 8, 1, 4];
    let mut tags = [0; 4];
    for ((tag, write), value_len) in tags.iter_mut().zip(write).zip(value_lens) {
        let field = encode(write);
        let tag_bytes = &field[..field.len() - value_len];
        *tag = (0..)
            .zip(tag_bytes)
            .map(|(index, byte)| u64::from(byte & 0x7f) << (7 * index))
            .sum();
    }
    tags
}

#[test]
fn tags_hold_the_field_number_and_the_wire_type() {
    assert_eq!(tags::<1>(), [0x08, 0x09, 0x0a, 0x0d]);
    assert_eq!(tags::<0x7f>(), [0x3f8, 0x3f9, 0x3fa, 0x3fd]);
    assert_eq!(tags::<0x80>(), [0x400, 0x401, 0x402, 0x405]);
    assert_eq!(tags::<0x3fff>(), [0x1_fff8, 0x1_fff9, 0x1_fffa, 0x1_fffd]);
    assert_eq!(tags::<0x4000>(), [0x2_0000, 0x2_0001, 0x2_0002, 0x2_0005]);
}

#[test]
fn fields_of_the_same_width_have_the_same_wire_type() {
    let bytes = encode(|message| {
        message.append_fixed64::<1>(0);
        message.append_sfixed64::<1>(0);
        message.append_fixed32::<1>(0);
        message.append_sfixed32::<1>(0);
    });
    let fields: Vec<Value<'_>> = Decoder::new(&bytes)
        .fields()
        .map(|field| field.unwrap().value)
        .collect();
    let (eight, four) = (Value::Fixed64(0), Value::Fixed32(0));
    assert_eq!(fields, [eight, eight, four, four]);
}

#[test]
fn zigzag_keeps_small_magnitudes_small_and_round_trips() {
    for (value, encoded) in [
        (0, 0),
        (-1, 1),
        (1, 2),
        (-2, 3),
        (-127, 253),
        (-132_323, 264_645),
        (-2_147_483_647, 4_294_967_293),
        (i32::MAX, 4_294_967_294),
        (i32::MIN, u64::from(u32::MAX)),
    ] {
        let bytes = encode(|message| message.append_sint32::<1>(value));
        let decoder = Decoder::new(&bytes);
        assert_eq!(decoder.last::<types::Uint64>(1), Ok(Some(encoded)));
        assert_eq!(decoder.last::<types::Sint32>(1), Ok(Some(value)));
        assert!(bytes.len() <= 1 + 5);
    }
    for (value, encoded) in [
        (82_783, 165_566),
        (9_000_000_000, 18_000_000_000),
        (-9_000_000_000, 17_999_999_999),
        (i64::MAX, u64::MAX - 1),
        (i64::MIN, u64::MAX),
    ] {
        let bytes = encode(|message| message.append_sint64::<1>(value));
        let decoder = Decoder::new(&bytes);
        assert_eq!(decoder.last::<types::Uint64>(1), Ok(Some(encoded)));
        assert_eq!(decoder.last::<types::Sint64>(1), Ok(Some(value)));
    }
}

#[test]
fn varints_match_hand_computed_bytes_at_group_boundaries() {
    for (value, expected) in VARINTS {
        let bytes = encode(|message| message.append_uint64::<1>(value));
        assert_eq!(bytes[1..], *expected, "{value:#x}");
        if let Ok(value) = u32::try_from(value) {
            let bytes = encode(|message| message.append_uint32::<1>(value));
            assert_eq!(bytes[1..], *expected, "{value:#x}");
        }
    }
}

#[test]
fn varints_are_read_to_their_last_byte_and_no_further() {
    for (value, encoded) in VARINTS {
        // The number of following bytes decides which way of reading is taken.
        for more in [0, 1, 16] {
            let bytes = [&[0x08], encoded, &vec![0x10; more]].concat();
            let mut fields = Decoder::new(&bytes).fields();
            let field = fields.next().unwrap().unwrap();
            assert_eq!(field.value, Value::Varint(value));
            assert_eq!(fields.offset(), 1 + encoded.len());
        }
    }
}

#[test]
fn negative_numbers_are_extended_to_64_bits() {
    let expected = [0x9c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    for bytes in [
        encode(|message| message.append_int32::<1>((-100_i8).into())),
        encode(|message| message.append_int32::<1>((-100_i16).into())),
        encode(|message| message.append_int32::<1>(-100)),
        encode(|message| message.append_int64::<1>(-100)),
    ] {
        assert_eq!(bytes[1..], expected);
    }
}

#[test]
fn padded_lengths_have_four_bytes_whatever_the_value() {
    for (length, bytes) in [
        (0, [0x80, 0x80, 0x80, 0]),
        (1, [0x81, 0x80, 0x80, 0]),
        (0x80, [0x80, 0x81, 0x80, 0]),
        (0x33_2211, [0x91, 0xc4, 0xcc, 1]),
        (0xfff_ffff, [0xff, 0xff, 0xff, 0x7f]),
    ] {
        assert_eq!(redundant_varint(length), bytes);
    }
}

#[test]
fn a_varint_that_never_ends_is_truncated_at_any_length() {
    for len in 0..=4 {
        let bytes = [&[0x08][..], &[0xff; 4][..len]].concat();
        let mut fields = Decoder::new(&bytes).fields();
        let truncated = DecodeError::Truncated { offset: 0 };
        assert_eq!(fields.next(), Some(Err(truncated)));
        assert_eq!(fields.next(), None);
    }
}

#[test]
fn a_varint_has_at_most_ten_bytes_and_64_bits() {
    let read = |varint: &[u8]| {
        let bytes = [&[0x08], varint].concat();
        Decoder::new(&bytes).last::<types::Uint64>(1)
    };
    let nine = [0xff; 9];
    assert_eq!(read(&[&nine[..], &[1]].concat()), Ok(Some(u64::MAX)));
    let too_long = Err(DecodeError::VarintTooLong { offset: 0 });
    assert_eq!(read(&[&nine[..], &[2]].concat()), too_long);
    assert_eq!(read(&[&nine[..], &[0x7f]].concat()), too_long);
    assert_eq!(read(&[&nine[..], &[0xff, 1]].concat()), too_long);
    assert_eq!(read(&[&[0x80; 10][..], &[0]].concat()), too_long);
}
