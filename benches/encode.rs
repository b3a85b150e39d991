//! Measures encoding, compared with a loop that encodes nothing, and with other serializers.
//!
//! Every iteration encodes one message (see `every_field/`) into the next 512-byte window of a ring
//! of 64 MiB, so the target is usually not in the cache, and reads the window back. Reading back
//! takes most of the time of the fast encoders; `clobber` measures it alone. Libraries that need a
//! struct have to fill it in each iteration, because the input is no struct.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use protozero::{HeapBuffered, StaticBuffered};

mod every_field;

use every_field::schema::EveryField;
use every_field::{
    Input, NESTED_LEVELS, check_rivals, encoded, in_buffa, in_buffa_view, in_micropb, in_prost,
    in_quick_protobuf,
};

const RING_BYTES: usize = 64 << 20;
const WINDOW_BYTES: usize = 512;
const WORD_BYTES: usize = size_of::<u64>();
/// The bytes per level that `speed_of_light` stores: five words and the string.
const LEVEL_BYTES: usize = 80;

/// Memory for one message, aligned so that it has 8 cache lines and not 9.
#[repr(C, align(512))]
#[derive(Clone)]
struct Window([u8; WINDOW_BYTES]);

/// The ring of windows that all functions of a group use.
struct Windows {
    ring: Vec<Window>,
    next: usize,
}

impl Windows {
    fn new() -> Self {
        Self {
            ring: vec![Window([1; WINDOW_BYTES]); RING_BYTES / WINDOW_BYTES],
            next: 0,
        }
    }

    #[inline(always)]
    fn next(&mut self) -> &mut Window {
        let index = self.next % (RING_BYTES / WINDOW_BYTES);
        self.next += 1;
        &mut self.ring[index]
    }
}

/// Reads a window back. Each word is read after the one before it.
#[inline(always)]
fn clobber(window: &mut Window) {
    let window = black_box(window);
    let (words, _) = window.0.as_chunks_mut::<WORD_BYTES>();
    let mut chain = 0xff00_00ff_0000_ffff;
    words[0] = [0; WORD_BYTES];
    for word in words {
        chain ^= u64::from_ne_bytes(*word);
        *word = chain.to_ne_bytes();
    }
    black_box(chain == 42);
}

/// Stores the values directly: no tags, no encoding, no checks of bounds, no lengths.
#[inline(always)]
fn store(input: &Input, levels: usize, memory: &mut [u8; WINDOW_BYTES]) {
    for level in memory.chunks_exact_mut(LEVEL_BYTES).take(levels + 1) {
        let (words, string) = level.split_at_mut(input.integers.len() * WORD_BYTES);
        let (words, _) = words.as_chunks_mut::<WORD_BYTES>();
        for (word, integer) in words.iter_mut().zip(input.integers) {
            *word = integer.to_ne_bytes();
        }
        string[..input.string.len()].copy_from_slice(input.string.as_bytes());
    }
}

#[inline(always)]
fn encode_to_slice(input: &Input, levels: usize, memory: &mut [u8]) -> usize {
    let mut buffer = StaticBuffered::<EveryField<'_>>::new(memory);
    fill(input, levels, &mut buffer.message());
    buffer.finish().expect("there is room for the message")
}

/// Encodes into a heap buffer that grows, and copies the bytes to where the others write them.
#[inline(always)]
fn encode_on_heap(
    input: &Input,
    levels: usize,
    buffer: &mut HeapBuffered<EveryField<'static>>,
    memory: &mut [u8],
) -> usize {
    buffer.reset();
    fill(input, levels, &mut buffer.message());
    let mut len = 0;
    for slice in buffer.slices() {
        memory[len..len + slice.len()].copy_from_slice(slice);
        len += slice.len();
    }
    len
}

fn fill(input: &Input, levels: usize, message: &mut EveryField<'_>) {
    message
        .set_field_int32(input.integers[0] as i32)
        .set_field_uint32(input.integers[1] as u32)
        .set_field_int64(input.integers[2] as i64)
        .set_field_uint64(input.integers[3])
        .set_field_string(&input.string);
    if levels > 0 {
        message.add_field_nested(|nested| fill(input, levels - 1, nested));
    }
}

/// Checks once that each function writes the right bytes.
fn check(input: &Input, levels: usize) {
    check_rivals(input, levels);
    let mut window = Window([0; WINDOW_BYTES]);
    let len = encode_to_slice(input, levels, &mut window.0);
    assert_eq!(window.0[..len], encoded(levels));

    let mut window = Window([0; WINDOW_BYTES]);
    let len = encode_on_heap(input, levels, &mut HeapBuffered::new(), &mut window.0);
    assert_eq!(window.0[..len], encoded(levels));

    store(input, levels, &mut window.0);
    for level in window.0.chunks_exact(LEVEL_BYTES).take(levels + 1) {
        assert_eq!(level[24..32], input.integers[3].to_ne_bytes());
        assert_eq!(&level[32..63], input.string.as_bytes());
    }
}

fn group(mut group: BenchmarkGroup<'_, WallTime>, windows: &mut Windows, levels: usize) {
    let input = Input::new();
    check(&input, levels);
    group.bench_function("clobber", |bencher| {
        bencher.iter(|| clobber(windows.next()));
    });
    group.bench_function("speed_of_light", |bencher| {
        bencher.iter(|| {
            let window = windows.next();
            store(black_box(&input), levels, &mut window.0);
            clobber(window);
        });
    });
    let mut heap = HeapBuffered::new();
    group.bench_function("protozero_heap", |bencher| {
        bencher.iter(|| {
            let window = windows.next();
            let len = encode_on_heap(black_box(&input), levels, &mut heap, &mut window.0);
            black_box(len);
            clobber(window);
        });
    });
    macro_rules! bench {
        ($($name:literal: $encode:path,)*) => {$(
            group.bench_function($name, |bencher| {
                bencher.iter(|| {
                    let window = windows.next();
                    black_box($encode(black_box(&input), levels, &mut window.0));
                    clobber(window);
                });
            });
        )*};
    }
    bench! {
        "protozero": encode_to_slice,
        "prost": in_prost::encode,
        "micropb": in_micropb::encode,
        "quick_protobuf": in_quick_protobuf::encode,
        "buffa": in_buffa::encode,
        "buffa_view": in_buffa_view::encode,
    }
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    assert_eq!((encoded(0).len(), encoded(NESTED_LEVELS).len()), (58, 241));
    let mut windows = Windows::new();
    group(criterion.benchmark_group("encode_simple"), &mut windows, 0);
    group(
        criterion.benchmark_group("encode_nested"),
        &mut windows,
        NESTED_LEVELS,
    );
}

criterion_group!(benches, encode);
criterion_main!(benches);
