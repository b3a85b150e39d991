//! Reads the fields of encoded bytes: zero copy, no allocation, no recursion, no panic.

use crate::error::DecodeError;
use crate::types::FieldType;
use crate::wire::{MAX_FIELD_NUMBER, MAX_VARINT_BYTES, gather_varint};

/// Groups that may be open at once in what the decoder skips.
pub const MAX_GROUP_DEPTH: usize = 100;

/// One field as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// Field number, 1 to 2^29-1.
    pub number: u32,
    /// The value, by wire type.
    pub value: Value<'a>,
}

/// A value, by wire type. Its meaning depends on the schema; see [`types`](crate::types).
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

/// A message that is looked at in place.
///
/// Nothing is checked or indexed in advance: each call scans the bytes, and reports what is wrong
/// with them. To look at many fields of a large message, go over [`Decoder::fields`] once. Groups,
/// which no schema of today has, are skipped.
///
/// ```
/// use protozero::{DecodeError, Decoder, types};
///
/// let decoder = Decoder::new(b"\x08\x2a\x12\x03foo\x08\x2b");
/// assert_eq!(decoder.last::<types::Uint32>(1)?, Some(43));
/// assert_eq!(decoder.last::<types::Str>(2)?, Some("foo"));
/// assert_eq!(decoder.last::<types::Uint32>(3)?, None);
/// let all: Result<Vec<u32>, DecodeError> = decoder.repeated::<types::Uint32>(1).collect();
/// assert_eq!(all?, [42, 43]);
/// # Ok::<(), DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A decoder of one message.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The encoded message.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// All fields, in the order in which they were written.
    #[must_use]
    pub const fn fields(&self) -> Fields<'a> {
        Fields {
            bytes: self.bytes,
            offset: 0,
        }
    }

    /// The value of a singular field; the last one, if it was written several times.
    ///
    /// # Errors
    ///
    /// If the message is malformed anywhere, or the field has the wrong wire type.
    #[inline]
    pub fn last<T: FieldType>(&self, number: u32) -> Result<Option<T::Value<'a>>, DecodeError> {
        self.last_field(number)?.map(T::from_field).transpose()
    }

    #[inline(never)]
    fn last_field(&self, number: u32) -> Result<Option<Field<'a>>, DecodeError> {
        let mut last = None;
        for field in self.fields() {
            let field = field?;
            if field.number == number {
                last = Some(field);
            }
        }
        Ok(last)
    }

    /// The values of a repeated field, packed or not, in any mixture.
    #[must_use]
    pub fn repeated<T: FieldType>(&self, number: u32) -> Repeated<'a, T> {
        Repeated {
            fields: self.fields(),
            number,
            packed: &[],
            field_type: core::marker::PhantomData,
        }
    }
}

/// Iterator over the fields of a message. After an error it ends.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    /// At most the length of `bytes`.
    offset: usize,
}

impl<'a> Fields<'a> {
    /// Bytes read so far: where the next field begins.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// The next field with its number; a group has no value.
    #[inline]
    pub(crate) fn take_field(&mut self) -> Result<Option<(u32, Option<Value<'a>>)>, DecodeError> {
        let start = self.offset;
        let mut rest = &self.bytes[start..];
        if rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = take_tag(&mut rest, start)?;
        let value = match wire_type {
            0 => Some(Value::Varint(take_varint(&mut rest, start)?)),
            1 => Some(Value::Fixed64(u64::from_le_bytes(take_array(
                &mut rest, start,
            )?))),
            2 => Some(Value::Bytes(take_delimited(&mut rest, start)?)),
            3 => {
                skip_group(&mut rest, start, number)?;
                None
            }
            5 => Some(Value::Fixed32(u32::from_le_bytes(take_array(
                &mut rest, start,
            )?))),
            _ => return Err(DecodeError::InvalidTag { offset: start }),
        };
        self.offset = self.bytes.len() - rest.len();
        Ok(Some((number, value)))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, DecodeError>;

    // Inlined, so that a field stays in registers: through memory it takes longer than to read it.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self
                .bytes
                .get(self.offset..)
                .filter(|rest| !rest.is_empty())?;
            if let Some((field, behind)) = split_field(rest) {
                self.offset = self.bytes.len() - behind.len();
                return Some(Ok(field));
            }
            match skip_field(rest, self.offset) {
                Ok(field_bytes) => self.offset += field_bytes,
                Err(error) => {
                    self.offset = self.bytes.len();
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Iterator over the values of a repeated field. After an error it ends.
#[derive(Clone, Debug)]
pub struct Repeated<'a, T> {
    fields: Fields<'a>,
    number: u32,
    /// What is left of the packed field that is being read.
    packed: &'a [u8],
    field_type: core::marker::PhantomData<fn() -> T>,
}

impl<'a, T: FieldType> Iterator for Repeated<'a, T> {
    type Item = Result<T::Value<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.read_value().transpose();
        if let Some(Err(_)) = value {
            self.packed = &[];
            self.fields.offset = self.fields.bytes.len();
        }
        value
    }
}

impl<'a, T: FieldType> Repeated<'a, T> {
    fn read_value(&mut self) -> Result<Option<T::Value<'a>>, DecodeError> {
        loop {
            if !self.packed.is_empty() {
                let malformed = DecodeError::MalformedPacked { field: self.number };
                let value = T::take_packed(&mut self.packed).ok_or(malformed)?;
                return T::from_field(Field {
                    number: self.number,
                    value,
                })
                .map(Some);
            }
            let Some(field) = self.fields.next().transpose()? else {
                return Ok(None);
            };
            match field.value {
                _ if field.number != self.number => {}
                Value::Bytes(payload) if T::PACKABLE => self.packed = payload,
                _ => return T::from_field(field).map(Some),
            }
        }
    }
}

/// Splits a message at the end of its first field. `None` if that is no field, or is a group:
/// which of them, [`skip_field`] finds out.
#[inline(always)]
fn split_field(bytes: &[u8]) -> Option<(Field<'_>, &[u8])> {
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

/// Splits off a varint of at most 64 bits.
#[inline(always)]
fn split_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    if let [byte @ ..0x80, rest @ ..] = bytes {
        return Some((u64::from(*byte), rest));
    }
    if let Some(word) = bytes.first_chunk()
        && let Some((value, len)) = gather_varint(u64::from_le_bytes(*word))
    {
        return Some((value, bytes.get(len..)?));
    }
    split_long_varint(bytes)
}

/// Splits off a varint that may be longer than a word, or nearer to the end.
#[inline(never)]
fn split_long_varint(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    let value = take_varint(&mut bytes, 0).ok()?;
    Some((value, bytes))
}

/// Takes a varint of at most 64 bits from the front of `rest`.
#[inline]
pub(crate) fn take_varint(rest: &mut &[u8], offset: usize) -> Result<u64, DecodeError> {
    let mut value = 0;
    for (index, &byte) in rest.iter().take(MAX_VARINT_BYTES).enumerate() {
        // The tenth byte holds the topmost bit alone.
        if index == MAX_VARINT_BYTES - 1 && byte > 1 {
            return Err(DecodeError::VarintTooLong { offset });
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *rest = &rest[index + 1..];
            return Ok(value);
        }
    }
    Err(DecodeError::Truncated { offset })
}

/// Takes a tag: field number and wire type.
#[inline]
pub(crate) fn take_tag(rest: &mut &[u8], offset: usize) -> Result<(u32, u8), DecodeError> {
    let tag = take_varint(rest, offset)?;
    let number = tag >> 3;
    if number == 0 || number > u64::from(MAX_FIELD_NUMBER) {
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

fn take_delimited<'a>(rest: &mut &'a [u8], offset: usize) -> Result<&'a [u8], DecodeError> {
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

/// The size of the field at the start of `bytes`, whatever it is, or what is wrong with it.
#[cold]
#[inline(never)]
fn skip_field(bytes: &[u8], offset: usize) -> Result<usize, DecodeError> {
    let mut rest = bytes;
    let (number, wire_type) = take_tag(&mut rest, offset)?;
    match wire_type {
        3 => skip_group(&mut rest, offset, number)?,
        _ => skip_value(&mut rest, offset, wire_type)?,
    }
    Ok(bytes.len() - rest.len())
}

/// Skips what follows the start tag of group `number`, up to and with its end tag, and the groups
/// nested in it. Each must end with its own number.
fn skip_group(rest: &mut &[u8], offset: usize, number: u32) -> Result<(), DecodeError> {
    let mut open = [0; MAX_GROUP_DEPTH];
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
