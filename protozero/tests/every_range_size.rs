//! The same message through ranges of every size, cut at every byte.

mod support;

use protozero::{Decoder, HeapBuffered, Message, Value};
use support::{Random, Slots, TinyRanges, bytes};

/// A decoded message, with nested messages (odd field numbers) as trees.
#[derive(Debug, PartialEq)]
enum Tree {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
    Message(Vec<(u32, Tree)>),
}

/// By convention of `write_random`, field 9 is a nested message.
fn tree(bytes: &[u8]) -> Vec<(u32, Tree)> {
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

/// Writes random fields and returns what was meant.
fn write_random(
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

#[test]
fn a_message_cut_anywhere_reads_back_as_what_was_meant() {
    for seed in 1..=60 {
        for range_bytes in (4..=64).chain([4096]) {
            for slots in [Slots::Stay, Slots::Patched] {
                let mut stream = TinyRanges::stream(range_bytes, slots);
                let mut random = Random(seed * 0x9e37_79b9);
                let meant = write_random(&mut stream.message(), &mut random, 5);
                let bytes = bytes(&mut stream);
                assert_eq!(tree(&bytes), meant, "seed {seed}, ranges of {range_bytes}");
                assert_eq!(stream.written_bytes(), bytes.len() as u64);
                assert_eq!(stream.dropped_fields(), 0);
            }
        }
    }
}

#[test]
fn growing_heap_blocks_hold_the_same_message_as_one_large_block() {
    for seed in 1..=60 {
        let mut small = HeapBuffered::<Message>::with_first_block(16);
        for _ in 0..3 {
            small.reset();
            let mut random = Random(seed);
            let meant = write_random(&mut small.message(), &mut random, 5);
            assert_eq!(tree(&small.to_vec()), meant, "seed {seed}");
        }
    }
}

/// Opens `depth` messages inside each other, a field in each.
fn nest(message: &mut Message<'_>, depth: usize) {
    message.append_uint32::<1>(7);
    if depth > 0 {
        nest(&mut message.begin_nested::<9>(), depth - 1);
    }
    message.append_uint32::<1>(8);
}

#[test]
fn a_thousand_levels_of_nesting_survive_any_range_size() {
    for range_bytes in [8, 61, 4096] {
        for slots in [Slots::Stay, Slots::Patched] {
            let mut stream = TinyRanges::stream(range_bytes, slots);
            nest(&mut stream.message(), 1000);
            let bytes = bytes(&mut stream);
            let mut level = &bytes[..];
            for _ in 0..1000 {
                let fields: Vec<_> = Decoder::new(level).fields().collect();
                assert_eq!(fields.len(), 3);
                let Ok(Value::Bytes(payload)) = fields[1].map(|field| field.value) else {
                    panic!("a nested message stands in the middle");
                };
                level = payload;
            }
            assert_eq!(level, [0x08, 7, 0x08, 8]);
        }
    }
}
