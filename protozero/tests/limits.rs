//! Tests of the two limits: messages that are too deep or too long.
#![cfg(feature = "alloc")]

mod support;

use protozero::{
    Decoder, HeapBuffered, MESSAGE_MAX_BYTES, MESSAGES_MAX_DEPTH, Message, Outgoing, Range,
    RangeSource, SlotTarget, StreamWriter, types,
};

#[test]
fn message_beyond_the_depth_limit_is_dropped_and_counted_once() {
    fn nest(message: &mut Message<'_>, depth_left: usize) {
        if depth_left > 0 {
            nest(&mut message.begin_nested::<9>(), depth_left - 1);
        }
        message.append_uint32::<1>(8);
    }
    // Each level takes a stack frame, together more than the stack of a test thread.
    let nested = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        let mut buffer = HeapBuffered::<Message>::new();
        nest(&mut buffer.message(), MESSAGES_MAX_DEPTH + 3);
        (buffer.to_vec(), buffer.dropped_fields())
    });
    let (bytes, dropped_fields) = nested.expect("a thread").join().expect("no panic");
    assert_eq!(dropped_fields, 1);
    let mut level = &bytes[..];
    for _ in 0..MESSAGES_MAX_DEPTH {
        let decoder = Decoder::new(level);
        assert_eq!(decoder.last::<types::Uint32>(1), Ok(Some(8)));
        level = decoder.last::<types::Bytes>(9).unwrap().unwrap();
    }
    assert_eq!(level, [0x08, 8]);
}

/// A source that hands out the same small range again and again, so that bytes are counted only.
struct Counting(Box<[u8; 4096]>);

#[allow(unsafe_code)]
// SAFETY: the boxed memory does not move; slots are discarded before the memory is used again.
unsafe impl RangeSource for Counting {
    fn next_range(&mut self, mut outgoing: Outgoing<'_>) -> Range {
        outgoing.redirect(|_| SlotTarget::Discard);
        Range::new(self.0.as_mut_ptr(), self.0.len())
    }
}

#[test]
fn fields_beyond_the_message_size_are_dropped_and_counted() {
    let mut stream = StreamWriter::new(Counting(Box::new([0; 4096])));
    let piece = vec![1; 1 << 20];
    let mut message = stream.message();
    let mut outer = message.begin_nested::<1>();
    let mut inner = outer.begin_nested::<2>();
    for _ in 0..200 {
        inner.append_bytes::<3>(&piece);
    }
    drop(inner);
    outer.begin_nested::<4>().append_bytes::<5>(&piece);
    drop(outer);
    message.append_bytes::<6>(&piece);
    drop(message);
    let admitted = MESSAGE_MAX_BYTES / ((1 << 20) + 4);
    assert_eq!(stream.dropped_fields(), 200 - admitted + 1);
    let headers_and_empty_message = 5 + 5 + 2;
    let field_bytes = (1 << 20) + 4;
    assert_eq!(
        stream.written_bytes(),
        headers_and_empty_message + (admitted + 1) * field_bytes
    );
}

#[test]
fn leaked_message_beyond_the_limit_ends_with_its_parent() {
    let outcome = |leak: bool| {
        let mut stream = StreamWriter::new(Counting(Box::new([0; 4096])));
        let mut message = stream.message();
        let mut outer = message.begin_nested::<1>();
        outer.append_raw(&vec![0; MESSAGE_MAX_BYTES as usize]);
        for _ in 0..4096 {
            // As soon as the range is full, the limit admits no further byte.
            outer.append_raw(&[0]);
        }
        if leak {
            core::mem::forget(outer.begin_nested::<3>());
            outer.append_uint32::<1>(8);
        }
        drop(outer);
        message.append_uint32::<4>(9);
        drop(message);
        (stream.dropped_fields(), stream.written_bytes())
    };
    let (dropped_fields, written_bytes) = outcome(false);
    assert_eq!(outcome(true), (dropped_fields + 1, written_bytes));
}
