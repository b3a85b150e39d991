//! `buffa` with views: structs that borrow their strings; lengths are computed once.

use std::cell::Cell;

use buffa::encoding::{Tag, WireType, check_wire_type, skip_field_depth, varint_len};
use buffa::types;
use buffa::{
    DEFAULT_ELEMENT_MEMORY_LIMIT, DEFAULT_UNKNOWN_FIELD_LIMIT, DecodeContext, DecodeError,
    EncodeSink, MessageView, RECURSION_LIMIT, RepeatedView, SizeCache, UnknownFieldsView,
    ViewEncode, saturate_size,
};

use super::{Input, in_buffa};

#[derive(Clone, Debug, Default)]
pub struct EveryFieldView<'a> {
    pub field_int32: Option<i32>,
    pub field_int64: Option<i64>,
    pub field_uint32: Option<u32>,
    pub field_uint64: Option<u64>,
    pub field_nested: RepeatedView<'a, Self>,
    pub field_string: Option<&'a str>,
    pub unknown_fields: UnknownFieldsView<'a>,
}

impl PartialEq for EveryFieldView<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.to_owned_message() == other.to_owned_message()
    }
}

impl<'a> MessageView<'a> for EveryFieldView<'a> {
    type Owned = in_buffa::EveryField;

    fn decode_view(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let unknown_field_limit = Cell::new(DEFAULT_UNKNOWN_FIELD_LIMIT);
        let element_memory_limit = Cell::new(DEFAULT_ELEMENT_MEMORY_LIMIT);
        Self::decode_view_ctx(
            bytes,
            DecodeContext::new(RECURSION_LIMIT, &unknown_field_limit)
                .with_element_memory(&element_memory_limit),
        )
    }

    fn decode_view_with_ctx(
        bytes: &'a [u8],
        context: DecodeContext<'_>,
    ) -> Result<Self, DecodeError> {
        Self::decode_view_ctx(bytes, context)
    }

    #[inline]
    fn merge_view_field(
        &mut self,
        tag: Tag,
        mut rest: &'a [u8],
        before_tag: &'a [u8],
        context: DecodeContext<'_>,
    ) -> Result<&'a [u8], DecodeError> {
        match tag.field_number() {
            1 => {
                check_wire_type(tag, WireType::Varint)?;
                self.field_int32 = Some(types::decode_int32(&mut rest)?);
            }
            2 => {
                check_wire_type(tag, WireType::Varint)?;
                self.field_int64 = Some(types::decode_int64(&mut rest)?);
            }
            3 => {
                check_wire_type(tag, WireType::Varint)?;
                self.field_uint32 = Some(types::decode_uint32(&mut rest)?);
            }
            4 => {
                check_wire_type(tag, WireType::Varint)?;
                self.field_uint64 = Some(types::decode_uint64(&mut rest)?);
            }
            14 => {
                check_wire_type(tag, WireType::LengthDelimited)?;
                let nested_context = context.descend()?;
                let nested = types::borrow_bytes(&mut rest)?;
                context.register_element_memory(size_of::<Self>())?;
                self.field_nested
                    .push(Self::decode_view_ctx(nested, nested_context)?);
            }
            500 => {
                check_wire_type(tag, WireType::LengthDelimited)?;
                self.field_string = Some(types::borrow_str(&mut rest)?);
            }
            _ => {
                skip_field_depth(tag, &mut rest, context.depth())?;
                let field_bytes = before_tag.len() - rest.len();
                self.unknown_fields
                    .push_record(before_tag, field_bytes, context)?;
            }
        }
        Ok(rest)
    }

    fn to_owned_message(&self) -> Result<in_buffa::EveryField, DecodeError> {
        Ok(in_buffa::EveryField {
            field_int32: self.field_int32,
            field_int64: self.field_int64,
            field_uint32: self.field_uint32,
            field_uint64: self.field_uint64,
            field_nested: self
                .field_nested
                .iter()
                .map(Self::to_owned_message)
                .collect::<Result<_, _>>()?,
            field_string: self.field_string.map(str::to_owned),
            unknown_fields: self.unknown_fields.to_owned()?,
        })
    }
}

impl<'a> ViewEncode<'a> for EveryFieldView<'a> {
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
        if let Some(text) = self.field_string {
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
        if let Some(text) = self.field_string {
            types::put_string_field(500, text, sink);
        }
        self.unknown_fields.write_to(sink);
    }
}

pub fn build(input: &Input, levels: usize) -> EveryFieldView<'_> {
    EveryFieldView {
        field_int32: Some(input.integers[0] as i32),
        field_uint32: Some(input.integers[1] as u32),
        field_int64: Some(input.integers[2] as i64),
        field_uint64: Some(input.integers[3]),
        field_string: Some(&input.string),
        field_nested: match levels {
            0 => RepeatedView::default(),
            _ => RepeatedView::from(vec![build(input, levels - 1)]),
        },
        unknown_fields: UnknownFieldsView::default(),
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
pub fn decode(bytes: &[u8]) -> EveryFieldView<'_> {
    EveryFieldView::decode_view(bytes).expect("a message")
}
