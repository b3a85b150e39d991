//! Fields that the schema does not know.

use protozero::OwnedMessage;

use super::rival;
use super::schema::old::owned::{Extensible, Version1, Version2, version1, version2};
use super::schema::old::{
    self, ExtensibleDecoder, version1::Mode as Mode1, version2::Mode as Mode2,
};
use super::schema::{ExtensibleDecoderExt, ExtensibleExt};

fn part2(number: i32, added: &str) -> version2::Part2 {
    version2::Part2 {
        number: Some(number),
        added: Some(added.to_owned()),
        ..version2::Part2::default()
    }
}

fn version2() -> Version2 {
    Version2 {
        root_int: Some(10),
        modes: vec![Mode2::ONE, Mode2::THREE, Mode2::TWO],
        names: vec!["first".to_owned()],
        part: Some(part2(1, "one")),
        parts: vec![part2(2, "two"), part2(3, "three")],
        added_int: Some(-7),
        added_text: Some("later".to_owned()),
        added_part: Some(part2(4, "four")),
        added_parts: vec![part2(5, "five"), part2(6, "six")],
        blob: Some(vec![0xff, 0x00, 0x80]),
        ..Version2::default()
    }
}

#[test]
fn what_an_older_schema_does_not_know_survives_it_beside_its_own_changes() {
    let mut old = Version1::decode(&version2().encode_to_vec()).unwrap();
    assert_eq!(old.root_int, Some(10));
    assert_eq!(old.modes, [Mode1::ONE, Mode1::from(3), Mode1::TWO]);
    assert!(!old.unknown_fields.is_empty());
    assert!(!old.parts[1].unknown_fields.is_empty());
    old.root_int = Some(101);
    old.names.push("second".to_owned());

    let mut expected = version2();
    expected.root_int = Some(101);
    expected.names.push("second".to_owned());
    let bytes = old.encode_to_vec();
    assert_eq!(Version2::decode(&bytes), Ok(expected.clone()));
    // The unknown ones come last, which is where the newer schema has them, too.
    assert_eq!(bytes, expected.encode_to_vec());
    let rival = rival::descriptor("old.Version2")
        .parse_from_bytes(&bytes)
        .unwrap();
    assert_eq!(rival.write_to_bytes_dyn().unwrap(), bytes);
}

#[test]
fn unknown_fields_keep_their_order_and_their_bytes() {
    // Field 20 twice, with a field in between and a number that is longer than needed; a group;
    // field 1 is known.
    let unknown: [&[u8]; 4] = [
        b"\xa0\x01\x81\x00",
        b"\xaa\x01\x02hi",
        b"\xb3\x01\x08\x01\xb4\x01",
        b"\xa0\x01\x02",
    ];
    let bytes = [unknown[0], unknown[1], b"\x08\x05", unknown[2], unknown[3]].concat();
    let message = Version1::decode(&bytes).unwrap();
    assert_eq!(message.unknown_fields.as_bytes(), unknown.concat());
    assert_eq!(
        message.encode_to_vec(),
        [b"\x08\x05", unknown.concat().as_slice()].concat()
    );
    let shown = format!("{:?}", message.unknown_fields);
    assert!(shown.contains("number: 20"), "{shown}");
}

#[test]
fn unknown_fields_can_be_removed() {
    let mut old = Version1::decode(&version2().encode_to_vec()).unwrap();
    old.unknown_fields.clear();
    let part = old.part.get_or_insert_with(version1::Part1::default);
    part.unknown_fields.clear();
    let left = Version2::decode(&old.encode_to_vec()).unwrap();
    assert_eq!(left.added_text, None);
    assert_eq!(left.part.unwrap().added, None);
    assert_eq!(left.parts, version2().parts);
}

#[test]
fn extensions_are_read_and_added_with_the_traits_of_decoders_and_writers() {
    let mut message = Extensible {
        name: Some("base".to_owned()),
        ..Extensible::default()
    };
    message
        .unknown_fields
        .append::<old::Extensible<'_>>(|writer| {
            writer.set_extra(5);
        });
    let message = Extensible::decode(&message.encode_to_vec()).unwrap();
    let decoder = ExtensibleDecoder::new(message.unknown_fields.as_bytes());
    assert_eq!(decoder.extra(), Ok(Some(5)));
    assert_eq!(decoder.name(), Ok(None), "which is known");
}
