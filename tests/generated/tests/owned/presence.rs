//! What counts as set, and what a field is when it is not.

use protozero::OwnedMessage;

use super::rival;
use super::schema::old::{every_field::Size, owned as old};
use super::schema::{Color, owned};

#[test]
fn explicit_zeros_and_empty_values_stay_set() {
    let message = old::EveryField {
        field_int32: Some(0),
        field_float: Some(0.0),
        field_string: Some(String::new()),
        ..old::EveryField::default()
    };
    // The float has field number 11.
    let bytes = [0x08, 0, 0x5d, 0, 0, 0, 0, 0xa2, 0x1f, 0];
    assert_eq!(message.encode_to_vec(), bytes);
    let decoded = old::EveryField::decode(&bytes).unwrap();
    assert_eq!(decoded, message);
    assert_eq!(decoded.field_int64, None);
    assert_eq!(decoded.encode_to_vec(), bytes);
}

#[test]
fn fields_that_were_never_set_are_not_written() {
    assert_eq!(old::EveryField::default().encode_to_vec(), []);
    assert_eq!(
        old::Packed::default().encode_to_vec(),
        [],
        "nor empty packed fields"
    );
    assert_eq!(owned::Scalars::default().encode_to_vec(), []);
    assert_eq!(owned::Tree::decode(&[]), Ok(owned::Tree::default()));
}

#[test]
fn zeros_without_presence_are_not_written_but_negative_zero_is() {
    let mut message = owned::Scalars {
        maybe: Some(0),
        maybe_color: Some(Color::UNSPECIFIED),
        ..owned::Scalars::default()
    };
    assert_eq!(message.encode_to_vec(), [0x88, 0x01, 0, 0xf8, 0x7f, 0]);
    message.double_value = -0.0;
    let bytes = message.encode_to_vec();
    assert_eq!(bytes.len(), 6 + 9);
    let decoded = owned::Scalars::decode(&bytes).unwrap();
    assert!(decoded.double_value.is_sign_negative());
}

#[test]
fn an_empty_message_in_a_field_is_set() {
    let tree = owned::Tree {
        left: Some(Box::default()),
        children: vec![owned::Tree::default()],
        ..owned::Tree::default()
    };
    assert_eq!(tree.encode_to_vec(), [0x12, 0, 0x1a, 0]);
    assert_eq!(owned::Tree::decode(&[0x12, 0, 0x1a, 0]), Ok(tree));
}

#[test]
fn a_field_that_is_not_set_has_the_default_of_the_schema() {
    let message = old::Defaults::default();
    assert_eq!(message.width, None);
    assert_eq!(message.width_or_default(), -640);
    assert_eq!(message.mask_or_default(), u64::MAX);
    assert!((message.ratio_or_default() - 0.75).abs() < f32::EPSILON);
    assert_eq!(message.limit_or_default(), f64::INFINITY);
    assert!(message.enabled_or_default());
    assert_eq!(message.type_or_default(), "a \"b\"");
    assert_eq!(message.magic_or_default(), b"\x00\xffz");
    assert_eq!(message.size_or_default(), Size::BIG);
    assert_eq!(message.encode_to_vec(), [], "a default is never written");
}

#[test]
fn a_field_that_is_set_has_its_own_value() {
    let message = old::Defaults {
        width: Some(0),
        enabled: Some(false),
        r#type: Some(String::new()),
        magic: Some(Vec::new()),
        ..old::Defaults::default()
    };
    let message = old::Defaults::decode(&message.encode_to_vec()).unwrap();
    assert_eq!(message.width_or_default(), 0);
    assert!(!message.enabled_or_default());
    assert_eq!(message.type_or_default(), "");
    assert_eq!(message.magic_or_default(), b"");
}

#[test]
fn required_fields_may_be_missing() {
    assert_eq!(old::Nested::decode(&[]), Ok(old::Nested::default()));
}

#[test]
fn a_oneof_is_set_even_to_a_zero() {
    use owned::tree::Value;
    for (value, text, bytes) in [
        (Value::Number(0), "number: 0", vec![0x38, 0]),
        (Value::Text(String::new()), "text: \"\"", vec![0x42, 0]),
        (
            Value::Leaf(owned::tree::Leaf::default()),
            "leaf {}",
            vec![0x4a, 0],
        ),
        (Value::Tree(Box::default()), "tree {}", vec![0x62, 0]),
    ] {
        let tree = owned::Tree {
            value: Some(value),
            ..owned::Tree::default()
        };
        assert_eq!(tree.encode_to_vec(), bytes, "{text}");
        rival::assert_decodes("app.Tree", &bytes, text);
        assert_eq!(owned::Tree::decode(&bytes), Ok(tree));
    }
}
