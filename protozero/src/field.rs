//! Parsing of one encoded field: its number, its value, and its end.
//!
//! The parameter `offset` of a function is the offset of the field in its message; errors contain
//! this offset.

use crate::error::DecodeError;
use crate::varint::{split_long_varint, split_varint, take_varint};
use crate::wire::{FIELD_NUMBER_MAX, GROUPS_MAX_DEPTH};

/// One encoded field, parsed without a schema.
///
/// ```
/// use protozero::{DecodeError, Decoder, Field, Value};
///
/// let decoder = Decoder::new(b"\x08\x2a\x12\x03foo");
/// let fields: Result<Vec<Field<'_>>, DecodeError> = decoder.fields().collect();
/// let [number, text] = fields?[..] else {
///     panic!("the message has two fields");
/// };
/// assert_eq!((number.number, number.value), (1, Value::Varint(42)));
/// assert_eq!((text.number, text.value), (2, Value::Bytes(b"foo")));
/// # Ok::<(), DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Field number, 1 to 2^29-1.
    pub number: u32,
    /// The value, in the form that its wire type determines.
    pub value: Value<'a>,
}

/// The value of a field, by wire type. The meaning of the value depends on the schema: the markers
/// in [`types`](crate::types) convert the value to a Rust type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint.
    Varint(u64),
    /// 8 bytes, little-endian.
    Fixed64(u64),
    /// 4 bytes, little-endian.
    Fixed32(u32),
    /// The payload of a length-delimited field.
    Bytes(&'a [u8]),
}

/// Splits a message behind its first field. Returns `None` if the field is malformed or a group;
/// the caller then uses [`skip_field`] to find out which.
#[inline(always)]
pub(crate) fn split_field(bytes: &[u8]) -> Option<(Field<'_>, &[u8])> {
    let (tag, rest) = match bytes {
        [byte @ ..0x80, rest @ ..] => (u64::from(*byte), rest),
        [low, high @ ..0x80, rest @ ..] => (u64::from(low & 0x7f) | u64::from(*high) << 7, rest),
        _ => split_long_varint(bytes)?,
    };
    let number = u32::try_from(tag).ok()? >> 3;
    if number == 0 {
        return None;
    }
    let (value, rest) = match tag & 7 {
        0 => {
            let (value, rest) = split_varint(rest)?;
            (Value::Varint(value), rest)
        }
        1 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Value::Fixed64(u64::from_le_bytes(*value)), rest)
        }
        2 => {
            let (len, rest) = split_varint(rest)?;
            let (value, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            (Value::Bytes(value), rest)
        }
        5 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Value::Fixed32(u32::from_le_bytes(*value)), rest)
        }
        _ => return None,
    };
    Some((Field { number, value }, rest))
}

/// Takes a tag from the front of `rest`; returns the field number and the wire type.
#[inline]
pub(crate) fn take_tag(rest: &mut &[u8], offset: usize) -> Result<(u32, u8), DecodeError> {
    let tag = take_varint(rest, offset)?;
    let number = tag >> 3;
    if number == 0 || number > u64::from(FIELD_NUMBER_MAX) {
        return Err(DecodeError::InvalidTag { offset });
    }
    Ok((number as u32, tag as u8 & 7))
}

fn take_bytes<'a>(rest: &mut &'a [u8], len: u64, offset: usize) -> Result<&'a [u8], DecodeError> {
    let truncated = DecodeError::Truncated { offset };
    let len = usize::try_from(len).map_err(|_| truncated)?;
    let (taken, left) = rest.split_at_checked(len).ok_or(truncated)?;
    *rest = left;
    Ok(taken)
}

pub(crate) fn take_delimited<'a>(
    rest: &mut &'a [u8],
    offset: usize,
) -> Result<&'a [u8], DecodeError> {
    let len = take_varint(rest, offset)?;
    take_bytes(rest, len, offset)
}

pub(crate) fn take_array<const N: usize>(
    rest: &mut &[u8],
    offset: usize,
) -> Result<[u8; N], DecodeError> {
    let (taken, left) = rest
        .split_first_chunk()
        .ok_or(DecodeError::Truncated { offset })?;
    *rest = left;
    Ok(*taken)
}

/// Returns the size in bytes of the field at the start of `bytes`, including groups.
#[cold]
#[inline(never)]
pub(crate) fn skip_field(bytes: &[u8], offset: usize) -> Result<usize, DecodeError> {
    let mut rest = bytes;
    let (number, wire_type) = take_tag(&mut rest, offset)?;
    match wire_type {
        3 => skip_group(&mut rest, offset, number)?,
        _ => skip_value(&mut rest, offset, wire_type)?,
    }
    Ok(bytes.len() - rest.len())
}

/// Skips the rest of group `number` behind its start tag, including nested groups and the end tag.
/// Each group must end with its own field number.
pub(crate) fn skip_group(rest: &mut &[u8], offset: usize, number: u32) -> Result<(), DecodeError> {
    let mut open = [0; GROUPS_MAX_DEPTH];
    open[0] = number;
    let mut depth = 1;
    while depth > 0 {
        if rest.is_empty() {
            return Err(DecodeError::Truncated { offset });
        }
        let (number, wire_type) = take_tag(rest, offset)?;
        match wire_type {
            3 => {
                let free = open.get_mut(depth);
                *free.ok_or(DecodeError::GroupsTooDeep { offset })? = number;
                depth += 1;
            }
            4 if open[depth - 1] == number => depth -= 1,
            _ => skip_value(rest, offset, wire_type)?,
        }
    }
    Ok(())
}

/// Skips the value of a field that is not a group.
fn skip_value(rest: &mut &[u8], offset: usize, wire_type: u8) -> Result<(), DecodeError> {
    match wire_type {
        0 => drop(take_varint(rest, offset)?),
        1 => drop(take_array::<8>(rest, offset)?),
        2 => drop(take_delimited(rest, offset)?),
        5 => drop(take_array::<4>(rest, offset)?),
        _ => return Err(DecodeError::InvalidTag { offset }),
    }
    Ok(())
}
