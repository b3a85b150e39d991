//! Tests of the encoded bytes of messages, against the published wire format and Perfetto's writer.
#![cfg(feature = "alloc")]

mod support;

use protozero::{Decoder, HeapBuffered, Message, types};
use support::{encode, encode_in_ranges};

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
fn short_child_length_can_keep_the_parent_below_128_bytes() {
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

#[test]
fn a_leaked_child_cannot_shift_the_lengths_around_it() {
    let bytes = encode(|message| {
        let mut outer = message.begin_nested::<1>();
        core::mem::forget(outer.begin_nested::<2>());
        outer.append_uint32::<3>(1); // becomes part of the leaked child
        outer.begin_nested::<4>().append_uint32::<5>(1); // ends the leaked child
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
fn message_ends_where_its_moved_writer_is_dropped() {
    let bytes = encode(|message| {
        let child = message.begin_nested::<1>();
        let mut child = core::convert::identity(child);
        child.append_raw(&[8, 1]);
        let end = |child: Message<'_>| drop(child);
        end(child);
        message.append_uint32::<2>(2);
    });
    assert_eq!(bytes, [0x0a, 2, 8, 1, 0x10, 2]);
}

#[test]
fn a_child_may_be_declared_before_it_is_begun() {
    let bytes = encode(|message| {
        let mut child;
        message.append_uint32::<2>(2);
        child = message.begin_nested::<1>();
        child.append_raw(&[1, 2, 3]);
    });
    assert_eq!(bytes, [0x10, 2, 0x0a, 3, 1, 2, 3]);
}

#[test]
fn message_that_leaves_its_range_has_a_four_byte_length() {
    let ranges = encode_in_ranges(17, |message| {
        let mut nested = message.begin_nested::<1>();
        nested.append_bytes::<1>(&[0; 10]);
        nested.append_bytes::<1>(&[0; 10]);
    });
    assert_eq!(ranges[0][..7], [0x0a, 0x98, 0x80, 0x80, 0, 0x0a, 10]);
    assert_eq!((ranges[0].len(), ranges[1].len()), (17, 12));
}

#[test]
fn two_pieces_of_42_bytes_become_one_field_of_84() {
    let ranges = encode_in_ranges(16, |message| {
        message.append_scattered_bytes::<1>(&[&[0x42; 42], &[0x42; 42]]);
    });
    let bytes = ranges.concat();
    assert_eq!(bytes[..2], [0x0a, 0x54]);
    assert_eq!(bytes[2..], [0x42; 84]);
}

#[test]
fn nested_empty_messages_have_one_byte_lengths_up_to_127() {
    fn nest(message: &mut Message<'_>, depth: usize) {
        if depth > 0 {
            nest(&mut message.begin_nested::<1>(), depth - 1);
        }
    }
    assert_eq!(encode(|message| nest(message, 1)), [0x0a, 0]);
    assert_eq!(encode(|message| nest(message, 40)).len(), 80);
    // The six outermost levels exceed 127 bytes.
    assert_eq!(encode(|message| nest(message, 70)).len(), 158);
}

#[test]
fn child_that_is_dropped_early_ends_once() {
    let bytes = encode(|message| {
        drop({
            let mut child = message.begin_nested::<1>();
            child.append_uint32::<1>(1);
            child
        });
        message.append_uint32::<2>(2);
    });
    assert_eq!(bytes, [0x0a, 2, 8, 1, 0x10, 2]);
}

#[test]
fn nested_messages_have_the_bytes_of_the_conformance_schema() {
    let bytes = encode(|message| {
        {
            let mut child = message.begin_nested::<2>();
            child.begin_nested::<1>().append_int32::<1>(321);
        }
        drop(message.begin_nested::<2>());
        message.begin_nested::<3>().append_int32::<1>(1000);
    });
    assert_eq!(
        bytes,
        [0x12, 5, 0x0a, 3, 8, 0xc1, 2, 0x12, 0, 0x1a, 3, 8, 0xe8, 7]
    );
}

#[test]
fn raw_fields_before_a_nested_message_stay_unchanged() {
    let bytes = encode(|message| {
        message.append_raw(b"foo");
        message.begin_nested::<3>().append_string::<10>("bar");
    });
    assert_eq!(bytes, b"foo\x1a\x05\x52\x03bar");
}

#[test]
fn append_packed_writes_the_bytes_of_other_serializers() {
    let bytes = encode(|message| message.append_packed::<types::Int32, 1>([42, 255, -1]));
    assert_eq!(bytes[..5], [0x0a, 0x0d, 0x2a, 0xff, 0x01]);
    assert_eq!(bytes.len(), 15);
    let bytes = encode(|message| message.append_packed::<types::Fixed32, 2>([1, 2, 4, 8]));
    assert_eq!(bytes[..6], [0x12, 0x10, 1, 0, 0, 0]);
    assert_eq!(bytes.len(), 18);
    let bytes = encode(|message| message.append_packed::<types::Sfixed64, 3>([1, -2, 4, -8]));
    assert_eq!(bytes[..3], [0x1a, 0x20, 1]);
    assert_eq!(bytes.len(), 34);
    let bytes = encode(|message| message.append_packed::<types::Uint64, 1>([]));
    assert_eq!(bytes, [0x0a, 0]);
}

#[test]
fn packed_field_over_many_ranges_has_the_shortest_length() {
    let values = (0..32_768).map(|index| i64::from(index) * 10_000_000);
    let bytes = encode_in_ranges(42, |message| {
        message.append_packed::<types::Sfixed64, 3>(values.clone());
    })
    .concat();
    assert_eq!(bytes[..4], [0x1a, 0x80, 0x80, 0x10]);
    assert_eq!(bytes.len(), 262_148);
    let read = Decoder::new(&bytes).repeated::<types::Sfixed64>(3);
    assert!(read.map(Result::unwrap).eq(values));
}

#[test]
fn packed_elements_of_every_type_read_back() {
    /// Writes the values with all three methods, at several range sizes, and reads them back.
    macro_rules! check {
        ($($marker:ident $method:ident: $($value:expr),+;)+) => {
            $(
                for range_bytes in [4, 7, 11, 4096] {
                    let values = [$($value),+];
                    let bytes = encode_in_ranges(range_bytes, |message| {
                        message.$method::<1>(values);
                        message.append_packed::<types::$marker, 1>(values);
                        message.begin_packed::<types::$marker, 1>().extend(values);
                    });
                    let read: Result<Vec<_>, _> =
                        Decoder::new(&bytes.concat()).repeated::<types::$marker>(1).collect();
                    assert_eq!(read, Ok([values; 3].concat()), "{}", stringify!($marker));
                }
            )+
        };
    }
    check! {
        Int32 append_packed_int32: 42, 255, -1;
        Int32 append_packed_enum: 1, -1, i32::MIN;
        Int64 append_packed_int64: 3_000_000_000, -3_000_000_000;
        Uint32 append_packed_uint32: 42, 3_000_000_000;
        Uint64 append_packed_uint64: 42, 5_000_000_000, u64::MAX;
        Sint32 append_packed_sint32: -1, i32::MIN, i32::MAX;
        Sint64 append_packed_sint64: -9000, i64::MIN, i64::MAX;
        Bool append_packed_bool: true, false;
        Fixed32 append_packed_fixed32: 42, 3_000_000_000;
        Fixed64 append_packed_fixed64: 42, 5_000_000_000;
        Sfixed32 append_packed_sfixed32: 42, 255, -1;
        Sfixed64 append_packed_sfixed64: 3_000_000_000, -3_000_000_000;
        Float append_packed_float: 3.25, 42.1;
        Double append_packed_double: -3.25, 42.1;
    }
}

#[test]
fn packed_elements_can_be_pushed_one_by_one() {
    let bytes = encode(|message| {
        let mut packed = message.begin_packed::<types::Uint32, 1>();
        for value in 0..200 {
            packed.push(value);
        }
        drop(packed);
        message.append_bool::<2>(true);
    });
    let decoder = Decoder::new(&bytes);
    let read: Result<Vec<_>, _> = decoder.repeated::<types::Uint32>(1).collect();
    assert_eq!(read, Ok((0..200).collect()));
    assert_eq!(decoder.last::<types::Bool>(2), Ok(Some(true)));
}

#[test]
fn iterator_that_differs_from_its_clone_breaks_no_other_field() {
    /// An iterator whose clone yields more or fewer elements than the original.
    struct Unfaithful {
        original: usize,
        clone: usize,
    }
    impl Clone for Unfaithful {
        fn clone(&self) -> Self {
            Self {
                original: self.clone,
                clone: self.clone,
            }
        }
    }
    impl Iterator for Unfaithful {
        type Item = u64;
        fn next(&mut self) -> Option<u64> {
            self.original = self.original.checked_sub(1)?;
            Some(300)
        }
    }
    for (original, clone, expected) in [(1, 2, vec![300, 0, 0]), (3, 2, vec![300, 300])] {
        let bytes = encode(|message| {
            message.append_packed::<types::Uint64, 1>(Unfaithful { original, clone });
            message.append_bool::<2>(true);
        });
        let decoder = Decoder::new(&bytes);
        let read: Result<Vec<_>, _> = decoder.repeated::<types::Uint64>(1).collect();
        assert_eq!(read, Ok(expected));
        assert_eq!(decoder.last::<types::Bool>(2), Ok(Some(true)));
    }
}

#[test]
fn text_is_formatted_in_place_at_any_range_size() {
    for range_bytes in 4..40 {
        let bytes = encode_in_ranges(range_bytes, |message| {
            message.append_fmt::<1>(format_args!("{} of {:>20}", 1, "many"));
            message.append_bool::<2>(true);
        })
        .concat();
        let decoder = Decoder::new(&bytes);
        let text = decoder.last::<types::Str>(1);
        assert_eq!(text, Ok(Some("1 of                 many")));
        assert_eq!(decoder.last::<types::Bool>(2), Ok(Some(true)));
    }
}

#[test]
fn text_ends_where_formatting_fails() {
    struct Refuses;
    impl core::fmt::Display for Refuses {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str("half")?;
            Err(core::fmt::Error)
        }
    }
    let bytes = encode(|message| message.append_fmt::<1>(format_args!("{Refuses} and more")));
    assert_eq!(bytes, b"\x0a\x04half");
}

#[test]
fn unwinding_through_open_messages_ends_them() {
    let mut buffer = HeapBuffered::<Message>::new();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut message = buffer.message();
        let mut outer = message.begin_nested::<1>();
        let mut inner = outer.begin_nested::<2>();
        inner.append_bool::<3>(true);
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwound.is_err());
    buffer.message().append_bool::<4>(true);
    assert_eq!(buffer.to_vec(), [0x0a, 4, 0x12, 2, 0x18, 1, 0x20, 1]);
}
