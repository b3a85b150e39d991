//! Tests of `FrameReader`: messages in a stream of bytes that arrives in pieces.
#![cfg(feature = "alloc")]

mod support;

use protozero::{FRAME_MAX_BYTES, FrameReader, FramingError};
use support::Random;

/// Encodes a frame with field number `field`, at most 15.
fn frame(field: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![field << 3 | 2];
    let mut rest = payload.len();
    while rest >= 0x80 {
        frame.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    frame.push(rest as u8);
    frame.extend(payload);
    frame
}

/// Creates a payload that depends on `seed`.
fn payload(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|index| (seed * 31 + index) as u8).collect()
}

/// A field number and a payload.
type Message = (u32, Vec<u8>);

/// Reads all messages up to the first error.
fn read<'p>(
    reader: &mut FrameReader,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> (Vec<Message>, Result<(), FramingError>) {
    let mut messages = Vec::new();
    for piece in pieces {
        for frame in reader.append(piece) {
            match frame {
                Ok(frame) => messages.push((frame.field, frame.payload.to_vec())),
                Err(error) => return (messages, Err(error)),
            }
        }
    }
    (messages, Ok(()))
}

#[test]
fn message_within_one_piece_is_borrowed_without_a_copy() {
    let mut reader = FrameReader::new();
    for round in 0..10_u8 {
        let payload = payload(1, 7 * usize::from(round));
        let piece = frame(round + 1, &payload);
        let mut frames = reader.append(&piece);
        let whole = frames.next().unwrap().unwrap();
        assert_eq!(
            (whole.field, whole.payload),
            (round as u32 + 1, &payload[..])
        );
        assert_eq!(whole.payload.as_ptr_range().end, piece.as_ptr_range().end);
        assert_eq!(frames.next(), None);

        let halves = frame(1, &[round; 32]);
        let (first, second) = halves.split_at(13);
        assert_eq!(reader.append(first).next(), None);
        let message = reader.append(second).next().unwrap().unwrap();
        assert_eq!(message.payload, [round; 32]);
    }
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn message_between_two_cut_ones_is_borrowed() {
    let stream = [frame(1, b"first"), frame(2, b"second"), frame(3, b"third")].concat();
    let mut reader = FrameReader::new();
    assert_eq!(reader.append(&stream[..3]).next(), None);
    let piece = &stream[3..17];
    let mut frames = reader.append(piece);
    assert_eq!(frames.next().unwrap().unwrap().payload, b"first");
    let second = frames.next().unwrap().unwrap().payload;
    assert_eq!(second, b"second");
    assert!(piece.as_ptr_range().contains(&second.as_ptr()));
    assert_eq!(frames.next(), None);
    let third = reader.append(&stream[17..]).next().unwrap().unwrap();
    assert_eq!((third.field, third.payload), (3, &b"third"[..]));
}

#[test]
fn messages_come_out_in_order_however_the_stream_is_cut() {
    let payloads: Vec<Vec<u8>> = (0..6).map(|seed| payload(seed, 100)).collect();
    let stream = payloads.iter().flat_map(|payload| frame(1, payload));
    let stream: Vec<u8> = stream.collect();
    let (a, rest) = stream.split_at(120);
    let (b, rest) = rest.split_at(20);
    let (c, d) = rest.split_at(471);
    assert_eq!(d.len(), 1);
    let mut reader = FrameReader::new();
    let (messages, outcome) = read(&mut reader, [a, b, c, d]);
    assert_eq!(outcome, Ok(()));
    let expected: Vec<_> = payloads.into_iter().map(|payload| (1, payload)).collect();
    assert_eq!(messages, expected);
    for piece_bytes in 1..=stream.len() {
        let mut reader = FrameReader::new();
        let (messages, outcome) = read(&mut reader, stream.chunks(piece_bytes));
        assert_eq!(outcome.and_then(|()| reader.finish()), Ok(()));
        assert_eq!(messages, expected, "pieces of {piece_bytes}");
    }
}

#[test]
fn messages_of_any_size_up_to_the_limit_survive_random_pieces() {
    let mut random = Random(7);
    let mut sizes: Vec<usize> = (0..100)
        .map(|_| {
            let scale = 1 << random.below(18);
            1 + random.below(scale) as usize
        })
        .collect();
    sizes.extend([0, FRAME_MAX_BYTES, 0, 1]);
    let stream: Vec<u8> = (0..)
        .zip(&sizes)
        .flat_map(|(seed, &len)| frame(1 + seed as u8 % 15, &payload(seed, len)))
        .collect();
    let mut reader = FrameReader::new();
    let mut rest = &stream[..];
    let mut seed = 0;
    while !rest.is_empty() {
        let piece_bytes = 1 + random.below(32_768) as usize;
        let (piece, after) = rest.split_at(piece_bytes.min(rest.len()));
        rest = after;
        for frame in reader.append(piece) {
            let frame = frame.unwrap();
            assert_eq!(frame.field, 1 + seed as u32 % 15);
            assert!(frame.payload == payload(seed, sizes[seed]));
            seed += 1;
        }
    }
    assert_eq!((seed, reader.finish()), (sizes.len(), Ok(())));
}

#[test]
fn error_comes_after_the_good_messages_and_is_final() {
    let mut stream = frame(1, b"good");
    let last = stream.pop().unwrap();
    let mut reader = FrameReader::new();
    assert_eq!(reader.append(&stream).next(), None);
    let garbage = [last, 0x7f, 0x7f, 0x7f];
    let error = FramingError::NotAMessage { offset: 6 };
    let (messages, outcome) = read(&mut reader, [&garbage[..]]);
    assert_eq!(messages, [(1, b"good".to_vec())]);
    assert_eq!(outcome, Err(error));
    for _ in 0..3 {
        let mut frames = reader.append(b"\x0a\x00");
        assert_eq!(frames.next(), Some(Err(error)));
        assert_eq!(frames.next(), None);
    }
    assert_eq!(reader.finish(), Err(error));
}

#[test]
fn invalid_header_is_an_error_in_pieces_of_any_size() {
    let not_a_message = FramingError::NotAMessage { offset: 2 };
    let too_long = FramingError::VarintTooLong { offset: 2 };
    let cases: [(&[u8], FramingError); 9] = [
        (&[0x08], not_a_message),
        (&[0x09], not_a_message),
        (&[0x0b], not_a_message),
        (&[0x0d], not_a_message),
        (&[0x0e], not_a_message),
        (&[0x02], not_a_message),
        (&[0x82, 0x80, 0x80, 0x80, 0x10], not_a_message),
        (
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            too_long,
        ),
        (
            &[
                0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
            ],
            too_long,
        ),
    ];
    for (bytes, error) in cases {
        let stream = [&[0x0a, 0], bytes].concat();
        for piece_bytes in 1..=stream.len() {
            let mut reader = FrameReader::new();
            let (messages, outcome) = read(&mut reader, stream.chunks(piece_bytes));
            assert_eq!(messages, [(1, vec![])]);
            assert_eq!(outcome, Err(error), "{bytes:02x?} in {piece_bytes}");
        }
    }
}

#[test]
fn a_message_beyond_the_limit_is_refused_by_its_header() {
    let mut reader = FrameReader::with_max_frame_bytes(100);
    let (messages, outcome) = read(&mut reader, [&frame(1, &[7; 100])[..], &[0x0a, 101]]);
    assert_eq!(messages, [(1, vec![7; 100])]);
    let error = FramingError::TooLong {
        offset: 102,
        message_bytes: 101,
        max_frame_bytes: 100,
    };
    assert_eq!(outcome, Err(error));
    assert_eq!(
        error.to_string(),
        "the message at offset 102 of the stream has 101 bytes, more than the limit of 100; \
         raise the limit if the message is valid"
    );

    let u64_max = [
        0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
    ];
    let mut reader = FrameReader::with_max_frame_bytes(usize::MAX);
    assert_eq!(read(&mut reader, u64_max.chunks(1)), (vec![], Ok(())));
    let mut reader = FrameReader::with_max_frame_bytes(usize::MAX - 1);
    let error = FramingError::TooLong {
        offset: 0,
        message_bytes: u64::MAX,
        max_frame_bytes: usize::MAX - 1,
    };
    assert_eq!(read(&mut reader, [&u64_max[..]]), (vec![], Err(error)));
}

#[test]
fn a_stream_that_ends_inside_a_message_is_truncated() {
    let stream = [frame(1, b"whole"), frame(1, b"cut")].concat();
    for cut in 0..=stream.len() {
        let mut reader = FrameReader::new();
        let (messages, outcome) = read(&mut reader, [&stream[..cut]]);
        assert_eq!(outcome, Ok(()));
        let (count, end) = match cut {
            0 => (0, Ok(())),
            1..7 => (0, Err(FramingError::Truncated { offset: 0 })),
            7 => (1, Ok(())),
            8..12 => (1, Err(FramingError::Truncated { offset: 7 })),
            _ => (2, Ok(())),
        };
        assert_eq!(
            (messages.len(), reader.finish()),
            (count, end),
            "cut at {cut}"
        );
    }
}

#[test]
fn messages_of_a_dropped_iterator_are_skipped() {
    let stream = [frame(1, b"one"), frame(2, b"two"), frame(3, b"three")].concat();
    let (piece, rest) = stream.split_at(12);
    let mut reader = FrameReader::new();
    let _ = reader.append(piece);
    let three = reader.append(rest).next().unwrap().unwrap();
    assert_eq!((three.field, three.payload), (3, &b"three"[..]));
}

#[test]
fn empty_pieces_change_nothing() {
    let mut reader = FrameReader::new();
    let piece = frame(1, b"message");
    for part in [&[][..], &piece[..1], &[], &piece[1..4], &[]] {
        assert_eq!(reader.append(part).next(), None);
    }
    let message = reader.append(&piece[4..]).next().unwrap().unwrap();
    assert_eq!(message.payload, b"message");
}
