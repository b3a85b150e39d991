//! Fuzzes what a daemon or a producer may send: any bytes, in any pieces. Frames are the same however
//! the stream is split, and a frame that is decoded and encoded again says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracezero_ipc::frame::{FRAME_MAX_BYTES, FrameReader, FrameTooLong};
use tracezero_ipc::producer_port::{Command, Methods, needs_emulation};
use tracezero_ipc::wire::{Body, Frame};

/// Encoding a frame again may add default values.
const ADDED_MAX_BYTES: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Some((&piece_bytes, stream)) = bytes.split_first() else {
        return;
    };
    let whole = frames(stream, stream.len());
    assert_eq!(frames(stream, usize::from(piece_bytes)), whole);
    for frame in whole.iter().flatten() {
        check(frame);
    }
    // The fuzzer finds few lengths that fit.
    check(stream);
});

/// Returns the frames of a stream that arrives in pieces of this size.
fn frames(stream: &[u8], piece_bytes: usize) -> Result<Vec<Vec<u8>>, FrameTooLong> {
    let mut reader = FrameReader::new();
    let mut frames = Vec::new();
    let mut rest = stream;
    loop {
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame.to_vec());
        }
        let room = reader.room();
        assert!(!room.is_empty());
        let len = piece_bytes.max(1).min(rest.len()).min(room.len());
        if len == 0 {
            return Ok(frames);
        }
        room[..len].copy_from_slice(&rest[..len]);
        rest = &rest[len..];
        reader.received(len);
    }
}

fn check(bytes: &[u8]) {
    let _ = Command::decode(bytes);
    let _ = needs_emulation(bytes);
    let Ok(frame) = Frame::decode(bytes) else {
        return;
    };
    match &frame.body {
        Body::Bound(Some(bound)) => {
            let _ = Methods::new(bound);
        }
        Body::Reply {
            reply: Some(reply), ..
        } => {
            let _ = Command::decode(reply);
        }
        // A failure says nothing else.
        Body::Reply { reply: None, .. } => return,
        _ => {}
    }
    if bytes.len() + ADDED_MAX_BYTES > FRAME_MAX_BYTES {
        return;
    }
    let mut stream = Vec::new();
    frame.append_to(&mut stream);
    assert_eq!(Frame::decode(&stream[4..]).as_ref(), Ok(&frame));
}
