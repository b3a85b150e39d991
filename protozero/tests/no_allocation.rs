//! Tests with a counting allocator: writing and reading allocate nothing beyond the buffer itself.
#![cfg(feature = "alloc")]
#![allow(unsafe_code)] // To implement a counting allocator.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use protozero::{Decoder, FixedSource, HeapBuffered, Message, NullBuffered, StaticBuffered, types};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations of this thread during `work`.
fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Writes several kinds of fields, in messages nested `depth` levels deep.
fn write(message: &mut Message<'_>, depth: usize) {
    message.append_uint64::<1>(u64::MAX);
    message.append_string::<2>("a string of some length, longer than a register");
    message.append_fmt::<2>(format_args!("{:>10}", 7));
    message.append_packed_sint32::<4>([-1, 300]);
    message.append_packed::<types::Double, 5>([1.0; 20]);
    message.append_scattered_bytes::<6>(&[&[1; 200], &[2; 200]]);
    if depth > 0 {
        write(&mut message.begin_nested::<3>(), depth - 1);
    }
}

#[test]
fn reset_heap_buffer_allocates_nothing_in_its_first_block() {
    for depth in [0, 1, 15, 16, 17, 40] {
        let mut buffer = HeapBuffered::<Message>::with_first_block(64 << 10);
        write(&mut buffer.message(), depth);
        buffer.reset();
        let count = allocations(|| {
            for _ in 0..100 {
                write(&mut buffer.message(), depth);
                assert!(buffer.slices().map(<[u8]>::len).sum::<usize>() > 500);
                buffer.reset();
            }
        });
        assert_eq!(count, 0, "{depth} levels");
    }
}

#[test]
fn fixed_and_null_buffers_allocate_nothing_at_inline_depth() {
    let mut memory = vec![0; 64 << 10];
    for depth in [0, 1, 15] {
        let count = allocations(|| {
            let mut buffer = StaticBuffered::<Message>::new(&mut memory);
            write(&mut buffer.message(), depth);
            assert!(buffer.finish().is_ok());
        });
        assert_eq!(count, 0, "{depth} levels");
    }
    // A stream allocates memory to record open messages that lie outside of its current range of
    // memory, and keeps it. `write` and `reserve` allocate it here, before the count starts.
    let mut null = NullBuffered::<Message>::new();
    write(&mut null.message(), 15);
    let mut tiny = FixedSource::stream(&mut []);
    tiny.reserve();
    let count = allocations(|| {
        for _ in 0..100 {
            write(&mut null.message(), 15);
            write(&mut tiny.message(), 15);
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn crossing_ranges_allocates_only_the_first_time() {
    let mut stream = support::TinyRanges::stream(64, support::Slots::Stay);
    stream.reserve();
    let mut message = stream.message();
    let mut nested = message.begin_nested::<1>();
    let range_and_its_books = allocations(|| nested.append_raw(&[0; 64]));
    drop(nested);
    let mut nested = message.begin_nested::<1>();
    let again = allocations(|| nested.append_raw(&[0; 64]));
    assert!(
        again <= range_and_its_books,
        "{again} after {range_and_its_books}"
    );
}

#[test]
fn decoding_allocates_nothing() {
    let bytes = support::encode(|message| write(message, 3));
    let count = allocations(|| {
        let decoder = Decoder::new(&bytes);
        assert_eq!(black_box(decoder.fields().count()), 7);
        assert_eq!(decoder.last::<types::Uint64>(1), Ok(Some(u64::MAX)));
        assert_eq!(decoder.repeated::<types::Str>(2).count(), 2);
        assert_eq!(decoder.repeated::<types::Double>(5).count(), 20);
    });
    assert_eq!(count, 0);
}
