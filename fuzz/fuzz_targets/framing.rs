//! Fuzzes the framing reader: it finds the same messages, in whatever pieces the stream arrives.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use protozero::{FrameReader, FramingError};

/// The maximal size of a message. Small, so that the limit is reached.
const MAX_FRAME_BYTES: usize = 300;

#[derive(Arbitrary, Debug)]
struct Input {
    /// The sizes of the first pieces; the rest of the stream is the last piece.
    pieces: Vec<u8>,
    stream: Vec<u8>,
}

/// A field number and a message.
type Message = (u32, Vec<u8>);

fuzz_target!(|input: Input| {
    let whole = read([&input.stream[..]]);
    let mut rest = &input.stream[..];
    let mut pieces: Vec<&[u8]> = Vec::new();
    for &piece_bytes in &input.pieces {
        let (piece, after) = rest.split_at(usize::from(piece_bytes).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    assert_eq!(read(pieces), whole);
    assert_eq!(read(input.stream.chunks(1)), whole);
});

fn read<'s>(
    pieces: impl IntoIterator<Item = &'s [u8]>,
) -> (Vec<Message>, Result<(), FramingError>) {
    let mut reader = FrameReader::with_max_frame_bytes(MAX_FRAME_BYTES);
    let mut messages = Vec::new();
    let mut failed = None;
    for piece in pieces {
        for frame in reader.append(piece) {
            match frame {
                Ok(frame) => {
                    assert_eq!(failed, None, "an error is final");
                    assert!(frame.payload.len() <= MAX_FRAME_BYTES);
                    messages.push((frame.field, frame.payload.to_vec()));
                }
                Err(error) => assert_eq!(*failed.get_or_insert(error), error),
            }
        }
    }
    let outcome = reader.finish();
    if let Some(error) = failed {
        assert_eq!(outcome, Err(error));
    }
    (messages, outcome)
}
