//! Copies encoded messages with some fields replaced.

use protozero::{DecodeError, Decoder, Field, Value, append_varint, split_varint};

/// Appends a copy of a message to `out`. Calls `replace` for each field; if it returns true, the
/// field is not copied, because `replace` has written its replacement, if any.
pub(super) fn copy_fields(
    message: &[u8],
    out: &mut Vec<u8>,
    mut replace: impl FnMut(Field<'_>, &mut Vec<u8>) -> Result<bool, DecodeError>,
) -> Result<(), DecodeError> {
    let mut fields = Decoder::new(message).fields();
    loop {
        let start = fields.offset();
        let field = fields.next().transpose()?;
        let Some(field) = field else {
            out.extend_from_slice(&message[start..]);
            return Ok(());
        };
        if !replace(field, out)? {
            out.extend_from_slice(&message[start..fields.offset()]);
        }
    }
}

/// Appends a varint field.
pub(super) fn append_varint_field(number: u32, value: u64, out: &mut Vec<u8>) {
    append_varint(u64::from(number) << 3, out);
    append_varint(value, out);
}

/// Appends a field of bytes.
pub(super) fn append_bytes_field(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    append_varint(u64::from(number) << 3 | 2, out);
    append_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a nested message. `write` appends its content.
pub(super) fn append_message(
    number: u32,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut nested = Vec::new();
    write(&mut nested)?;
    append_bytes_field(number, &nested, out);
    Ok(())
}

/// Appends the values of a repeated varint field, packed or not, each mapped by `map`.
pub(super) fn append_mapped(
    field: Field<'_>,
    out: &mut Vec<u8>,
    map: impl Fn(u64) -> u64,
) -> Result<(), DecodeError> {
    let mut append = |value| append_varint_field(field.number, map(value), out);
    match field.value {
        Value::Varint(value) => append(value),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                let malformed = DecodeError::MalformedPacked {
                    field: field.number,
                };
                let (value, rest) = split_varint(packed).ok_or(malformed)?;
                append(value);
                packed = rest;
            }
        }
        Value::Fixed32(_) | Value::Fixed64(_) => {
            return Err(DecodeError::WireTypeMismatch {
                field: field.number,
            });
        }
    }
    Ok(())
}
