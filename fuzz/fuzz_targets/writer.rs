//! Fuzzes the writer with any sequence of appends, in a heap buffer of any block size and in a
//! slice of any size: decoding returns the values that were written, including those of nested
//! messages whose guard was leaked.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use protozero::{Decoder, HeapBuffered, Message, StaticBuffered, types};

#[derive(Arbitrary, Debug)]
struct Input {
    block_bytes: u8,
    slice_bytes: u16,
    actions: Vec<Action>,
}

#[derive(Arbitrary, Debug)]
enum Action {
    Varint(u64),
    Zigzag(i32),
    Fixed(u64),
    Text(String),
    Formatted(u64),
    Packed(Vec<u32>),
    PackedOfKnownLength(Vec<i64>),
    Scattered(Vec<u8>, Vec<u8>),
    Nested(Vec<Action>),
    LeakedChild,
}

fuzz_target!(|input: Input| {
    let mut heap = HeapBuffered::<Message>::with_first_block(input.block_bytes.into());
    write(&mut heap.message(), &input.actions);
    let bytes = heap.to_vec();
    if !leaks(&input.actions) {
        check(&bytes, &input.actions);
    }
    assert!(Decoder::new(&bytes).fields().all(|field| field.is_ok()));

    heap.reset();
    write(&mut heap.message(), &input.actions);
    assert!(
        Decoder::new(&heap.to_vec())
            .fields()
            .all(|field| field.is_ok())
    );

    let mut memory = vec![0xee; usize::from(input.slice_bytes) + 32];
    let (slice, guard) = memory.split_at_mut(input.slice_bytes.into());
    let mut fixed = StaticBuffered::<Message>::new(slice);
    write(&mut fixed.message(), &input.actions);
    if let Ok(len) = fixed.finish() {
        assert!(
            Decoder::new(&slice[..len])
                .fields()
                .all(|field| field.is_ok())
        );
        if !leaks(&input.actions) {
            check(&slice[..len], &input.actions);
        }
    }
    assert_eq!(guard, [0xee; 32]);
});

fn leaks(actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::LeakedChild => true,
        Action::Nested(actions) => leaks(actions),
        _ => false,
    })
}

fn write(message: &mut Message<'_>, actions: &[Action]) {
    for action in actions {
        match action {
            Action::Varint(value) => message.append_uint64::<1>(*value),
            Action::Zigzag(value) => message.append_sint32::<2>(*value),
            Action::Fixed(value) => message.append_fixed64::<300>(*value),
            Action::Text(text) => message.append_string::<4>(text),
            Action::Formatted(value) => message.append_fmt::<5>(format_args!("{value:>30}")),
            Action::Packed(values) => message.append_packed_uint32::<6>(values.iter().copied()),
            Action::PackedOfKnownLength(values) => {
                message.append_packed::<types::Sint64, 7>(values.iter().copied());
            }
            Action::Scattered(a, b) => message.append_scattered_bytes::<8>(&[a, b]),
            Action::Nested(actions) => write(&mut message.begin_nested::<9>(), actions),
            Action::LeakedChild => core::mem::forget(message.begin_nested::<10>()),
        }
    }
}

fn check(bytes: &[u8], actions: &[Action]) {
    let mut fields = Decoder::new(bytes).fields();
    for action in actions {
        let start = fields.offset();
        assert!(
            matches!(fields.next(), Some(Ok(_))),
            "a field for each action"
        );
        let field = Decoder::new(&bytes[start..fields.offset()]);
        match action {
            Action::Varint(value) => assert_eq!(field.last::<types::Uint64>(1), Ok(Some(*value))),
            Action::Zigzag(value) => assert_eq!(field.last::<types::Sint32>(2), Ok(Some(*value))),
            Action::Fixed(value) => assert_eq!(field.last::<types::Fixed64>(300), Ok(Some(*value))),
            Action::Text(text) => assert_eq!(field.last::<types::Str>(4), Ok(Some(&text[..]))),
            Action::Formatted(value) => {
                let text = format!("{value:>30}");
                assert_eq!(field.last::<types::Str>(5), Ok(Some(&text[..])));
            }
            Action::Packed(values) => {
                let read: Result<Vec<u32>, _> = field.repeated::<types::Uint32>(6).collect();
                assert_eq!(read.as_ref(), Ok(values));
            }
            Action::PackedOfKnownLength(values) => {
                let read: Result<Vec<i64>, _> = field.repeated::<types::Sint64>(7).collect();
                assert_eq!(read.as_ref(), Ok(values));
            }
            Action::Scattered(a, b) => {
                let bytes = [&a[..], b].concat();
                assert_eq!(field.last::<types::Bytes>(8), Ok(Some(&bytes[..])));
            }
            Action::Nested(actions) => {
                let payload = field.last::<types::Bytes>(9).expect("well-formed");
                check(payload.expect("a nested message"), actions);
            }
            Action::LeakedChild => unreachable!("messages with leaks are not compared"),
        }
    }
    assert_eq!(fields.next(), None);
}
