//! Tests of the stream writer: the place of each byte, and the free bytes at the ends of ranges.
#![cfg(feature = "alloc")]

mod support;

use protozero::{DELIMITED_ROOM_BYTES, FixedSource, HeapBuffered, Message, StreamWriter};
use support::{Slots, TinyRanges, bytes, encode_in_ranges, ranges};

#[test]
fn range_is_filled_to_its_last_byte_before_the_next() {
    let mut stream = TinyRanges::stream(8, Slots::Stay);
    assert_eq!(stream.available_bytes(), 0, "nothing is asked for early");
    for written in 0..8 {
        stream.append_raw(&[written]);
        assert_eq!(stream.available_bytes(), 7 - usize::from(written));
    }
    assert_eq!(ranges(&mut stream), [[0, 1, 2, 3, 4, 5, 6, 7]]);
    stream.append_raw(&[8]);
    assert_eq!(stream.available_bytes(), 7);
    assert_eq!(ranges(&mut stream).len(), 2);
}

/// Slots have any alignment, and their ranges are used up long before they are filled in.
#[test]
fn slots_are_filled_in_where_they_were_reserved() {
    let ranges = encode_in_ranges(8, |message| {
        message.append_raw(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let mut outer = message.begin_nested::<1>();
        outer.append_raw(&[0x50, 0x51, 0x52]);
        let mut inner = outer.begin_nested::<2>();
        inner.append_raw(&[0xa0; 20]);
    });
    let expected: [&[u8]; 6] = [
        &[0, 1, 2, 3, 4, 5, 6, 7],
        &[0x0a, 0x9c, 0x80, 0x80, 0, 0x50, 0x51, 0x52],
        &[0x12, 0x94, 0x80, 0x80, 0, 0xa0, 0xa0, 0xa0],
        &[0xa0; 8],
        &[0xa0; 8],
        &[0xa0],
    ];
    assert_eq!(ranges, expected);
}

#[test]
fn a_stream_that_starts_in_a_slice_writes_from_its_first_byte() {
    let mut slice = [0; 8];
    let mut stream = FixedSource::stream(&mut slice);
    stream.append_raw(&[1, 2, 3]);
    assert_eq!((stream.used_bytes(), stream.available_bytes()), (3, 5));
    drop(stream);
    assert_eq!(slice, [1, 2, 3, 0, 0, 0, 0, 0]);
}

#[test]
fn a_short_payload_stands_right_behind_its_length() {
    for (len, free) in [
        (0, 0),
        (1, 0),
        (3, 1),
        (16, 0),
        (17, 40),
        (120, 15),
        (127, 16),
    ] {
        let payload: Vec<u8> = (1..=len).collect();
        let mut memory = vec![0xee; 5 + payload.len() + free];
        let mut stream = FixedSource::stream(&mut memory);
        stream.message().begin_nested::<1>().append_raw(&payload);
        assert_eq!(stream.used_bytes(), 2 + payload.len());
        assert_eq!(stream.available_bytes(), 3 + free);
        assert_eq!(memory[..2], [0x0a, len]);
        assert_eq!(memory[2..2 + payload.len()], payload);
    }
}

/// The depths lie around 16, the number of slots that the stream stores inline. The length of the
/// innermost message decides how many messages are too long for a length of one byte.
#[test]
fn message_beyond_127_bytes_keeps_its_content_at_any_depth() {
    for depth in [1, 2, 15, 16, 17, 20] {
        for len in [0, 80, 126, 127, 128, 129, 300] {
            let payload: Vec<u8> = (0..len).map(|index| index as u8).collect();
            let mut expected = payload.clone();
            for _ in 0..depth {
                let length = expected.len() as u32;
                let length = if length <= 127 {
                    vec![length as u8]
                } else {
                    protozero::redundant_varint(length).to_vec()
                };
                expected = [&[0x0a], &length[..], &expected].concat();
            }
            let mut stream = TinyRanges::stream(1024, Slots::Stay);
            stream.append_slot();
            nest(&mut stream.message(), depth, &payload);
            let frame_bytes = stream.close_slot(0);
            assert_eq!(frame_bytes, Some(4 + expected.len()));
            assert_eq!(bytes(&mut stream)[4..], expected, "{depth}, {len}");
            assert_eq!(stream.available_bytes(), 1024 - 4 - expected.len());
        }
    }

    fn nest(message: &mut Message<'_>, depth: usize, payload: &[u8]) {
        if depth == 0 {
            return message.append_raw(payload);
        }
        nest(&mut message.begin_nested::<1>(), depth - 1, payload);
    }
}

#[test]
fn depth_may_exceed_the_inline_depth_repeatedly() {
    fn nest(message: &mut Message<'_>, depth: usize) {
        if depth > 0 {
            nest(&mut message.begin_nested::<1>(), depth - 1);
        }
    }
    let mut stream = TinyRanges::stream(1024, Slots::Stay);
    for depth in [2, 16, 17, 32, 1] {
        nest(&mut stream.message(), depth);
    }
    let expected: Vec<u8> = [2_u8, 16, 17, 32, 1]
        .iter()
        .flat_map(|&depth| (0..depth).rev().flat_map(|inner| [0x0a, 2 * inner]))
        .collect();
    assert_eq!(bytes(&mut stream), expected);
}

/// Writes `pre` filler bytes, then field 1 { field 1 = 1 }, to ranges of 8 bytes. The cases cover
/// the positions of length slot and payload relative to the end of a range.
#[test]
fn length_slot_at_the_end_of_a_range_stays_in_one_piece() {
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

/// Writes the message of the test above to ranges of other sizes: a slot never spans two ranges.
#[test]
fn a_slot_lies_whole_in_one_range_at_every_size() {
    for range_bytes in 4..=32 {
        for pre in 0..=range_bytes {
            let ranges = encode_in_ranges(range_bytes, |message| {
                message.append_raw(&vec![0xee; pre]);
                message.begin_nested::<1>().append_uint32::<1>(1);
            });
            let bytes = ranges.concat();
            let (filler, field) = bytes.split_at(pre);
            assert_eq!(filler, vec![0xee; pre]);
            let whole_in_one_range: &[u8] = &[0x0a, 2, 8, 1];
            let cut: &[u8] = &[0x0a, 0x82, 0x80, 0x80, 0, 8, 1];
            assert!(field == whole_in_one_range || field == cut, "{field:?}");
        }
    }
}

#[test]
fn heap_blocks_double_and_the_first_one_is_kept() {
    let mut buffer = HeapBuffered::<Message>::with_first_block(16);
    for _ in 0..2 {
        buffer.message().append_bytes::<1>(&[7; 300]);
        let lengths: Vec<usize> = buffer.slices().map(<[u8]>::len).collect();
        assert_eq!(lengths, [16, 32, 64, 128, 63]);
        assert_eq!(buffer.to_vec()[..3], [0x0a, 0xac, 2]);
        assert_eq!(buffer.to_vec()[3..], [7; 300]);
        buffer.reset();
        assert_eq!(buffer.to_vec(), []);
    }
}

#[test]
fn root_slot_takes_one_byte_up_to_its_limit_only() {
    for (len, compact_max, expected) in [
        (3, 126, vec![3, 1, 1, 1]),
        (126, 126, [vec![126], vec![1; 126]].concat()),
        (127, 126, [vec![0xff, 0x80, 0x80, 0], vec![1; 127]].concat()),
        (3, 0, vec![0x83, 0x80, 0x80, 0, 1, 1, 1]),
    ] {
        let mut stream = TinyRanges::stream(256, Slots::Stay);
        stream.append_slot();
        stream.append_raw(&vec![1; len]);
        assert_eq!(stream.close_slot(compact_max), Some(expected.len()));
        assert_eq!(stream.close_slot(compact_max), None);
        assert_eq!(bytes(&mut stream), expected);
    }
}

#[test]
fn a_delimited_value_is_appended_whole_or_not_at_all() {
    for len in 0..=130 {
        let value: Vec<u8> = (0..len as u8).collect();
        for range_bytes in [DELIMITED_ROOM_BYTES - 1, DELIMITED_ROOM_BYTES] {
            let mut stream = TinyRanges::stream(range_bytes, Slots::Stay);
            stream.next_range();
            let fits = len <= 127 && range_bytes == DELIMITED_ROOM_BYTES;
            assert_eq!(stream.append_delimited(&value), fits);
            let expected = [&[len as u8], &value[..]].concat();
            assert_eq!(bytes(&mut stream), if fits { expected } else { vec![] });
        }
    }
}

#[test]
fn assembled_delimited_value_is_appended_whole_or_not_at_all() {
    for range_bytes in [DELIMITED_ROOM_BYTES - 1, DELIMITED_ROOM_BYTES] {
        for (head_len, tail_len) in [(0, 0), (1, 0), (4, 3), (3, 8), (4, 123), (5, 8), (4, 124)] {
            let mut stream = TinyRanges::stream(range_bytes, Slots::Stay);
            stream.next_range();
            let (head, tail) = ([1, 2, 3, 4], vec![5; tail_len]);
            let len = stream.append_delimited_by(|value| {
                assert!(value.is_empty() && !value.replace(0, 9));
                value.put_some(&head, head_len)
                    && value.put(&tail)
                    && !value.replace(value.len(), 9)
                    && (value.is_empty() || value.replace(0, 9))
            });
            let fits = head_len <= 4 && head_len + tail_len <= 127;
            let expected = if fits && range_bytes == DELIMITED_ROOM_BYTES {
                let mut expected = [&head[..head_len], &tail].concat();
                expected.first_mut().into_iter().for_each(|byte| *byte = 9);
                expected.insert(0, expected.len() as u8);
                assert_eq!(len, Some(expected.len() - 1));
                expected
            } else {
                assert_eq!(len, None);
                vec![]
            };
            assert_eq!(bytes(&mut stream), expected);
        }
    }
}

#[test]
fn assembled_value_that_is_given_up_leaves_nothing() {
    let mut stream = TinyRanges::stream(DELIMITED_ROOM_BYTES, Slots::Stay);
    stream.next_range();
    assert_eq!(
        stream.append_delimited_by(|value| !value.put(b"given up")),
        None
    );
    // `put_some` stores all bytes of its array, so there must be room for all of them.
    let len = stream.append_delimited_by(|value| {
        value.put(&[1; 120]) && !value.put_some(&[2; 8], 1) && value.put_some(&[3; 7], 7)
    });
    assert_eq!(len, Some(127));
    assert_eq!(
        bytes(&mut stream),
        [&[127][..], &[1; 120], &[3; 7]].concat()
    );
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
