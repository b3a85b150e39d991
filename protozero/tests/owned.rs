//! Tests of owned messages without the generator: the struct is written by hand, in the form of
//! generated structs.
#![cfg(feature = "alloc")]

use std::collections::BTreeMap;

use protozero::owned::{EncodedField, FieldEncoder, Nested, OWNED_MAX_DEPTH, UnknownFields};
use protozero::types::{Double, Int32, Sint64, Str};
use protozero::{DecodeError, Decoder, Message, OwnedMessage};

#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    name: Option<String>,
    weight: f64,
    deltas: Vec<i64>,
    next: Option<Box<Node>>,
    by_name: BTreeMap<String, i32>,
    unknown_fields: UnknownFields,
}

impl OwnedMessage for Node {
    type Writer<'w> = Message<'w>;

    fn merge_field(&mut self, field: &EncodedField<'_>) -> Result<(), DecodeError> {
        match field.number() {
            1 => field.optional::<Str>(&mut self.name),
            2 => field.implicit::<Double>(&mut self.weight),
            3 => field.repeated::<Sint64>(&mut self.deltas),
            4 => field.optional::<Nested<Box<Node>>>(&mut self.next),
            5 => field.map::<Str, Int32>(&mut self.by_name),
            _ => field.keep(&mut self.unknown_fields),
        }
    }

    fn encode_fields(&self, fields: &mut FieldEncoder) {
        fields.optional::<Str>(1, &self.name);
        fields.implicit::<Double>(2, &self.weight);
        fields.packed::<Sint64>(3, &self.deltas);
        fields.optional::<Nested<Box<Node>>>(4, &self.next);
        fields.map::<Str, Int32>(5, &self.by_name);
        fields.unknown(&self.unknown_fields);
    }

    fn encode(&self, writer: &mut Message<'_>) {
        writer.append_raw(&self.encode_to_vec());
    }
}

fn chain(len: usize) -> Node {
    (1..len).fold(Node::default(), |next, _| Node {
        next: Some(Box::new(next)),
        ..Node::default()
    })
}

#[test]
fn every_kind_of_member_round_trips() {
    let node = Node {
        name: Some(String::new()),
        weight: 1.5,
        deltas: vec![-1, 64],
        next: Some(Box::default()),
        by_name: [("b".to_owned(), -1), ("a".to_owned(), 0)].into(),
        unknown_fields: UnknownFields::default(),
    };
    let bytes = node.encode_to_vec();
    let expected = [
        b"\x0a\x00\x11\x00\x00\x00\x00\x00\x00\xf8\x3f".as_slice(),
        b"\x1a\x03\x01\x80\x01\x22\x00\x2a\x05\x0a\x01a\x10\x00",
        b"\x2a\x0e\x0a\x01b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ];
    assert_eq!(bytes, expected.concat());
    assert_eq!(Node::decode(&bytes), Ok(node));
}

#[test]
fn every_byte_of_an_unknown_field_is_kept() {
    // Field 9, a group, before a known field, and a fixed32 field behind it.
    let group = [0x4b, 0x08, 1, 0x4c];
    let fixed = [0x55, 1, 2, 3, 4];
    let bytes = [group.as_slice(), b"\x0a\x01x", &fixed].concat();
    let node = Node::decode(&bytes).unwrap();
    assert_eq!(
        node.unknown_fields.as_bytes(),
        [group.as_slice(), &fixed].concat()
    );
    assert_eq!(
        node.encode_to_vec(),
        [b"\x0a\x01x".as_slice(), &group, &fixed].concat()
    );
    let decoder = Decoder::new(node.unknown_fields.as_bytes());
    let numbers: Result<Vec<u32>, DecodeError> =
        decoder.fields().map(|field| Ok(field?.number)).collect();
    assert_eq!(numbers, Ok(vec![10]), "groups are skipped by decoders");
}

#[test]
fn a_group_in_place_of_a_known_field_is_an_error() {
    for number in 1..=5 {
        let bytes = [number << 3 | 3, number << 3 | 4];
        let field = u32::from(number);
        assert_eq!(
            Node::decode(&bytes),
            Err(DecodeError::WireTypeMismatch { field })
        );
    }
}

#[test]
fn nesting_beyond_the_limit_is_an_error_that_names_the_field() {
    let deepest = chain(OWNED_MAX_DEPTH);
    assert_eq!(Node::decode(&deepest.encode_to_vec()), Ok(deepest));
    let too_deep = chain(OWNED_MAX_DEPTH + 1).encode_to_vec();
    let error = Node::decode(&too_deep).unwrap_err();
    assert_eq!(error, DecodeError::MessagesTooDeep { field: 4 });
    assert!(
        error
            .to_string()
            .starts_with("the message in field 4 is nested too deeply")
    );
}

#[test]
fn fields_before_an_error_stay_merged() {
    let mut node = Node::default();
    let error = node.merge(b"\x0a\x01x\x1a\x02\x02\x80").unwrap_err();
    assert_eq!(error, DecodeError::MalformedPacked { field: 3 });
    assert_eq!(node.name.as_deref(), Some("x"));
    assert_eq!(node.deltas, [1]);
}

#[test]
fn special_floats_are_kept_and_nan_is_unequal_to_itself() {
    for weight in [f64::INFINITY, f64::MIN_POSITIVE, -0.0] {
        let node = Node {
            weight,
            ..Node::default()
        };
        let decoded = Node::decode(&node.encode_to_vec()).unwrap();
        assert_eq!(decoded.weight.to_bits(), weight.to_bits());
    }
    let node = Node {
        weight: f64::NAN,
        ..Node::default()
    };
    let decoded = Node::decode(&node.encode_to_vec()).unwrap();
    assert_eq!(decoded.weight.to_bits(), f64::NAN.to_bits());
    assert_ne!(decoded, node);
}
