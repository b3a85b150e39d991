//! Messages byte for byte, as the published wire format and the reference writer have them.

mod support;

use protozero::{HeapBuffered, Message, StaticBuffered, StreamWriter};
use support::{Slots, TinyRanges, bytes, ranges};

fn encode(write: impl FnOnce(&mut Message<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<Message>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

#[test]
fn empty_bytes_and_strings_are_a_tag_and_a_zero() {
    let bytes = encode(|message| {
        message.append_bytes::<1>(&[]);
        message.append_string::<2>("");
    });
    assert_eq!(bytes, [0x0a, 0, 0x12, 0]);
}

#[test]
fn every_wire_type_has_its_bytes() {
    let bytes = encode(|message| {
        message.append_uint32::<1>(0);
        message.append_uint32::<2>(u32::MAX);
        message.append_int32::<3>(42);
        message.append_uint64::<4>(u64::MAX);
        message.append_float::<5>(1.25);
        message.append_double::<6>(core::f64::consts::PI);
        message.append_bytes::<7>(&[0, 0, 0, 0, 0x42, 1, 0x42, 0xff, 0x42, 0]);
        message.append_string::<257>("0123456789abcdefABCDEF");
        message.append_sint32::<3>(-21);
    });
    let mut expected = vec![
        0x08, 0, 0x10, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x18, 0x2a, 0x20,
    ];
    expected.extend([0xff; 9]);
    expected.extend([0x01, 0x2d, 0x00, 0x00, 0xa0, 0x3f, 0x31]);
    expected.extend([0x18, 0x2d, 0x44, 0x54, 0xfb, 0x21, 0x09, 0x40]);
    expected.extend([0x3a, 0x0a, 0, 0, 0, 0, 0x42, 1, 0x42, 0xff, 0x42, 0]);
    expected.extend([0x8a, 0x10, 0x16]);
    expected.extend(b"0123456789abcdefABCDEF");
    expected.extend([0x18, 0x29]);
    assert_eq!(bytes, expected);
    assert_eq!(bytes.len(), 74);
}

#[test]
fn negative_numbers_of_every_width_take_ten_bytes() {
    let minus_hundred = [0x9c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for bytes in [
        encode(|message| message.append_int32::<1>(-100)),
        encode(|message| message.append_int64::<1>(-100)),
        encode(|message| message.append_enum::<1>(-100)),
    ] {
        assert_eq!(bytes[0], 0x08);
        assert_eq!(bytes[1..], minus_hundred);
    }
}

#[test]
fn nested_messages_up_to_127_bytes_have_a_one_byte_length() {
    for (payload, header) in [
        (0, vec![0x0a, 0]),
        (125, vec![0x0a, 0x7d]),
        (127, vec![0x0a, 0x7f]),
        (128, vec![0x0a, 0x80, 0x81, 0x80, 0x00]),
        (0x3211, vec![0x0a, 0x91, 0xe4, 0x80, 0x00]),
    ] {
        let bytes = encode(|message| {
            let mut nested = message.begin_nested::<1>();
            nested.append_raw(&vec![0xab; payload]);
        });
        assert_eq!(bytes[..header.len()], header);
        assert_eq!(bytes[header.len()..], vec![0xab; payload]);
    }
}

#[test]
fn compaction_of_a_child_can_make_its_parent_small_enough() {
    let bytes = encode(|message| {
        let mut outer = message.begin_nested::<1>();
        let mut inner = outer.begin_nested::<1>();
        inner.append_raw(&[7; 125]);
    });
    assert_eq!(bytes[..4], [0x0a, 127, 0x0a, 125]);
    assert_eq!(bytes.len(), 129);
}

#[test]
fn siblings_and_fields_after_a_child_follow_it_directly() {
    let bytes = encode(|message| {
        message.append_uint32::<1>(1);
        message.begin_nested::<128>().append_uint32::<2>(2);
        message.begin_nested::<129>().append_uint32::<4>(2);
        message.append_uint32::<5>(3);
    });
    assert_eq!(
        bytes,
        [
            0x08, 0x01, 0x82, 0x08, 0x02, 0x10, 0x02, 0x8a, 0x08, 0x02, 0x20, 0x02, 0x28, 0x03
        ]
    );
}

#[test]
fn pieces_become_one_field() {
    let bytes = encode(|message| message.append_scattered_bytes::<1>(&[b"ab", b"", b"cde"]));
    assert_eq!(bytes, b"\x0a\x05abcde");
}

#[test]
fn packed_fields_are_one_field_with_their_elements_inside() {
    let bytes = encode(|message| message.append_packed_int32::<1>([42, 255, -1]));
    assert_eq!(bytes[..5], [0x0a, 0x0d, 0x2a, 0xff, 0x01]);
    assert_eq!(bytes.len(), 15);
    let bytes = encode(|message| message.append_packed_fixed32::<2>([1, 2, 4, 8]));
    assert_eq!(bytes[..6], [0x12, 0x10, 1, 0, 0, 0]);
    assert_eq!(bytes.len(), 18);
    let bytes = encode(|message| message.append_packed_sint64::<1>([]));
    assert_eq!(bytes, [0x0a, 0]);
}

/// `pre` filler bytes, then field 1 { field 1 = 1 }, in ranges of 8 bytes: where the length slot
/// and the payload land, for every position relative to the end of a range.
#[test]
fn a_nested_message_at_the_end_of_a_range_keeps_its_slot_in_one_piece() {
    let cases: [(usize, &[&[u8]]); 8] = [
        (0, &[&[0x0a, 2, 8, 1]]),
        (1, &[&[0xee, 0x0a, 2, 8, 1]]),
        (2, &[&[0xee, 0xee, 0x0a, 0x82, 0x80, 0x80, 0, 8], &[1]]),
        (
            3,
            &[&[0xee, 0xee, 0xee, 0x0a, 0x82, 0x80, 0x80, 0], &[8, 1]],
        ),
        (4, &[&[0xee, 0xee, 0xee, 0xee, 0x0a], &[2, 8, 1]]),
        (5, &[&[0xee, 0xee, 0xee, 0xee, 0xee, 0x0a], &[2, 8, 1]]),
        (
            7,
            &[
                &[0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0x0a],
                &[2, 8, 1],
            ],
        ),
        (8, &[&[0xee; 8], &[0x0a, 2, 8, 1]]),
    ];
    for slots in [Slots::Stay, Slots::Patched] {
        for (pre, expected) in cases {
            let mut stream = TinyRanges::stream(8, slots);
            let mut message = stream.message();
            message.append_raw(&vec![0xee; pre]);
            message.begin_nested::<1>().append_uint32::<1>(1);
            drop(message);
            assert_eq!(ranges(&mut stream), expected, "{pre} bytes before");
            let written: usize = expected.iter().map(|range| range.len()).sum();
            assert_eq!(stream.written_bytes(), written as u64);
        }
    }
}

#[test]
fn a_leaked_child_cannot_shift_the_lengths_around_it() {
    let bytes = encode(|message| {
        let mut outer = message.begin_nested::<1>();
        core::mem::forget(outer.begin_nested::<2>());
        outer.append_uint32::<3>(1); // lands in the leaked child
        outer.begin_nested::<4>().append_uint32::<5>(1); // ends it
        drop(outer);
        message.append_uint32::<6>(1);
    });
    assert_eq!(
        bytes,
        [0x0a, 8, 0x12, 2, 0x18, 1, 0x22, 2, 0x28, 1, 0x30, 1]
    );
}

#[test]
fn a_leaked_root_can_be_continued() {
    let mut buffer = HeapBuffered::<Message>::new();
    let mut message = buffer.message();
    core::mem::forget(message.begin_nested::<1>());
    core::mem::forget(message);
    assert_eq!(buffer.to_vec(), [0x0a, 0]);
}

#[test]
fn a_fixed_buffer_holds_its_size_exactly_and_not_a_byte_more() {
    for (size, fits) in [(9, false), (10, true)] {
        let mut memory = vec![0; size];
        let mut buffer = StaticBuffered::<Message>::new(&mut memory);
        buffer.message().append_string::<1>("8 bytes.");
        assert_eq!(buffer.finish().is_ok(), fits);
    }
    for size in 0..4 {
        let mut memory = vec![0; size];
        let mut buffer = StaticBuffered::<Message>::new(&mut memory);
        buffer.message().append_bool::<1>(true);
        let outcome = buffer.finish().map_err(|overflow| overflow.needed_bytes);
        assert_eq!(outcome, if size < 2 { Err(2) } else { Ok(2) });
    }
}

#[test]
fn a_slot_outside_any_message_compacts_below_its_limit_only() {
    for (len, compact_max, expected) in [
        (3, 126, vec![3, 1, 1, 1]),
        (126, 126, [vec![126], vec![1; 126]].concat()),
        (127, 126, [vec![0xff, 0x80, 0x80, 0], vec![1; 127]].concat()),
        (3, 0, vec![0x83, 0x80, 0x80, 0, 1, 1, 1]),
    ] {
        let mut stream = TinyRanges::stream(256, Slots::Stay);
        stream.append_slot();
        let payload_offset = stream.used_bytes();
        stream.append_raw(&vec![1; len]);
        assert_eq!(stream.close_slot(payload_offset, compact_max), len);
        assert_eq!(bytes(&mut stream), expected);
    }
}

#[test]
fn a_released_range_is_followed_by_a_new_one() {
    let mut stream: StreamWriter<TinyRanges> = TinyRanges::stream(16, Slots::Stay);
    stream.append_raw(&[1, 2]);
    stream.release_range();
    assert_eq!((stream.used_bytes(), stream.available_bytes()), (0, 0));
    assert_eq!(stream.written_bytes(), 2);
    stream.append_raw(&[3]);
    assert_eq!(stream.written_bytes(), 3);
}
