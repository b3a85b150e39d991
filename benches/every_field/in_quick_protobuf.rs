//! `quick-protobuf`: a struct that borrows its strings, also when decoding; lengths are computed
//! again at each level.

use std::borrow::Cow;

use quick_protobuf::sizeofs::{sizeof_len, sizeof_varint};
use quick_protobuf::{
    BytesReader, BytesWriter, MessageRead, MessageWrite, Result, Writer, WriterBackend,
};

use super::Input;

#[derive(Debug, Default, PartialEq, Clone)]
pub struct EveryField<'a> {
    pub field_int32: Option<i32>,
    pub field_int64: Option<i64>,
    pub field_uint32: Option<u32>,
    pub field_uint64: Option<u64>,
    pub field_nested: Vec<EveryField<'a>>,
    pub field_string: Option<Cow<'a, str>>,
}

impl<'a> MessageRead<'a> for EveryField<'a> {
    fn from_reader(reader: &mut BytesReader, bytes: &'a [u8]) -> Result<Self> {
        let mut message = Self::default();
        while !reader.is_eof() {
            match reader.next_tag(bytes)? {
                8 => message.field_int32 = Some(reader.read_int32(bytes)?),
                16 => message.field_int64 = Some(reader.read_int64(bytes)?),
                24 => message.field_uint32 = Some(reader.read_uint32(bytes)?),
                32 => message.field_uint64 = Some(reader.read_uint64(bytes)?),
                114 => message.field_nested.push(reader.read_message(bytes)?),
                4002 => message.field_string = Some(reader.read_string(bytes).map(Cow::Borrowed)?),
                tag => reader.read_unknown(bytes, tag)?,
            }
        }
        Ok(message)
    }
}

impl MessageWrite for EveryField<'_> {
    fn get_size(&self) -> usize {
        self.field_int32.map_or(0, |v| 1 + sizeof_varint(v as u64))
            + self.field_int64.map_or(0, |v| 1 + sizeof_varint(v as u64))
            + self.field_uint32.map_or(0, |v| 1 + sizeof_varint(v.into()))
            + self.field_uint64.map_or(0, |v| 1 + sizeof_varint(v))
            + self
                .field_nested
                .iter()
                .map(|nested| 1 + sizeof_len(nested.get_size()))
                .sum::<usize>()
            + self
                .field_string
                .as_ref()
                .map_or(0, |text| 2 + sizeof_len(text.len()))
    }

    fn write_message<W: WriterBackend>(&self, writer: &mut Writer<W>) -> Result<()> {
        if let Some(value) = self.field_int32 {
            writer.write_with_tag(8, |writer| writer.write_int32(value))?;
        }
        if let Some(value) = self.field_int64 {
            writer.write_with_tag(16, |writer| writer.write_int64(value))?;
        }
        if let Some(value) = self.field_uint32 {
            writer.write_with_tag(24, |writer| writer.write_uint32(value))?;
        }
        if let Some(value) = self.field_uint64 {
            writer.write_with_tag(32, |writer| writer.write_uint64(value))?;
        }
        for nested in &self.field_nested {
            writer.write_with_tag(114, |writer| writer.write_message(nested))?;
        }
        if let Some(text) = &self.field_string {
            writer.write_with_tag(4002, |writer| writer.write_string(text))?;
        }
        Ok(())
    }
}

pub fn build(input: &Input, levels: usize) -> EveryField<'_> {
    EveryField {
        field_int32: Some(input.integers[0] as i32),
        field_uint32: Some(input.integers[1] as u32),
        field_int64: Some(input.integers[2] as i64),
        field_uint64: Some(input.integers[3]),
        field_string: Some(Cow::Borrowed(&input.string)),
        field_nested: match levels {
            0 => Vec::new(),
            _ => vec![build(input, levels - 1)],
        },
    }
}

/// Encodes without `serialize_into_slice` of the library, which would write the length first.
#[inline(always)]
pub fn encode(input: &Input, levels: usize, memory: &mut [u8]) -> usize {
    let message = build(input, levels);
    let len = message.get_size();
    message
        .write_message(&mut Writer::new(BytesWriter::new(memory)))
        .expect("there is room for the message");
    len
}

#[inline(always)]
pub fn decode(bytes: &[u8]) -> EveryField<'_> {
    EveryField::from_reader(&mut BytesReader::from_bytes(bytes), bytes).expect("a message")
}
