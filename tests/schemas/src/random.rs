//! Random messages of a type, with values that encoders often get wrong.

use std::collections::BTreeMap;

use prost_reflect::{Kind, MessageDescriptor};

use crate::field::{self, Field};
use crate::message::{Content, Message, Value};

/// The depth of nested messages; deeper ones stay empty.
const MAX_DEPTH: usize = 4;

/// The maximal number of elements of a repeated field, except rare long ones, and of entries of a
/// map.
const MAX_ELEMENTS: u64 = 4;

/// The number of elements of a long repeated field of numbers: its length needs more than one byte.
const MANY_ELEMENTS: u64 = 150;

/// Lengths of strings and bytes: around the first length that needs two bytes, and longer than a
/// memory range.
const LENGTHS: [usize; 6] = [1, 5, 126, 127, 128, 700];

/// Characters of one to four bytes, and some that need care in text formats.
const CHARACTERS: [char; 8] = ['a', '\0', '"', '\u{7f}', 'é', '\u{2028}', '\u{ffff}', '🦀'];

/// A generator of pseudo-random numbers, which are the same in each run (splitmix64).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    fn is_one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("an index")]
    }
}

/// The fields that a random message has.
#[derive(Debug, Clone, Copy)]
pub enum Fields {
    /// All fields, and one member of each oneof, by turns.
    All {
        /// The index of the member; counts from 0 to the size of the largest oneof.
        turn: usize,
    },
    /// Some.
    Some,
}

/// Returns a random message of a type. Nested messages have a few fields each.
#[must_use]
pub fn message(of: &MessageDescriptor, fields: Fields, random: &mut Random) -> Message {
    message_at(of, fields, random, 1)
}

fn message_at(
    of: &MessageDescriptor,
    fields: Fields,
    random: &mut Random,
    depth: usize,
) -> Message {
    let (singles, oneofs) = field::by_oneof(of);
    let mut chosen: Vec<Field> = match fields {
        Fields::All { .. } => singles,
        Fields::Some => {
            // Picks about three fields of a type with many, and about half of the fields of a type
            // with few.
            let one_in = (singles.len() as u64 / 3).max(2);
            singles
                .into_iter()
                .filter(|_| random.is_one_in(one_in))
                .collect()
        }
    };
    for members in oneofs {
        let index = match fields {
            Fields::All { turn } => turn % members.len(),
            Fields::Some if random.is_one_in(2) => continue,
            Fields::Some => usize::try_from(random.bits() >> 32).expect("32 bits") % members.len(),
        };
        chosen.extend(members.into_iter().nth(index));
    }
    let contents = chosen.into_iter().map(|field| {
        let content = content(&field, random, depth);
        (field.number(), content)
    });
    Message {
        fields: contents.collect(),
    }
}

fn content(field: &Field, random: &mut Random, depth: usize) -> Content {
    if let Some([key, value]) = field.entry() {
        let mut entries = BTreeMap::new();
        for _ in 0..=random.below(MAX_ELEMENTS) {
            let key_value = scalar(&key.kind(), true, random);
            entries.insert(key_value, self::value(&value, random, depth));
        }
        return Content::Map(entries);
    }
    if field.is_list() {
        let is_long = field.is_packable() && random.is_one_in(8);
        let count = if is_long {
            MANY_ELEMENTS
        } else {
            1 + random.below(MAX_ELEMENTS)
        };
        return Content::Many((0..count).map(|_| value(field, random, depth)).collect());
    }
    Content::One(value(field, random, depth))
}

fn value(field: &Field, random: &mut Random, depth: usize) -> Value {
    match field.kind() {
        Kind::Message(_) if depth >= MAX_DEPTH => Message::default().into(),
        Kind::Message(of) => message_at(&of, Fields::Some, random, depth + 1).into(),
        kind => {
            // In fields without presence, the library treats negative zero as the default.
            let may_be_negative_zero = field.is_list() || field.has_presence();
            scalar(&kind, may_be_negative_zero, random)
        }
    }
}

fn scalar(kind: &Kind, may_be_negative_zero: bool, random: &mut Random) -> Value {
    match kind {
        Kind::Bool => random.is_one_in(2).into(),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            let any = random.bits() as i32;
            let small = any % 200;
            random
                .one_of(&[0, 1, -1, i32::MIN, i32::MAX, small, any])
                .into()
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            let any = random.bits() as i64;
            let above_32_bits = i64::from(u32::MAX) + 1;
            let edges = [0, 1, -1, i64::MIN, i64::MAX, above_32_bits, any % 200, any];
            random.one_of(&edges).into()
        }
        Kind::Uint32 | Kind::Fixed32 => {
            let any = random.bits() as u32;
            random
                .one_of(&[0, 1, 127, 128, u32::MAX, any % 20_000, any])
                .into()
        }
        Kind::Uint64 | Kind::Fixed64 => {
            let any = random.bits();
            random
                .one_of(&[0, 1, 127, 128, u64::MAX, 1 << 63, any % 20_000, any])
                .into()
        }
        Kind::Float => Value::F32(loop {
            let any = random.bits() as u32;
            let specials = [
                f32::INFINITY,
                f32::NEG_INFINITY,
                f32::MIN_POSITIVE / 2.0,
                -0.0,
                0.0,
            ];
            let special = random.one_of(&specials).to_bits();
            // Two kinds of NaN, with special bits.
            let bits = random.one_of(&[0x7fc0_1234, 0xff80_0001, special, any]);
            if may_be_negative_zero || bits != (-0.0_f32).to_bits() {
                break bits;
            }
        }),
        Kind::Double => Value::F64(loop {
            let any = random.bits();
            let specials = [
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MIN_POSITIVE / 2.0,
                -0.0,
                0.0,
            ];
            let special = random.one_of(&specials).to_bits();
            let bits = random.one_of(&[0x7ff8_0000_0000_1234, 0xfff0_0000_0000_0001, special, any]);
            if may_be_negative_zero || bits != (-0.0_f64).to_bits() {
                break bits;
            }
        }),
        Kind::String => {
            let length = length(random);
            Value::Str((0..length).map(|_| random.one_of(&CHARACTERS)).collect())
        }
        Kind::Bytes => {
            let length = length(random);
            Value::Bytes((0..length).map(|_| random.bits() as u8).collect())
        }
        Kind::Enum(of) => {
            let known: Vec<i32> = of.values().map(|value| value.number()).collect();
            let unknown = random.bits() as i32;
            let known = random.one_of(&known);
            random.one_of(&[known, known, unknown]).into()
        }
        Kind::Message(_) => unreachable!("messages are not scalars"),
    }
}

fn length(random: &mut Random) -> usize {
    match random.below(3) {
        0 => 0,
        1 => random.one_of(&LENGTHS),
        _ => usize::try_from(random.below(20)).expect("a small number"),
    }
}
