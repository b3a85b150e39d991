//! Default values of proto2, which a descriptor contains as text.

use std::str::FromStr;

use protobuf::descriptor::FileDescriptorProto;

use crate::registry::join;
use crate::schema::{DefaultValue, Scalar, Type};

/// Parses a default value. Returns `None` if `text` is not a value of the type.
pub(crate) fn parse(
    text: &str,
    value_type: &Type,
    files: &[FileDescriptorProto],
) -> Option<DefaultValue> {
    let scalar = match value_type {
        Type::Scalar(scalar) => *scalar,
        Type::Enum { proto_name, .. } => return enum_value(text, proto_name, files),
        Type::Message { .. } => return None,
    };
    match scalar {
        Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => integer::<i32>(text),
        Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => integer::<i64>(text),
        Scalar::Uint32 | Scalar::Fixed32 => integer::<u32>(text),
        Scalar::Uint64 | Scalar::Fixed64 => integer::<u64>(text),
        Scalar::Float => text.parse().ok().map(DefaultValue::Float),
        Scalar::Double => text.parse().ok().map(DefaultValue::Double),
        Scalar::Bool => text.parse().ok().map(DefaultValue::Bool),
        Scalar::String => Some(DefaultValue::String(text.to_owned())),
        Scalar::Bytes => unescaped(text).map(DefaultValue::Bytes),
    }
}

fn integer<T: FromStr + Into<i128>>(text: &str) -> Option<DefaultValue> {
    let number: T = text.parse().ok()?;
    Some(DefaultValue::Integer(number.into()))
}

fn enum_value(text: &str, enum_name: &str, files: &[FileDescriptorProto]) -> Option<DefaultValue> {
    let declaration = files.iter().find_map(|file| {
        let mut scopes = vec![(file.package().to_owned(), &file.enum_type)];
        let mut messages: Vec<_> = file
            .message_type
            .iter()
            .map(|message| (join(file.package(), message.name()), message))
            .collect();
        while let Some((name, message)) = messages.pop() {
            let nested = message.nested_type.iter();
            messages.extend(nested.map(|inner| (join(&name, inner.name()), inner)));
            scopes.push((name, &message.enum_type));
        }
        scopes.into_iter().find_map(|(scope, enums)| {
            enums
                .iter()
                .find(|item| join(&scope, item.name()) == enum_name)
        })
    })?;
    let value = declaration
        .value
        .iter()
        .find(|value| value.name() == text)?;
    Some(DefaultValue::Enum(value.number()))
}

/// Decodes C escapes, with which descriptors write the defaults of `bytes` fields.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let (&escape, after) = rest.split_first()?;
        let (byte, after) = match escape {
            b'a' => (0x07, after),
            b'b' => (0x08, after),
            b't' => (b'\t', after),
            b'n' => (b'\n', after),
            b'v' => (0x0b, after),
            b'f' => (0x0c, after),
            b'r' => (b'\r', after),
            b'\\' | b'\'' | b'"' | b'?' => (escape, after),
            b'x' | b'X' => number(after, 16, 2)?,
            b'0'..=b'7' => number(rest, 8, 3)?,
            _ => return None,
        };
        bytes.push(byte);
        rest = after;
    }
    Some(bytes)
}

/// Parses the number at the front of a text, of up to `max` digits. Returns it and the rest.
fn number(text: &[u8], radix: u32, max: usize) -> Option<(u8, &[u8])> {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let len = text.iter().take(max).take_while(is_digit).count();
    let (digits, rest) = text.split_at(len);
    let digits = str::from_utf8(digits).ok()?;
    Some((u8::from_str_radix(digits, radix).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(text: &str, scalar: Scalar) -> Option<DefaultValue> {
        parse(text, &Type::Scalar(scalar), &[])
    }

    #[test]
    fn numbers_have_the_range_of_their_type() {
        let int32 = |text| scalar(text, Scalar::Int32);
        assert_eq!(
            int32("-2147483648"),
            Some(DefaultValue::Integer(-2_147_483_648))
        );
        assert_eq!(int32("2147483648"), None);
        assert_eq!(int32("\"1\""), None);
        assert_eq!(scalar("-1", Scalar::Uint64), None);
        assert_eq!(
            scalar("-inf", Scalar::Double),
            Some(DefaultValue::Double(f64::NEG_INFINITY))
        );
        assert_eq!(scalar("1", Scalar::Float), Some(DefaultValue::Float(1.0)));
        assert_eq!(scalar("yes", Scalar::Bool), None);
    }

    #[test]
    fn escapes_of_bytes_are_undone() {
        let bytes = |text| unescaped(text);
        assert_eq!(
            bytes("a\\000\\377\\n\\\\\\\""),
            Some(b"a\0\xff\n\\\"".to_vec())
        );
        assert_eq!(bytes("\\x41B\\1018"), Some(b"ABA8".to_vec()));
        for malformed in ["\\", "\\q", "\\x", "\\777"] {
            assert_eq!(bytes(malformed), None, "{malformed}");
        }
    }
}
