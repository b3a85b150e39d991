//! `micropb` with containers on the heap: a struct that owns its strings, with a bit per field for
//! its presence; lengths are computed again at each level.

use micropb::size::{
    sizeof_int32, sizeof_int64, sizeof_len_record, sizeof_varint32, sizeof_varint64,
};
use micropb::{
    DecodeError, MessageDecode, MessageEncode, PbDecoder, PbEncoder, PbRead, PbWrite, Presence,
};

use super::Input;

#[derive(Debug, Default, Clone, PartialEq)]
pub struct EveryField {
    pub field_int32: i32,
    pub field_int64: i64,
    pub field_uint32: u32,
    pub field_uint64: u64,
    pub field_nested: Vec<EveryField>,
    pub field_string: String,
    /// A bit for each singular field, in the order above.
    present: u8,
}

const HAS_INT32: u8 = 1;
const HAS_INT64: u8 = 2;
const HAS_UINT32: u8 = 4;
const HAS_UINT64: u8 = 8;
const HAS_STRING: u8 = 16;

impl EveryField {
    fn has(&self, field: u8) -> bool {
        self.present & field != 0
    }
}

impl MessageDecode for EveryField {
    fn decode<R: PbRead>(
        &mut self,
        decoder: &mut PbDecoder<R>,
        len: usize,
    ) -> Result<(), DecodeError<R::Error>> {
        let before = decoder.bytes_read();
        while decoder.bytes_read() - before < len {
            let tag = decoder.decode_tag()?;
            let expected_wire_type = match tag.field_num() {
                0 => return Err(DecodeError::ZeroField),
                1..=4 => 0,
                14 | 500 => 2,
                _ => {
                    decoder.skip_wire_value(tag.wire_type())?;
                    continue;
                }
            };
            if tag.wire_type() != expected_wire_type {
                return Err(DecodeError::WrongWireType);
            }
            match tag.field_num() {
                1 => {
                    self.field_int32 = decoder.decode_int32()?;
                    self.present |= HAS_INT32;
                }
                2 => {
                    self.field_int64 = decoder.decode_int64()?;
                    self.present |= HAS_INT64;
                }
                3 => {
                    self.field_uint32 = decoder.decode_varint32()?;
                    self.present |= HAS_UINT32;
                }
                4 => {
                    self.field_uint64 = decoder.decode_varint64()?;
                    self.present |= HAS_UINT64;
                }
                14 => {
                    let mut nested = Self::default();
                    decoder.decode_submessage_delimited(&mut nested)?;
                    self.field_nested.push(nested);
                }
                _ => {
                    decoder.decode_string(&mut self.field_string, Presence::Explicit)?;
                    self.present |= HAS_STRING;
                }
            }
        }
        Ok(())
    }
}

impl MessageEncode for EveryField {
    const MAX_SIZE: Result<usize, &'static str> = Err("strings have no limit");

    fn encode<W: PbWrite>(&self, encoder: &mut PbEncoder<W>) -> Result<(), W::Error> {
        if self.has(HAS_INT32) {
            encoder.encode_varint32(8)?;
            encoder.encode_int32(self.field_int32)?;
        }
        if self.has(HAS_INT64) {
            encoder.encode_varint32(16)?;
            encoder.encode_int64(self.field_int64)?;
        }
        if self.has(HAS_UINT32) {
            encoder.encode_varint32(24)?;
            encoder.encode_varint32(self.field_uint32)?;
        }
        if self.has(HAS_UINT64) {
            encoder.encode_varint32(32)?;
            encoder.encode_varint64(self.field_uint64)?;
        }
        for nested in &self.field_nested {
            encoder.encode_varint32(114)?;
            nested.encode_len_delimited(encoder)?;
        }
        if self.has(HAS_STRING) {
            encoder.encode_varint32(4002)?;
            encoder.encode_string(&self.field_string)?;
        }
        Ok(())
    }

    fn compute_size(&self) -> usize {
        let mut size = 0;
        if self.has(HAS_INT32) {
            size += 1 + sizeof_int32(self.field_int32);
        }
        if self.has(HAS_INT64) {
            size += 1 + sizeof_int64(self.field_int64);
        }
        if self.has(HAS_UINT32) {
            size += 1 + sizeof_varint32(self.field_uint32);
        }
        if self.has(HAS_UINT64) {
            size += 1 + sizeof_varint64(self.field_uint64);
        }
        for nested in &self.field_nested {
            size += 1 + sizeof_len_record(nested.compute_size());
        }
        if self.has(HAS_STRING) {
            size += 2 + sizeof_len_record(self.field_string.len());
        }
        size
    }
}

pub fn build(input: &Input, levels: usize) -> EveryField {
    EveryField {
        field_int32: input.integers[0] as i32,
        field_uint32: input.integers[1] as u32,
        field_int64: input.integers[2] as i64,
        field_uint64: input.integers[3],
        field_string: input.string.clone(),
        field_nested: match levels {
            0 => Vec::new(),
            _ => vec![build(input, levels - 1)],
        },
        present: HAS_INT32 | HAS_INT64 | HAS_UINT32 | HAS_UINT64 | HAS_STRING,
    }
}

#[inline(always)]
pub fn encode(input: &Input, levels: usize, memory: &mut [u8]) -> usize {
    let message = build(input, levels);
    let mut free = &mut memory[..];
    let free_bytes = free.len();
    message
        .encode(&mut PbEncoder::new(&mut free))
        .expect("there is room for the message");
    free_bytes - free.len()
}

#[inline(always)]
pub fn decode(bytes: &[u8]) -> EveryField {
    let mut message = EveryField::default();
    message.decode_from_bytes(bytes).expect("a message");
    message
}
