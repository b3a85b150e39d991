//! `buffa` with structs that own their strings; lengths are computed once.

use buffa::bytes::Buf;
use buffa::encoding::{Tag, WireType, check_wire_type, decode_unknown_field, varint_len};
use buffa::types;
use buffa::{
    DecodeContext, DecodeError, EncodeSink, Message, SizeCache, UnknownFields, saturate_size,
};

use super::Input;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EveryField {
    pub field_int32: Option<i32>,
    pub field_int64: Option<i64>,
    pub field_uint32: Option<u32>,
    pub field_uint64: Option<u64>,
    pub field_nested: Vec<Self>,
    pub field_string: Option<String>,
    pub unknown_fields: UnknownFields,
}

buffa::impl_default_instance!(EveryField);

impl Message for EveryField {
    fn compute_size(&self, cache: &mut SizeCache) -> u32 {
        let mut size = 0;
        if let Some(value) = self.field_int32 {
            size += 1 + types::int32_encoded_len(value) as u64;
        }
        if let Some(value) = self.field_int64 {
            size += 1 + types::int64_encoded_len(value) as u64;
        }
        if let Some(value) = self.field_uint32 {
            size += 1 + types::uint32_encoded_len(value) as u64;
        }
        if let Some(value) = self.field_uint64 {
            size += 1 + types::uint64_encoded_len(value) as u64;
        }
        for nested in &self.field_nested {
            let slot = cache.reserve();
            let nested_size = nested.compute_size(cache);
            cache.set(slot, nested_size);
            size += 1 + varint_len(nested_size.into()) as u64 + u64::from(nested_size);
        }
        if let Some(text) = &self.field_string {
            size += 2 + types::string_encoded_len(text) as u64;
        }
        size += self.unknown_fields.encoded_len() as u64;
        saturate_size(size)
    }

    fn write_to(&self, cache: &mut SizeCache, sink: &mut impl EncodeSink) {
        if let Some(value) = self.field_int32 {
            types::put_int32_field(1, value, sink);
        }
        if let Some(value) = self.field_int64 {
            types::put_int64_field(2, value, sink);
        }
        if let Some(value) = self.field_uint32 {
            types::put_uint32_field(3, value, sink);
        }
        if let Some(value) = self.field_uint64 {
            types::put_uint64_field(4, value, sink);
        }
        for nested in &self.field_nested {
            types::put_len_delimited_header(14, cache.consume_next().into(), sink);
            nested.write_to(cache, sink);
        }
        if let Some(text) = &self.field_string {
            types::put_string_field(500, text, sink);
        }
        self.unknown_fields.write_to(sink);
    }

    fn merge_field(
        &mut self,
        tag: Tag,
        buf: &mut impl Buf,
        context: DecodeContext<'_>,
    ) -> Result<(), DecodeError> {
        match tag.field_number() {
            1 => {
                check_wire_type(tag, WireType::Varint)?;
                self.field_int32 = Some(types::decode_int32(buf)?);
            }
            2 => {
                check_wire_type(tag, WireType::Varint)?;
                self.field_int64 = Some(types::decode_int64(buf)?);
            }
            3 => {
                check_wire_type(tag, WireType::Varint)?;
                self.field_uint32 = Some(types::decode_uint32(buf)?);
            }
            4 => {
                check_wire_type(tag, WireType::Varint)?;
                self.field_uint64 = Some(types::decode_uint64(buf)?);
            }
            14 => {
                check_wire_type(tag, WireType::LengthDelimited)?;
                let mut nested = Self::default();
                context.register_element_memory(size_of::<Self>())?;
                nested.merge_length_delimited(buf, context)?;
                self.field_nested.push(nested);
            }
            500 => {
                check_wire_type(tag, WireType::LengthDelimited)?;
                types::merge_string(self.field_string.get_or_insert_default(), buf)?;
            }
            _ => self
                .unknown_fields
                .push(decode_unknown_field(tag, buf, context)?),
        }
        Ok(())
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

pub fn build(input: &Input, levels: usize) -> EveryField {
    EveryField {
        field_int32: Some(input.integers[0] as i32),
        field_uint32: Some(input.integers[1] as u32),
        field_int64: Some(input.integers[2] as i64),
        field_uint64: Some(input.integers[3]),
        field_string: Some(input.string.clone()),
        field_nested: match levels {
            0 => Vec::new(),
            _ => vec![build(input, levels - 1)],
        },
        unknown_fields: UnknownFields::default(),
    }
}

#[inline(always)]
pub fn encode(input: &Input, levels: usize, memory: &mut [u8]) -> usize {
    let message = build(input, levels);
    let mut free = &mut memory[..];
    let free_bytes = free.len();
    message.encode(&mut free);
    free_bytes - free.len()
}

#[inline(always)]
pub fn decode(bytes: &[u8]) -> EveryField {
    EveryField::decode_from_slice(bytes).expect("a message")
}
