//! Serializes a state: fields in ascending order of their numbers, elements in the order of their
//! indices, map entries in the order of their keys.
//!
//! Messages that are nodes of the tree have lengths of 1 byte if they are short, and else of 4 bytes, as
//! Perfetto writes them. (Where a short message lies across two blocks of Perfetto's memory, its length
//! has 4 bytes as well.) Messages that are still bytes are written as they were received.

use std::collections::btree_map;

use protozero::{WireType, append_varint, redundant_varint};

use crate::arena::{Arena, Content, ROOT_INDEX};
use crate::source::{Scalar, ScalarType};

const LENGTH_BYTES: usize = 4;
/// The greatest length of a message that has a length of 1 byte.
const SHORT_MAX_BYTES: usize = 0x7f;

/// A node whose children are being written.
struct Open<'a> {
    children: btree_map::Iter<'a, u32, u32>,
    /// The field number of a list's elements. A message's children have their own.
    list_field: Option<u32>,
    /// The offset at which a message's length has its place. The root and lists have none.
    length_at: Option<usize>,
}

/// Appends the serialized state. The depth of the tree costs heap, not stack.
pub(crate) fn append_state(arena: &Arena, out: &mut Vec<u8>) {
    let mut open = Vec::new();
    match arena.content(ROOT_INDEX) {
        Content::Bytes(bytes) => out.extend_from_slice(bytes),
        Content::Message(children) => open.push(Open {
            children: children.iter(),
            list_field: None,
            length_at: None,
        }),
        // The root is neither a list nor a scalar.
        _ => {}
    }
    while let Some(innermost) = open.last_mut() {
        let Some((&key, &child)) = innermost.children.next() else {
            if let Some(length_at) = innermost.length_at {
                fill_in_length(out, length_at);
            }
            open.pop();
            continue;
        };
        let field = innermost.list_field.unwrap_or(key);
        match arena.content(child) {
            Content::Empty => {}
            Content::Scalar(scalar) => append_scalar(field, *scalar, out),
            Content::Bytes(bytes) => {
                append_tag(field, WireType::LengthDelimited, out);
                append_varint(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Content::Message(children) => {
                append_tag(field, WireType::LengthDelimited, out);
                let length_at = Some(out.len());
                out.extend_from_slice(&[0; LENGTH_BYTES]);
                open.push(Open {
                    children: children.iter(),
                    list_field: None,
                    length_at,
                });
            }
            Content::Indexed(elements) | Content::Mapped(elements) => open.push(Open {
                children: elements.iter(),
                list_field: Some(field),
                length_at: None,
            }),
        }
    }
}

/// Writes the length of the message at the end, whose length has its place at `length_at`. The memory
/// limit keeps the length below 2^28.
fn fill_in_length(out: &mut Vec<u8>, length_at: usize) {
    let begin = length_at + LENGTH_BYTES;
    let len = out.len() - begin;
    if len <= SHORT_MAX_BYTES {
        out.copy_within(begin.., length_at + 1);
        out.truncate(length_at + 1 + len);
        out[length_at] = len as u8;
    } else {
        out[length_at..begin].copy_from_slice(&redundant_varint(len as u32));
    }
}

fn append_tag(field: u32, wire_type: WireType, out: &mut Vec<u8>) {
    append_varint(u64::from(field) << 3 | wire_type as u64, out);
}

fn append_scalar(field: u32, scalar: Scalar, out: &mut Vec<u8>) {
    match scalar.scalar_type {
        ScalarType::Varint => {
            append_tag(field, WireType::Varint, out);
            append_varint(scalar.value, out);
        }
        ScalarType::Fixed32 => {
            append_tag(field, WireType::Fixed32, out);
            out.extend_from_slice(&(scalar.value as u32).to_le_bytes());
        }
        ScalarType::Fixed64 => {
            append_tag(field, WireType::Fixed64, out);
            out.extend_from_slice(&scalar.value.to_le_bytes());
        }
    }
}
