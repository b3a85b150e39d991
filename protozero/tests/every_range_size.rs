//! Tests that write a message to ranges of every small size, so that it is cut at every byte.
#![cfg(feature = "alloc")]

mod support;

use protozero::{Decoder, HeapBuffered, Message, Value};
use support::random_message::{tree, write_random};
use support::{Random, Slots, TinyRanges, bytes};

#[test]
fn message_cut_anywhere_reads_back_as_written() {
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
fn message_in_many_heap_blocks_reads_back_as_written() {
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

/// Writes `depth` nested messages, with one field before and one behind each child.
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
