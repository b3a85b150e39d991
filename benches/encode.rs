//! Encoding, beside a loop that encodes nothing and beside `prost`.
//!
//! Two messages: `simple` has four integers of five bytes each and a string of 31, `nested` is the
//! same on four levels. Every iteration encodes one into the next 512-byte window of a ring of
//! 64 MiB, so that its target is usually out of the cache, and reads the window back. Reading back
//! takes most of the time of the fast encoders; `clobber` measures it alone.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use prost::Message as _;
use protozero::StaticBuffered;

mod schema {
    protozero::include_protos!("bench");
}

const RING_BYTES: usize = 64 << 20;
const WINDOW_BYTES: usize = 512;
const WORD_BYTES: usize = size_of::<u64>();
/// Levels of the nested message below its root.
const NESTED_LEVELS: usize = 3;
/// Distance of the levels that `speed_of_light` stores: five words and the string.
const LEVEL_BYTES: usize = 80;

/// What a message is made of.
struct Input {
    integers: [u64; 4],
    string: String,
}

impl Input {
    fn new() -> Self {
        Self {
            integers: [0x1234_5678, 0x90ab_cdef, 0x1111_1111, 0xffff_ffff],
            string: "f".repeat(31),
        }
    }
}

/// Aligned, so that a window is 8 cache lines and not 9.
#[repr(C, align(512))]
#[derive(Clone)]
struct Window([u8; WINDOW_BYTES]);

/// The memory that all functions of a group walk through.
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

/// Reads a window back, every word after the one before it.
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

mod ours {
    use super::schema::EveryField;
    use super::{Input, StaticBuffered, Window};

    #[inline(always)]
    pub fn encode(input: &Input, levels: usize, window: &mut Window) -> usize {
        let mut buffer = StaticBuffered::<EveryField<'_>>::new(&mut window.0);
        fill(input, levels, &mut buffer.message());
        buffer.finish().expect("a window has room for the message")
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
}

/// Stores the same values where they fall: no tags, no encoding, no bounds, no lengths.
mod speed_of_light {
    use super::{Input, LEVEL_BYTES, WORD_BYTES, Window};

    #[inline(always)]
    pub fn store(input: &Input, levels: usize, window: &mut Window) {
        for level in window.0.chunks_exact_mut(LEVEL_BYTES).take(levels + 1) {
            let (words, string) = level.split_at_mut(input.integers.len() * WORD_BYTES);
            let (words, _) = words.as_chunks_mut::<WORD_BYTES>();
            for (word, integer) in words.iter_mut().zip(input.integers) {
                *word = integer.to_ne_bytes();
            }
            string[..input.string.len()].copy_from_slice(input.string.as_bytes());
        }
    }
}

mod rival {
    use super::{Input, Window};

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct EveryField {
        #[prost(int32, optional, tag = "1")]
        pub field_int32: Option<i32>,
        #[prost(int64, optional, tag = "2")]
        pub field_int64: Option<i64>,
        #[prost(uint32, optional, tag = "3")]
        pub field_uint32: Option<u32>,
        #[prost(uint64, optional, tag = "4")]
        pub field_uint64: Option<u64>,
        #[prost(message, repeated, tag = "14")]
        pub field_nested: Vec<EveryField>,
        #[prost(string, optional, tag = "500")]
        pub field_string: Option<String>,
    }

    #[inline(always)]
    pub fn encode(input: &Input, levels: usize, window: &mut Window) -> usize {
        let message = build(input, levels);
        let mut free = window.0.as_mut_slice();
        let window_bytes = free.len();
        prost::Message::encode(&message, &mut free).expect("a window has room for the message");
        window_bytes - free.len()
    }

    pub fn build(input: &Input, levels: usize) -> EveryField {
        EveryField {
            field_int32: Some(input.integers[0] as i32),
            field_uint32: Some(input.integers[1] as u32),
            field_int64: Some(input.integers[2] as i64),
            field_uint64: Some(input.integers[3]),
            field_string: Some(input.string.clone()),
            field_nested: match levels {
                0 => Vec::new(),
                _ => vec![build(input, levels - 1)],
            },
        }
    }
}

/// Checks what each function writes, once.
fn check(input: &Input, levels: usize, ours_bytes: &[u8]) {
    let mut window = Window([0; WINDOW_BYTES]);
    let expected = rival::build(input, levels);

    let len = ours::encode(input, levels, &mut window);
    assert_eq!(&window.0[..len], ours_bytes);
    assert_eq!(rival::EveryField::decode(ours_bytes), Ok(expected.clone()));

    let len = rival::encode(input, levels, &mut window);
    assert_eq!(rival::EveryField::decode(&window.0[..len]), Ok(expected));

    speed_of_light::store(input, levels, &mut window);
    for level in window.0.chunks_exact(LEVEL_BYTES).take(levels + 1) {
        assert_eq!(level[24..32], input.integers[3].to_ne_bytes());
        assert_eq!(&level[32..63], input.string.as_bytes());
    }
}

/// What `ours` has to write.
fn encoded(levels: usize) -> Vec<u8> {
    const FIELDS: &[u8] = b"\x08\xf8\xac\xd1\x91\x01\x18\xef\x9b\xaf\x85\x09\
        \x10\x91\xa2\xc4\x88\x01\x20\xff\xff\xff\xff\x0f\
        \xa2\x1f\x1f\x66ffffffffffffffffffffffffffffff";
    let mut bytes = FIELDS.to_vec();
    if levels > 0 {
        let nested = encoded(levels - 1);
        bytes.push(0x72);
        match nested.len() {
            len @ ..128 => bytes.push(len as u8),
            len => bytes.extend(protozero::redundant_varint(len as u32)),
        }
        bytes.extend(nested);
    }
    bytes
}

fn group(mut group: BenchmarkGroup<'_, WallTime>, windows: &mut Windows, levels: usize) {
    let input = Input::new();
    check(&input, levels, &encoded(levels));
    group.bench_function("clobber", |bencher| {
        bencher.iter(|| clobber(windows.next()));
    });
    group.bench_function("speed_of_light", |bencher| {
        bencher.iter(|| {
            let window = windows.next();
            speed_of_light::store(black_box(&input), levels, window);
            clobber(window);
        });
    });
    group.bench_function("protozero", |bencher| {
        bencher.iter(|| {
            let window = windows.next();
            black_box(ours::encode(black_box(&input), levels, window));
            clobber(window);
        });
    });
    group.bench_function("prost", |bencher| {
        bencher.iter(|| {
            let window = windows.next();
            black_box(rival::encode(black_box(&input), levels, window));
            clobber(window);
        });
    });
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
