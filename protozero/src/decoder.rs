//! Reads the fields of encoded bytes: zero copy, no allocation, no recursion, no panic.

use crate::error::DecodeError;
use crate::field::{
    Field, Value, skip_field, skip_group, split_field, take_array, take_delimited, take_tag,
};
use crate::types::FieldType;
use crate::varint::take_varint;

/// An encoded message, decoded in place.
///
/// Nothing is checked or indexed in advance: each call scans the whole message, and returns an
/// error if the bytes are malformed. To read many fields, iterate over [`Decoder::fields`] once, or
/// use a generated decoder, which scans the message only when it is created. Groups are a
/// deprecated feature of protobuf; the decoder skips them.
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
    /// Creates a decoder of one encoded message.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the encoded message.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Iterates over all fields, in the order in which they were written.
    #[must_use]
    pub const fn fields(&self) -> Fields<'a> {
        Fields {
            bytes: self.bytes,
            offset: 0,
        }
    }

    /// Returns the value of a singular field. If the field was written several times, the last
    /// value counts.
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

    /// Iterates over the values of a repeated field. Packed and single values may be mixed.
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

/// An iterator over the fields of a message. It ends after an error.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    /// At most the length of `bytes`.
    offset: usize,
}

impl<'a> Fields<'a> {
    /// Returns the offset at which the next field begins: the number of bytes read so far.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Takes the number and the value of the next field. A group has no value.
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

    /// Returns the next field and its offset.
    // Inlined to keep the field in registers: returning it through memory takes longer than
    // reading it.
    #[inline(always)]
    pub(crate) fn next_with_offset(&mut self) -> Option<Result<(usize, Field<'a>), DecodeError>> {
        loop {
            let rest = self
                .bytes
                .get(self.offset..)
                .filter(|rest| !rest.is_empty())?;
            if let Some((field, behind)) = split_field(rest) {
                let begin = self.offset;
                self.offset = self.bytes.len() - behind.len();
                return Some(Ok((begin, field)));
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

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, DecodeError>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let field = self.next_with_offset()?;
        Some(field.map(|(_, field)| field))
    }
}

/// An iterator over the values of a repeated field. It ends after an error.
#[derive(Clone, Debug)]
pub struct Repeated<'a, T> {
    fields: Fields<'a>,
    number: u32,
    /// The unread rest of the current packed field.
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
