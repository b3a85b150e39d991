//! Random messages, written and read back as trees.

use protozero::{Decoder, Message, Value};

use super::Random;

/// A decoded value, with nested messages as trees.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
    Message(Vec<(u32, Tree)>),
}

/// Decodes a message that `write_random` wrote, in which field 9 is a nested message.
pub fn tree(bytes: &[u8]) -> Vec<(u32, Tree)> {
    Decoder::new(bytes)
        .fields()
        .map(|field| {
            let field = field.expect("well-formed");
            let value = match field.value {
                Value::Varint(value) => Tree::Varint(value),
                Value::Fixed64(value) => Tree::Fixed64(value),
                Value::Fixed32(value) => Tree::Fixed32(value),
                Value::Bytes(payload) if field.number == 9 => Tree::Message(tree(payload)),
                Value::Bytes(payload) => Tree::Bytes(payload.to_vec()),
            };
            (field.number, value)
        })
        .collect()
}

/// Writes random fields, and returns them as a tree.
pub fn write_random(
    message: &mut Message<'_>,
    random: &mut Random,
    depth_left: u32,
) -> Vec<(u32, Tree)> {
    let mut meant = Vec::new();
    for _ in 0..random.below(8) {
        let value = random.next() >> random.below(64);
        let (number, written) = match random.below(7) {
            0 => {
                message.append_uint64::<1>(value);
                (1, Tree::Varint(value))
            }
            1 => {
                message.append_fixed64::<2>(value);
                (2, Tree::Fixed64(value))
            }
            2 => {
                message.append_fixed32::<300>(value as u32);
                (300, Tree::Fixed32(value as u32))
            }
            3 => {
                let text = "x".repeat(random.below(200) as usize);
                message.append_string::<4>(&text);
                (4, Tree::Bytes(text.into_bytes()))
            }
            4 => {
                let values: Vec<u32> = (0..random.below(9)).map(|n| (value as u32) >> n).collect();
                message.append_packed_fixed32::<5>(values.iter().copied());
                let payload = values.iter().flat_map(|value| value.to_le_bytes());
                (5, Tree::Bytes(payload.collect()))
            }
            5 => {
                message.append_sint32::<{ (1 << 29) - 1 }>(value as i32);
                let zigzag = (value as i32) << 1 ^ (value as i32) >> 31;
                ((1 << 29) - 1, Tree::Varint(u64::from(zigzag as u32)))
            }
            _ if depth_left == 0 => continue,
            _ => {
                let mut nested = message.begin_nested::<9>();
                (
                    9,
                    Tree::Message(write_random(&mut nested, random, depth_left - 1)),
                )
            }
        };
        meant.push((number, written));
    }
    meant
}
