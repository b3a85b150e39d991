//! The reference implementation's scenarios for its generated writers, by their numbers in
//! `protozero/tests/README.md`, with schemas of the same shapes. What is written has the bytes that
//! the reference writes, and is read back by rust-protobuf.

use std::path::Path;

use protobuf::MessageDyn;
use protobuf::reflect::{FileDescriptor, ReflectValueRef};
use protozero::{HeapBuffered, Writer};

mod generated {
    include!(concat!(env!("OUT_DIR"), "/conformance.rs"));
}

use generated::{
    BigEnum, CamelCaseFields, Event, EventDecoder, EveryField, EveryFieldDecoder, Indirect,
    LegacyEvent, NestedA, Packages, PackedRepeatedFields, PackedRepeatedFieldsDecoder, SignedEnum,
    SmallEnum, VeryNegativeEnum,
};

/// The bytes of one message.
fn encode<M: Writer>(write: impl FnOnce(&mut M::At<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<M>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

/// Bytes in hexadecimal, with spaces anywhere.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| u8::try_from(digit).expect("a digit"))
        .collect();
    assert_eq!(digits.len() % 2, 0, "whole bytes");
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// A message of the schema as rust-protobuf reads it.
fn parsed(message: &str, bytes: &[u8]) -> Box<dyn MessageDyn> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../protozero-codegen/tests/fixtures/conformance");
    let files = protobuf_parse::Parser::new()
        .pure()
        .include(&folder)
        .input(folder.join("input.proto"))
        .parse_and_typecheck()
        .expect("the schema compiles")
        .file_descriptors;
    let files = FileDescriptor::new_dynamic_fds(files, &[]).expect("the schema compiles");
    let descriptor = files
        .iter()
        .find_map(|file| file.message_by_package_relative_name(message));
    descriptor
        .expect("the schema has the message")
        .parse_from_bytes(bytes)
        .expect("the bytes are well-formed")
}

/// Asserts that rust-protobuf writes the same bytes again.
#[track_caller]
fn assert_canonical(message: &str, bytes: &[u8]) {
    let again = parsed(message, bytes)
        .write_to_bytes_dyn()
        .expect("nothing required is missing");
    assert_eq!(again, bytes);
}

/// The text of a message in the text format.
fn text(message: &str, bytes: &[u8]) -> String {
    protobuf::text_format::print_to_string(&*parsed(message, bytes))
}

#[test]
#[expect(clippy::approx_constant, reason = "the scenario writes 3.14, not pi")]
fn scenario_65_every_field() {
    let written = encode::<EveryField>(|message| {
        message
            .set_field_int32(-1)
            .set_field_int64(-333_123_456_789)
            .set_field_uint32(600)
            .set_field_uint64(333_123_456_789)
            .set_field_sint32(-5)
            .set_field_sint64(-9000)
            .set_field_fixed32(12345)
            .set_field_fixed64(444_123_450_000)
            .set_field_sfixed32(-69999)
            .set_field_sfixed64(-200)
            .set_field_float(3.14)
            .set_field_double(0.5555)
            .set_field_bool(true)
            .set_small_enum(SmallEnum::TO_BE)
            .set_signed_enum(SignedEnum::NEGATIVE)
            .set_big_enum(BigEnum::BEGIN)
            .set_very_negative_enum(VeryNegativeEnum::VAL)
            .set_field_string("FizzBuzz")
            .set_field_bytes(&[0x11, 0x00, 0xbe, 0xef]);
        for value in [1, -1, 100, 2_000_000] {
            message.add_repeated_int32(value);
        }
    });
    let expected = bytes(
        "08FFFFFFFFFFFFFFFFFF01 10EBE1AD82A7F6FFFFFF01 18D804 20959ED2FDD809 2809 30CF8C01
         3D39300000 41900AD26767000000 4D91EEFEFF 5138FFFFFFFFFFFFFF 5DC3F54840 612DB29DEFA7C6E13F
         6801 980301 A003FFFFFFFFFFFFFFFFFF01 A8030A B00380808080F8FFFFFFFF01 A21F0846697A7A42757A7A
         CA1F041100BEEF B83E01 B83EFFFFFFFFFFFFFFFFFF01 B83E64 B83E80897A",
    );
    assert_eq!(written, expected);
    assert_eq!(written.len(), 153);
    assert_canonical("EveryField", &written);
    assert_eq!(
        text("EveryField", &written),
        "field_int32: -1 field_int64: -333123456789 field_uint32: 600 \
         field_uint64: 333123456789 field_sint32: -5 field_sint64: -9000 field_fixed32: 12345 \
         field_fixed64: 444123450000 field_sfixed32: -69999 field_sfixed64: -200 \
         field_float: 3.14 field_double: 0.5555 field_bool: true small_enum: TO_BE \
         signed_enum: NEGATIVE big_enum: BEGIN very_negative_enum: VAL \
         field_string: \"FizzBuzz\" field_bytes: \"\\021\\000\\276\\357\" repeated_int32: 1 \
         repeated_int32: -1 repeated_int32: 100 repeated_int32: 2000000"
    );
    let decoder = EveryFieldDecoder::new(&written);
    assert_eq!(decoder.field_sint64(), Ok(Some(-9000)));
    assert_eq!(
        decoder.very_negative_enum(),
        Ok(Some(VeryNegativeEnum::VAL))
    );
}

#[test]
fn scenario_66_nested_messages() {
    let written = encode::<NestedA>(|message| {
        message.add_repeated_a(|b| {
            b.value_b(|c| {
                c.set_value_c(321);
            });
        });
        message.add_repeated_a(|_| ());
        message.super_nested(|c| {
            c.set_value_c(1000);
        });
    });
    assert_eq!(
        written,
        bytes("12 05 0A 03 08 C1 02  12 00  1A 03 08 E8 07")
    );
    assert_canonical("NestedA", &written);
    assert_eq!(
        text("NestedA", &written),
        "repeated_a {value_b {value_c: 321}} repeated_a {} super_nested {value_c: 1000}"
    );
}

const EVENT: &str = "08 04  52 0C 08 03 12 08 73 74 72 69 6E 67 20 61
                     5A 0C 08 0A 12 08 73 74 72 69 6E 67 20 62
                     12 0B 62 61 73 65 20 73 74 72 69 6E 67";

#[test]
fn scenario_67_extension_fields_between_those_of_the_base() {
    use generated::event_extension::{EventDecoderExt as _, EventExt as _};

    let written = encode::<Event>(|event| {
        event.set_base_int(4);
        event.part_a(|part| {
            part.set_number(3).set_text("string a");
        });
        event.part_b(|part| {
            part.set_number(10).set_text("string b");
        });
        event.set_base_string("base string");
    });
    assert_eq!(written, bytes(EVENT));
    assert_eq!(written.len(), 43);
    let decoder = EventDecoder::new(&written);
    assert_eq!(
        decoder.part_a().unwrap().unwrap().text(),
        Ok(Some("string a"))
    );
    assert_eq!(decoder.part_b().unwrap().unwrap().number(), Ok(Some(10)));
}

#[test]
fn scenario_68_a_message_with_the_same_numbers_has_the_same_bytes() {
    let written = encode::<LegacyEvent>(|event| {
        event.set_base_int(4);
        event.part_a(|part| {
            part.set_number(3).set_text("string a");
        });
        event.part_b(|part| {
            part.set_number(10).set_text("string b");
        });
        event.set_base_string("base string");
    });
    assert_eq!(written, bytes(EVENT));
    assert_eq!(
        text("LegacyEvent", &written),
        "base_int: 4 base_string: \"base string\" \
         part_a {number: 3 text: \"string a\"} part_b {number: 10 text: \"string b\"}"
    );

    // Of the base alone, its own fields and, by number, all others.
    let base = EventDecoder::new(&written);
    assert_eq!(base.base_int(), Ok(Some(4)));
    assert_eq!(base.base_string(), Ok(Some("base string")));
    let part = base.as_decoder().last::<protozero::types::Bytes>(11);
    assert_eq!(part.unwrap().unwrap().len(), 12);
    let numbers: Vec<u32> = base.fields().map(|field| field.unwrap().number).collect();
    assert_eq!(numbers, [1, 10, 11, 2]);
}

#[test]
fn scenario_69_a_type_behind_a_public_import_is_usable() {
    let written = encode::<Indirect>(|message| {
        message.away(|away| {
            away.set_name("far");
        });
    });
    assert_eq!(written, b"\x0a\x05\x0a\x03far");
    assert_eq!(text("Indirect", &written), "away {name: \"far\"}");
}

#[test]
fn scenario_70_names_in_any_case_have_constants() {
    let numbers = [
        CamelCaseFields::FOO_BAR_BAZ_FIELD_NUMBER,
        CamelCaseFields::BAR_BAZ_FIELD_NUMBER,
        CamelCaseFields::MOO_MOO_FIELD_NUMBER,
        CamelCaseFields::URL_ENCODER_FIELD_NUMBER,
        CamelCaseFields::X_MAP_FIELD_NUMBER,
        CamelCaseFields::UR_LE_NCO_DER_FIELD_NUMBER,
        CamelCaseFields::BIG_BANG_FIELD_NUMBER,
        CamelCaseFields::U2_FIELD_NUMBER,
        CamelCaseFields::BANG_BIG_FIELD_NUMBER,
    ];
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn scenario_71_packed_varints() {
    let expected = bytes("0A 0D 2A FF01 FFFFFFFFFFFFFFFFFF01");
    // Whatever can be gone over twice is written alike.
    let ways: [fn(&mut PackedRepeatedFields<'_>, &[i32]); 4] = [
        |message, _| {
            message.set_field_int32([42, 255, -1]);
        },
        |message, values| {
            message.set_field_int32(values.iter().copied());
        },
        |message, values| {
            message.set_field_int32(values.to_vec());
        },
        |message, values| {
            message.set_field_int32((0..3).map(|index| values[index]));
        },
    ];
    for write in ways {
        let written = encode::<PackedRepeatedFields>(|message| write(message, &[42, 255, -1]));
        assert_eq!(written, expected);
        assert_canonical("PackedRepeatedFields", &written);
    }
}

#[test]
fn scenario_72_packed_fixed32() {
    let written = encode::<PackedRepeatedFields>(|message| {
        message.set_field_fixed32([1, 2, 4, 8]);
    });
    assert_eq!(written, bytes("12 10 01000000 02000000 04000000 08000000"));
    assert_canonical("PackedRepeatedFields", &written);
}

#[test]
fn scenario_73_packed_sfixed64() {
    let written = encode::<PackedRepeatedFields>(|message| {
        message.set_field_sfixed64([1, -2, 4, -8]);
    });
    assert_eq!(
        written,
        bytes("1A 20 0100000000000000 FEFFFFFFFFFFFFFF 0400000000000000 F8FFFFFFFFFFFFFF")
    );
    assert_canonical("PackedRepeatedFields", &written);
}

#[test]
fn scenario_74_empty_packed_field() {
    let written = encode::<PackedRepeatedFields>(|message| {
        message.set_field_int32([]);
    });
    assert_eq!(written, bytes("0A 00"));
    assert_eq!(text("PackedRepeatedFields", &written), "");
}

#[test]
fn scenario_75_many_packed_elements() {
    let written = encode::<PackedRepeatedFields>(|message| {
        message.set_field_sfixed64((0..32_768).map(|index| index * 10_000_000));
    });
    assert_eq!(written[..4], bytes("1A 80 80 10"));
    assert_eq!(written.len(), 4 + 262_144);
    assert_canonical("PackedRepeatedFields", &written);
    let decoder = PackedRepeatedFieldsDecoder::new(&written);
    let values: Vec<i64> = decoder.field_sfixed64().map(Result::unwrap).collect();
    assert!(
        values
            .into_iter()
            .eq((0..32_768).map(|index| index * 10_000_000))
    );
}

#[test]
fn scenario_76_names_of_enum_values() {
    use generated::every_field::NestedEnum;

    assert_eq!(SmallEnum::TO_BE.name(), Some("TO_BE"));
    assert_eq!(NestedEnum::PING.name(), Some("PING"));
    assert_eq!(NestedEnum(9).name(), None);
}

#[test]
fn scenario_77_types_of_an_inner_and_of_an_unrelated_package() {
    use generated::conformance::subpackage;
    use generated::other_package;

    let written = encode::<Packages>(|message| {
        message.sub_message(|inner| {
            inner
                .set_field_int32(1)
                .set_field_enum(subpackage::Enum::A)
                .set_field_nested_enum(subpackage::message::NestedEnum::C);
        });
        message.sub_nested(|inner| {
            inner.set_field_int32(2);
        });
        message
            .set_sub_enum(subpackage::Enum::B)
            .set_sub_nested_enum(subpackage::message::NestedEnum::D);
        message.other_message(|inner| {
            inner
                .set_field_int32(11)
                .set_field_enum(other_package::Enum::A)
                .set_field_nested_enum(other_package::message::NestedEnum::C);
        });
        message.other_nested(|inner| {
            inner.set_field_int32(12);
        });
        message
            .set_other_enum(other_package::Enum::B)
            .set_other_nested_enum(other_package::message::NestedEnum::D);
    });
    assert_eq!(
        written,
        bytes("0A06080110011803 12020802 1802 2004 2A06080B100A180C 3202080C 380B 400D")
    );
    assert_canonical("Packages", &written);

    let message = parsed("Packages", &written);
    let field = message.descriptor_dyn().field_by_name("other_nested_enum");
    let value = field.expect("the field").get_singular(&*message);
    let Some(ReflectValueRef::Enum(item, number)) = value else {
        panic!("{value:?}");
    };
    assert_eq!(item.full_name(), "other_package.Message.NestedEnum");
    assert_eq!(number, 13);
}
