//! Messages inside each other, and bytes that are not what they should be.

use protozero::owned::OWNED_MAX_DEPTH;
use protozero::{DecodeError, OwnedMessage};

use super::schema::old::owned::EveryField;
use super::schema::owned::{Loop, Tree};

/// A field with its length.
fn delimited(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut rest = payload.len();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes.extend_from_slice(payload);
    bytes
}

/// `levels` messages inside each other, each as field number `number` of the one around it.
fn nested(number: u8, levels: usize) -> Vec<u8> {
    (1..levels).fold(Vec::new(), |bytes, _| delimited(number, &bytes))
}

#[test]
fn messages_nest_up_to_the_limit_in_every_kind_of_field() {
    // A field of its own, elements, and a member of a oneof.
    for number in [2, 3, 12] {
        let bytes = nested(number, OWNED_MAX_DEPTH);
        let tree = Tree::decode(&bytes).unwrap();
        assert_eq!(tree.encode_to_vec(), bytes);
        let field = u32::from(number);
        let too_deep = DecodeError::MessagesTooDeep { field };
        assert_eq!(
            Tree::decode(&nested(number, OWNED_MAX_DEPTH + 1)),
            Err(too_deep)
        );
    }
}

#[test]
fn a_message_that_nests_without_end_is_an_error_and_not_a_stack_overflow() {
    for number in [2, 3, 12] {
        let field = u32::from(number);
        let too_deep = DecodeError::MessagesTooDeep { field };
        assert_eq!(Tree::decode(&nested(number, 20_000)), Err(too_deep));
    }
    assert!(Loop::decode(&nested(1, 20_000)).is_err());
    // Values of a map, which are field 2 of their entries.
    let mut bytes = Vec::new();
    for _ in 0..OWNED_MAX_DEPTH {
        bytes = delimited(5, &delimited(2, &bytes));
    }
    let too_deep = DecodeError::MessagesTooDeep { field: 2 };
    assert_eq!(Tree::decode(&bytes), Err(too_deep));
}

#[test]
fn a_message_that_loops_through_another_is_boxed_and_comes_back() {
    let mut message = Loop::default();
    message.back.get_or_insert_default().r#loop = Some(Box::default());
    let bytes = message.encode_to_vec();
    assert_eq!(bytes, [0x0a, 2, 0x0a, 0]);
    assert_eq!(Loop::decode(&bytes), Ok(message));
}

#[test]
fn malformed_bytes_are_errors_at_every_level() {
    let cases: [(&[u8], DecodeError); 8] = [
        (&[0x0a], DecodeError::Truncated { offset: 0 }),
        (&[0x12, 5, 0x0a, 1], DecodeError::Truncated { offset: 0 }),
        (&[0x12, 2, 0x0a, 7], DecodeError::Truncated { offset: 0 }),
        (&[0x00, 0], DecodeError::InvalidTag { offset: 0 }),
        (
            &[0x0a, 2, 0xff, 0xfe],
            DecodeError::InvalidUtf8 { field: 1 },
        ),
        (&[0x08, 1], DecodeError::WireTypeMismatch { field: 1 }),
        (&[0x13, 0x14], DecodeError::WireTypeMismatch { field: 2 }),
        // The key of an entry is a number.
        (
            &[0x22, 2, 0x08, 1],
            DecodeError::WireTypeMismatch { field: 1 },
        ),
    ];
    for (bytes, error) in cases {
        assert_eq!(Tree::decode(bytes), Err(error), "{bytes:02x?}");
    }
    let packed = [0xba, 0x3e, 2, 0x01, 0x80];
    let malformed = DecodeError::MalformedPacked { field: 999 };
    assert_eq!(EveryField::decode(&packed), Err(malformed));
}

#[test]
fn a_message_cut_at_any_byte_is_an_error_or_a_message() {
    let mut tree = Tree {
        name: "root".to_owned(),
        ..Tree::default()
    };
    tree.children.push(tree.clone());
    tree.by_id.insert(1, tree.clone());
    tree.counts.insert("k".to_owned(), 300);
    let bytes = tree.encode_to_vec();
    let mut errors = 0;
    for end in 0..bytes.len() {
        match Tree::decode(&bytes[..end]) {
            Ok(partial) => assert_ne!(partial, tree),
            Err(error) => {
                assert!(matches!(error, DecodeError::Truncated { .. }), "{error}");
                errors += 1;
            }
        }
    }
    assert!(errors > bytes.len() / 2, "fields end at few places");
}
