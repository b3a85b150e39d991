//! Tests of deeply nested messages in tiny ranges. A hash over every byte of memory is compared
//! with that of Perfetto's writer.
#![cfg(feature = "alloc")]

mod support;

use protozero::Message;
use support::{Slots, TinyRanges, memory};

const TEN_BYTES: &[u8] = &[0, 0, 0, 0, 0x42, 1, 0x42, 0xff, 0x42, 0];

/// Calls one append method for each of the field numbers.
macro_rules! append_each {
    ($message:ident.$append:ident($value:expr): $($field:literal)*) => {
        $($message.$append::<$field>($value);)*
    };
}

/// A function that begins the child of a message at one depth. The field number of the child is
/// 1 + 10 * depth.
type Begin = for<'m> fn(&'m mut Message<'_>) -> Message<'m>;

fn begin<'m, const FIELD: u32>(message: &'m mut Message<'_>) -> Message<'m> {
    message.begin_nested::<FIELD>()
}

macro_rules! begin_table {
    ($($tens:literal)*) => {
        [$(begin_table!(@ $tens: 0 1 2 3 4 5 6 7 8 9)),*]
    };
    (@ $tens:literal: $($ones:literal)*) => {
        [$(begin::<{ 1 + 10 * ($tens * 10 + $ones) }>),*]
    };
}

static BEGIN: [[Begin; 10]; 100] = begin_table!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
        20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
        40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59
        60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79
        80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99
);

fn begin_child<'m>(message: &'m mut Message<'_>, depth: usize) -> Message<'m> {
    BEGIN[depth / 10][depth % 10](message)
}

/// Writes 128 `bytes` fields, a child with the same content, and 128 varints.
fn build(message: &mut Message<'_>, depth: usize, max_depth: usize) {
    append_each!(message.append_bytes(TEN_BYTES):
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
        17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48
        49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
        65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80
        81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96
        97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112
        113 114 115 116 117 118 119 120 121 122 123 124 125 126 127 128
    );
    if depth < max_depth {
        build(&mut begin_child(message, depth), depth + 1, max_depth);
    }
    append_each!(message.append_uint32(42):
        129 130 131 132 133 134 135 136 137 138 139 140 141 142 143 144
        145 146 147 148 149 150 151 152 153 154 155 156 157 158 159 160
        161 162 163 164 165 166 167 168 169 170 171 172 173 174 175 176
        177 178 179 180 181 182 183 184 185 186 187 188 189 190 191 192
        193 194 195 196 197 198 199 200 201 202 203 204 205 206 207 208
        209 210 211 212 213 214 215 216 217 218 219 220 221 222 223 224
        225 226 227 228 229 230 231 232 233 234 235 236 237 238 239 240
        241 242 243 244 245 246 247 248 249 250 251 252 253 254 255 256
    );
}

fn build_empty(message: &mut Message<'_>, depth: usize, max_depth: usize) {
    if depth < max_depth {
        build_empty(&mut begin_child(message, depth), depth + 1, max_depth);
    }
}

/// Computes a hash of the bytes' hexadecimal digits.
fn hash(bytes: &[u8]) -> u32 {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    digits.bytes().fold(5381, |hash: u32, digit| {
        hash.wrapping_mul(33).wrapping_add(u32::from(digit))
    })
}

struct Outcome {
    hash: u32,
    /// The number of bytes without unused bytes at the ends of ranges.
    written_bytes: u64,
    memory_bytes: usize,
    ranges: usize,
}

fn outcome(range_bytes: usize, write: impl FnOnce(&mut Message<'_>)) -> Outcome {
    let mut stream = TinyRanges::stream(range_bytes, Slots::Stay);
    write(&mut stream.message());
    let memory = memory(&mut stream);
    Outcome {
        hash: hash(&memory.concat()),
        written_bytes: stream.written_bytes(),
        memory_bytes: memory.iter().map(Vec::len).sum(),
        ranges: memory.len(),
    }
}

#[test]
fn ten_levels_match_the_reference_in_tiny_ranges() {
    let outcome = outcome(16, |message| build(message, 0, 10));
    assert_eq!(outcome.written_bytes, 22_421);
    assert_eq!(outcome.memory_bytes, 22_428);
    assert_eq!(outcome.ranges, 1402);
    assert_eq!(outcome.hash, 0xf9e3_2b65);
}

#[test]
fn a_thousand_levels_match_the_reference_in_tiny_ranges() {
    let outcome = outcome(16, |message| build(message, 0, 1000));
    assert_eq!(outcome.written_bytes, 2_041_826);
    assert_eq!(outcome.memory_bytes, 2_042_029);
    assert_eq!(outcome.ranges, 127_627);
    assert_eq!(outcome.hash, 0xc0fd_e419);
}

#[test]
fn a_thousand_empty_levels_match_the_reference_in_large_ranges() {
    let outcome = outcome(4096, |message| build_empty(message, 0, 1000));
    assert_eq!(outcome.written_bytes, 6697);
    assert_eq!(outcome.memory_bytes, 6699);
    assert_eq!(outcome.ranges, 2);
    assert_eq!(outcome.hash, 0x9371_fe8e);
}
