//! Tests of `StaticBuffered` and `NullBuffered`, which need no heap. They run with and without the
//! feature `alloc`.

use protozero::{
    Decoder, FixedSource, MESSAGES_MAX_DEPTH, Message, NullBuffered, NullSource, OverflowError,
    StaticBuffered, StreamWriter, types,
};

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
fn an_empty_message_in_a_fixed_buffer_has_no_bytes() {
    let mut memory = [0xee; 4];
    let mut buffer = StaticBuffered::<Message>::new(&mut memory);
    drop(buffer.message());
    assert_eq!(buffer.finish(), Ok(0));
    assert_eq!(memory, [0xee; 4]);
}

/// Writes a message with several kinds of fields, and `depth` levels of nested messages in it.
fn write(message: &mut Message<'_>, depth: usize) {
    message.append_uint64::<1>(u64::MAX);
    message.append_string::<2>("0123456789abcdefABCDEF");
    message.append_packed::<types::Sint32, 4>([-1, 300]);
    if depth > 0 {
        write(&mut message.begin_nested::<3>(), depth - 1);
    }
    message.append_fixed32::<5>(7);
}

/// Writes a message to a slice of `size` bytes. Returns the outcome and the slice. Checks that the
/// 8 bytes on either side of the slice have not changed.
fn write_to(size: usize, depth: usize) -> (Result<usize, OverflowError>, Vec<u8>) {
    let mut memory = vec![0xee; size + 16];
    let mut buffer = StaticBuffered::<Message>::new(&mut memory[8..size + 8]);
    write(&mut buffer.message(), depth);
    let outcome = buffer.finish();
    assert_eq!(memory[..8], [0xee; 8]);
    assert_eq!(memory[size + 8..], [0xee; 8]);
    (outcome, memory[8..size + 8].to_vec())
}

#[test]
fn message_that_does_not_fit_is_an_error_and_corrupts_nothing() {
    let needed = write_to(4096, 3).0.expect("there is room");
    for size in 0..needed {
        let overflow = write_to(size, 3).0.expect_err("there is no room");
        assert_eq!(overflow.capacity_bytes, size);
        let needed_bytes = usize::try_from(overflow.needed_bytes).unwrap();
        assert!((needed..=needed + 3 * 4).contains(&needed_bytes));
        let (outcome, _) = write_to(needed_bytes, 3);
        assert_eq!(
            outcome,
            Ok(needed),
            "the size that the error names is enough"
        );
    }
}

#[test]
fn messages_nest_as_deep_as_the_limit_without_a_heap() {
    let depth = MESSAGES_MAX_DEPTH.min(16);
    let (outcome, memory) = write_to(4096, depth);
    let mut level = &memory[..outcome.expect("there is room")];
    for _ in 0..depth {
        let decoder = Decoder::new(level);
        assert_eq!(decoder.last::<types::Fixed32>(5), Ok(Some(7)));
        level = decoder.last::<types::Bytes>(3).unwrap().unwrap();
    }
    assert_eq!(Decoder::new(level).last::<types::Bytes>(3), Ok(None));
}

#[cfg(not(feature = "alloc"))]
#[test]
fn message_beyond_the_inline_depth_is_dropped_and_counted_once() {
    let mut memory = [0; 4096];
    let written_bytes = {
        let mut stream = FixedSource::stream(&mut memory);
        write(&mut stream.message(), MESSAGES_MAX_DEPTH + 3);
        assert_eq!(stream.dropped_fields(), 1);
        stream.used_bytes()
    };
    let (outcome, at_the_limit) = write_to(4096, MESSAGES_MAX_DEPTH);
    assert_eq!(
        outcome,
        Ok(written_bytes),
        "what is around it is not touched"
    );
    assert_eq!(at_the_limit[..written_bytes], memory[..written_bytes]);
}

#[test]
fn null_source_counts_all_written_bytes() {
    let mut memory = [0; 4096];
    let mut fixed = FixedSource::stream(&mut memory);
    let mut null = StreamWriter::new(NullSource);
    for _ in 0..3 {
        write(&mut fixed.message(), 0);
        write(&mut null.message(), 0);
        assert_eq!(null.written_bytes(), fixed.written_bytes());
        assert_eq!((null.used_bytes(), null.available_bytes()), (0, 0));
    }
    write(&mut null.message(), 3);
    assert_eq!(null.dropped_fields(), 0);
}

#[test]
fn null_buffer_accepts_any_number_of_messages() {
    let mut buffer = NullBuffered::<Message>::new();
    for _ in 0..10_000 {
        write(&mut buffer.message(), 3);
    }
    let size = format!("{buffer:?}");
    assert_eq!(size, "NullBuffered { message: \"\", .. }");
}
