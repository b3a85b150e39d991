//! Every type, both ways, and to and from an independent implementation.

use protozero::{HeapBuffered, OwnedMessage};

use super::rival;
use super::schema::old::{self, owned};
use super::schema::old::{EveryFieldDecoder, every_field::Size, nested};

/// The values of scenario 65.
#[allow(clippy::approx_constant)] // One of them is close to pi.
fn every_field() -> owned::EveryField {
    owned::EveryField {
        field_int32: Some(-1),
        field_int64: Some(-333_123_456_789),
        field_uint32: Some(600),
        field_uint64: Some(333_123_456_789),
        field_sint32: Some(-5),
        field_sint64: Some(-9000),
        field_fixed32: Some(12_345),
        field_fixed64: Some(444_123_450_000),
        field_sfixed32: Some(-69_999),
        field_sfixed64: Some(-200),
        field_float: Some(3.14),
        field_double: Some(0.5555),
        field_bool: Some(true),
        size: Some(Size::SMALL),
        huge: Some(Size::MIN),
        kind: Some(nested::Kind::FANCY),
        field_string: Some("FizzBuzz".to_owned()),
        field_bytes: Some(vec![0x11, 0x00, 0xbe, 0xef]),
        repeated_int32: vec![1, -1, 100, 2_000_000],
        ..owned::EveryField::default()
    }
}

const EVERY_FIELD: &str = r#"
    field_int32: -1
    field_int64: -333123456789
    field_uint32: 600
    field_uint64: 333123456789
    field_sint32: -5
    field_sint64: -9000
    field_fixed32: 12345
    field_fixed64: 444123450000
    field_sfixed32: -69999
    field_sfixed64: -200
    field_float: 3.14
    field_double: 0.5555
    field_bool: true
    size: SIZE_SMALL
    huge: SIZE_MIN
    kind: KIND_FANCY
    field_string: "FizzBuzz"
    field_bytes: "\021\000\276\357"
    repeated_int32: 1
    repeated_int32: -1
    repeated_int32: 100
    repeated_int32: 2000000
"#;

#[test]
fn an_independent_reader_finds_every_value_and_would_write_the_same_bytes() {
    let bytes = every_field().encode_to_vec();
    rival::assert_decodes("old.EveryField", &bytes, EVERY_FIELD);
    assert_eq!(bytes, rival::encode("old.EveryField", EVERY_FIELD));
}

#[test]
fn every_value_of_an_independent_writer_is_read() {
    let bytes = rival::encode("old.EveryField", EVERY_FIELD);
    assert_eq!(owned::EveryField::decode(&bytes), Ok(every_field()));
}

#[test]
fn what_was_read_is_written_in_the_same_bytes() {
    let bytes = every_field().encode_to_vec();
    let decoded = owned::EveryField::decode(&bytes).unwrap();
    assert_eq!(decoded, every_field());
    assert_eq!(decoded.encode_to_vec(), bytes);
}

#[test]
fn a_generated_writer_takes_an_owned_message_and_goes_on() {
    let mut buffer = HeapBuffered::<old::EveryField>::new();
    let mut writer = buffer.message();
    writer.set_field_bool(true);
    writer.nested(|nested| {
        let value = owned::Nested {
            value: Some(7),
            ..owned::Nested::default()
        };
        value.encode(nested);
    });
    every_field().encode(&mut writer);
    writer.set_field_int32(12);
    drop(writer);
    let bytes = buffer.to_vec();
    let decoder = EveryFieldDecoder::new(&bytes);
    assert_eq!(decoder.field_int32(), Ok(Some(12)));
    assert_eq!(decoder.field_string(), Ok(Some("FizzBuzz")));
    assert_eq!(decoder.nested().unwrap().unwrap().value(), Ok(Some(7)));
}

#[test]
fn nested_messages_know_which_of_their_fields_are_set() {
    let bytes = rival::encode(
        "old.Nested",
        "value: 1 deeper { deeper { value: 3 } value: 2 kind: KIND_FANCY } children { value: 1000 }",
    );
    let root = owned::Nested::decode(&bytes).unwrap();
    assert_eq!(root.kind, None);
    assert_eq!(
        root.kind.unwrap_or_default(),
        nested::Kind::PLAIN,
        "the first value"
    );
    let deeper = root.deeper.as_ref().unwrap();
    assert_eq!(
        (deeper.value, deeper.kind),
        (Some(2), Some(nested::Kind::FANCY))
    );
    assert_eq!(deeper.deeper.as_ref().unwrap().deeper, None);
    assert_eq!(root.children.len(), 1);
    assert_eq!(root.children[0].value, Some(1000));
    assert_eq!(root.encode_to_vec(), bytes);
}

#[test]
fn packed_fields_come_back_whole() {
    let packed = owned::Packed {
        varints: (-100..100).collect(),
        fixed: (100..200).collect(),
        wide: (5_000_000_000..5_000_001_000).collect(),
        zigzag: vec![0, -1, 1, i64::MIN, i64::MAX],
        sizes: vec![Size::TINY, Size::from(99)],
        bits: vec![true, false],
        ..owned::Packed::default()
    };
    let bytes = packed.encode_to_vec();
    assert_eq!(owned::Packed::decode(&bytes), Ok(packed));
    // Fields as long as these have lengths of two bytes, and no more.
    let rival = rival::descriptor("old.Packed")
        .parse_from_bytes(&bytes)
        .unwrap();
    assert_eq!(rival.write_to_bytes_dyn().unwrap(), bytes);
    assert_eq!(
        &bytes[..4],
        [0x0a, 0xcc, 0x08, 0x9c],
        "200 elements in 1100 bytes"
    );
}

#[test]
fn lists_of_proto3_are_packed_unless_they_say_otherwise() {
    let lists = super::schema::owned::Lists {
        sint32_values: vec![-1, 1],
        bool_values: vec![true],
        float_values: vec![1.0],
        colors: vec![super::schema::Color::RED, super::schema::Color::from(-1)],
        unpacked: vec![1, 2],
        ..super::schema::owned::Lists::default()
    };
    let bytes = lists.encode_to_vec();
    let negative = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let colors = [&[0x82, 0x01, 11, 1], negative.as_slice()].concat();
    let packed = [0x2a, 2, 1, 2, 0x3a, 1, 1, 0x62, 4, 0, 0, 0x80, 0x3f];
    let unpacked = [0x88, 0x01, 1, 0x88, 0x01, 2];
    assert_eq!(bytes, [packed.as_slice(), &colors, &unpacked].concat());
    assert_eq!(super::schema::owned::Lists::decode(&bytes), Ok(lists));
}

#[test]
fn elements_are_read_packed_or_one_by_one_whatever_the_schema_says() {
    // Field 1 is packed in the schema, field 6 is not.
    let mixed = [
        0x08, 1, 0x0a, 2, 2, 3, 0x08, 4, 0x0a, 0, 0x30, 1, 0x32, 2, 0, 1,
    ];
    let packed = owned::Packed::decode(&mixed).unwrap();
    assert_eq!(packed.varints, [1, 2, 3, 4]);
    assert_eq!(packed.bits, [true, false, true]);
    assert_eq!(
        packed.encode_to_vec(),
        [0x0a, 4, 1, 2, 3, 4, 0x30, 1, 0x30, 0, 0x30, 1]
    );
}

#[test]
fn lengths_are_in_their_shortest_form_at_every_border() {
    for (text_bytes, header_bytes) in [(0, 2), (127, 2), (128, 3), (16_383, 3), (16_384, 4)] {
        let message = owned::Version1 {
            names: vec!["x".repeat(text_bytes)],
            ..owned::Version1::default()
        };
        assert_eq!(message.encode_to_vec().len(), header_bytes + text_bytes);
        let outer = super::schema::owned::Reach {
            version1: Some(message.clone()),
            ..super::schema::owned::Reach::default()
        };
        let bytes = outer.encode_to_vec();
        let rival = rival::descriptor("app.Reach")
            .parse_from_bytes(&bytes)
            .unwrap();
        assert_eq!(rival.write_to_bytes_dyn().unwrap(), bytes);
        assert_eq!(super::schema::owned::Reach::decode(&bytes), Ok(outer));
    }
}

#[test]
fn numbers_without_a_name_stay_in_enums() {
    let message = owned::EveryField {
        size: Some(Size::from(12_345)),
        ..owned::EveryField::default()
    };
    let bytes = message.encode_to_vec();
    assert_eq!(bytes, [0x98, 0x03, 0xb9, 0x60]);
    assert_eq!(owned::EveryField::decode(&bytes), Ok(message));
}

#[test]
fn messages_of_several_packages_are_in_one() {
    use super::schema::app::sub;
    use super::schema::owned::Mixed;
    let mixed = Mixed {
        sub_reading: Some(sub::owned::Reading {
            value: Some(1),
            unit: Some(sub::Unit::NONE),
            quality: Some(sub::reading::Quality::POOR),
            ..sub::owned::Reading::default()
        }),
        sub_source: Some(sub::owned::reading::Source {
            id: Some(2),
            ..sub::owned::reading::Source::default()
        }),
        sub_unit: Some(sub::Unit::BYTES),
        sub_quality: Some(sub::reading::Quality::GOOD),
        old_reading: Some(owned::Reading {
            value: Some(11),
            unit: Some(old::Unit::METERS),
            quality: Some(old::reading::Quality::LOW),
            ..owned::Reading::default()
        }),
        old_source: Some(owned::reading::Source {
            id: Some(12),
            ..owned::reading::Source::default()
        }),
        old_unit: Some(old::Unit::MILES),
        old_quality: Some(old::reading::Quality::HIGH),
        ..Mixed::default()
    };
    let bytes = [
        [0x0a, 6, 8, 1, 0x10, 1, 0x18, 3].as_slice(),
        &[0x12, 2, 8, 2, 0x18, 2, 0x20, 4],
        &[0x2a, 6, 8, 11, 0x10, 10, 0x18, 12],
        &[0x32, 2, 8, 12, 0x38, 11, 0x40, 13],
    ]
    .concat();
    assert_eq!(mixed.encode_to_vec(), bytes);
    assert_eq!(Mixed::decode(&bytes), Ok(mixed));
}

#[test]
fn a_field_may_have_the_name_of_the_unknown_ones_and_of_a_keyword() {
    use super::schema::owned::{Names, names};
    let names = Names {
        unknown_fields: 1,
        nested: Some(owned::Nested::default()),
        only: Some(names::Only::Type(true)),
        ..Names::default()
    };
    let bytes = [0x08, 1, 0x12, 0, 0x18, 1, 0x20, 9];
    assert_eq!(names.encode_to_vec(), bytes[..6]);
    let decoded = Names::decode(&bytes).unwrap();
    assert_eq!(decoded.unknown_fields, 1);
    assert_eq!(decoded.unknown_fields2.as_bytes(), &bytes[6..]);
}

#[test]
fn fields_and_members_of_oneofs_are_in_the_order_of_their_numbers() {
    use super::schema::owned::{Loop, Tree, tree};
    let tree = Tree {
        name: "n".to_owned(),
        counts: [("b".to_owned(), 2), ("a".to_owned(), 1)].into(),
        value: Some(tree::Value::Number(5)),
        r#loop: Some(Loop::default()),
        ..Tree::default()
    };
    let expected = b"\x0a\x01n\x22\x05\x0a\x01a\x10\x01\x22\x05\x0a\x01b\x10\x02\x38\x05\x5a\x00";
    assert_eq!(tree.encode_to_vec(), expected);
    let last = Tree {
        value: Some(tree::Value::Tree(Box::default())),
        ..tree
    };
    assert!(last.encode_to_vec().ends_with(&[0x5a, 0, 0x62, 0]));
}
