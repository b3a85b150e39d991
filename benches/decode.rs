//! Measures decoding, compared with a loop that checks almost nothing, and with other decoders.
//!
//! Every iteration reads all fields of one encoded message (see `every_field/`), which is in the
//! cache. Other libraries decode into their structs, and drop them. Ours has no struct. `protozero`
//! creates a generated decoder, which finds all fields in one scan, and reads the values by its
//! accessors. `protozero_fields` reads all fields in one pass, without a generated decoder.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use protozero::types::{FieldType, Int32, Int64, Str, Uint32, Uint64};
use protozero::{DecodeError, Decoder, Value};

mod every_field;

use every_field::schema::{EveryField, EveryFieldDecoder};
use every_field::{
    Input, NESTED_LEVELS, check_rivals, encoded, in_buffa, in_buffa_view, in_micropb, in_prost,
    in_quick_protobuf,
};

/// The fields of one level of the message.
#[derive(Debug, Default, PartialEq)]
struct Level<'a> {
    int32: i32,
    int64: i64,
    uint32: u32,
    uint64: u64,
    string: &'a str,
}

/// Reads every field by its accessor. Calls `visit` for each level, the outermost last.
fn read_by_accessors<'a>(
    message: &EveryFieldDecoder<'a>,
    visit: &mut impl FnMut(&Level<'a>),
) -> Result<(), DecodeError> {
    for nested in message.field_nested() {
        read_by_accessors(&nested?, visit)?;
    }
    visit(&Level {
        int32: message.field_int32()?.unwrap_or_default(),
        int64: message.field_int64()?.unwrap_or_default(),
        uint32: message.field_uint32()?.unwrap_or_default(),
        uint64: message.field_uint64()?.unwrap_or_default(),
        string: message.field_string()?.unwrap_or_default(),
    });
    Ok(())
}

/// Reads every field in the order of the bytes. Calls `visit` for each level, the outermost last.
fn read_in_one_pass<'a>(
    message: &Decoder<'a>,
    visit: &mut impl FnMut(&Level<'a>),
) -> Result<(), DecodeError> {
    let mut level = Level::default();
    for field in message.fields() {
        let field = field?;
        match field.number {
            EveryField::FIELD_INT32_FIELD_NUMBER => level.int32 = Int32::from_field(field)?,
            EveryField::FIELD_INT64_FIELD_NUMBER => level.int64 = Int64::from_field(field)?,
            EveryField::FIELD_UINT32_FIELD_NUMBER => level.uint32 = Uint32::from_field(field)?,
            EveryField::FIELD_UINT64_FIELD_NUMBER => level.uint64 = Uint64::from_field(field)?,
            EveryField::FIELD_STRING_FIELD_NUMBER => level.string = Str::from_field(field)?,
            EveryField::FIELD_NESTED_FIELD_NUMBER => {
                if let Value::Bytes(nested) = field.value {
                    read_in_one_pass(&Decoder::new(nested), visit)?;
                }
            }
            _ => {}
        }
    }
    visit(&level);
    Ok(())
}

/// Reads the message by a loop that knows the encoded tags of this message, and nothing else. Does
/// not check that text is UTF-8.
fn read_by_hand<'a>(mut bytes: &'a [u8], visit: &mut impl FnMut(&HandLevel<'a>)) -> Option<()> {
    let mut level = HandLevel::default();
    while let Some((&tag, rest)) = bytes.split_first() {
        bytes = rest;
        match tag {
            0x08 => level.int32 = take_varint(&mut bytes)? as i32,
            0x10 => level.int64 = take_varint(&mut bytes)? as i64,
            0x18 => level.uint32 = take_varint(&mut bytes)? as u32,
            0x20 => level.uint64 = take_varint(&mut bytes)?,
            0x72 => read_by_hand(take_bytes(&mut bytes)?, visit)?,
            0xa2 => {
                bytes = bytes.strip_prefix(&[0x1f])?;
                level.string = take_bytes(&mut bytes)?;
            }
            _ => return None,
        }
    }
    visit(&level);
    Some(())
}

/// A [`Level`] whose text was not checked.
#[derive(Debug, Default)]
struct HandLevel<'a> {
    int32: i32,
    int64: i64,
    uint32: u32,
    uint64: u64,
    string: &'a [u8],
}

#[inline(always)]
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (shift & 63);
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

#[inline(always)]
fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_varint(bytes)? as usize;
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

/// Checks once that each function reads the right values.
fn check(input: &Input, levels: usize, bytes: &[u8]) {
    check_rivals(input, levels);
    let expected = Level {
        int32: input.integers[0] as i32,
        uint32: input.integers[1] as u32,
        int64: input.integers[2] as i64,
        uint64: input.integers[3],
        string: &input.string,
    };
    let decoder = EveryFieldDecoder::new(bytes);
    let mut seen = 0;
    let mut compare = |level: &Level<'_>| {
        assert_eq!(*level, expected);
        seen += 1;
    };
    read_by_accessors(&decoder, &mut compare).expect("a message");
    read_in_one_pass(decoder.as_decoder(), &mut compare).expect("a message");
    let by_hand = read_by_hand(bytes, &mut |level| {
        compare(&Level {
            int32: level.int32,
            int64: level.int64,
            uint32: level.uint32,
            uint64: level.uint64,
            string: str::from_utf8(level.string).expect("text"),
        });
    });
    assert_eq!(by_hand, Some(()));
    assert_eq!(seen, 3 * (levels + 1));
}

fn group(mut group: BenchmarkGroup<'_, WallTime>, levels: usize) {
    let bytes = encoded(levels);
    check(&Input::new(), levels, &bytes);
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("speed_of_light", |bencher| {
        bencher.iter(|| {
            read_by_hand(black_box(&bytes), &mut |level| {
                black_box(level);
            })
        });
    });
    group.bench_function("protozero", |bencher| {
        bencher.iter(|| {
            let message = EveryFieldDecoder::new(black_box(&bytes));
            read_by_accessors(&message, &mut |level| {
                black_box(level);
            })
        });
    });
    group.bench_function("protozero_fields", |bencher| {
        bencher.iter(|| {
            let message = Decoder::new(black_box(&bytes));
            read_in_one_pass(&message, &mut |level| {
                black_box(level);
            })
        });
    });
    macro_rules! bench {
        ($($name:literal: $decode:path,)*) => {$(
            group.bench_function($name, |bencher| {
                bencher.iter(|| {
                    black_box(&$decode(black_box(&bytes)));
                });
            });
        )*};
    }
    bench! {
        "prost": in_prost::decode,
        "micropb": in_micropb::decode,
        "quick_protobuf": in_quick_protobuf::decode,
        "buffa": in_buffa::decode,
        "buffa_view": in_buffa_view::decode,
    }
    group.finish();
}

fn decode(criterion: &mut Criterion) {
    group(criterion.benchmark_group("decode_simple"), 0);
    group(criterion.benchmark_group("decode_nested"), NESTED_LEVELS);
}

criterion_group!(benches, decode);
criterion_main!(benches);
