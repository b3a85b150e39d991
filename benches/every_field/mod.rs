//! The message that `encode.rs` and `decode.rs` measure, and its implementations in other
//! libraries.
//!
//! There are two forms: `simple` has four integers of five bytes each and a string of 31 bytes;
//! `nested` has these on four levels. For each library there is the struct and the trait
//! implementation that its own generator makes of `benches/protos/bench.proto`, written out by
//! hand, because those generators have more dependencies than all the rest.

pub mod in_buffa;
pub mod in_buffa_view;
pub mod in_micropb;
pub mod in_prost;
pub mod in_quick_protobuf;

/// The writer and the decoder that our generator makes.
pub mod schema {
    protozero::include_protos!("bench");
}

/// The number of levels of the nested message below its root.
pub const NESTED_LEVELS: usize = 3;

/// The maximal size of an encoded nested message.
const MAX_ENCODED_BYTES: usize = 512;

/// The values of a message.
pub struct Input {
    pub integers: [u64; 4],
    pub string: String,
}

impl Input {
    pub fn new() -> Self {
        Self {
            integers: [0x1234_5678, 0x90ab_cdef, 0x1111_1111, 0xffff_ffff],
            string: "f".repeat(31),
        }
    }
}

/// Returns the bytes that our writer must write.
pub fn encoded(levels: usize) -> Vec<u8> {
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

/// Checks that all libraries write the same bytes, and that each reads its own bytes and ours
/// alike.
pub fn check_rivals(input: &Input, levels: usize) {
    let ours = encoded(levels);
    let mut expected = [0; MAX_ENCODED_BYTES];
    let expected_len = in_prost::encode(input, levels, &mut expected);
    let expected = &expected[..expected_len];

    macro_rules! check {
        ($($rival:ident)*) => {$(
            let mut memory = [0; MAX_ENCODED_BYTES];
            let len = $rival::encode(input, levels, &mut memory);
            assert_eq!(&memory[..len], expected, stringify!($rival));
            let message = $rival::build(input, levels);
            assert!($rival::decode(&ours) == message, stringify!($rival));
            assert!($rival::decode(expected) == message, stringify!($rival));
        )*};
    }
    check!(in_prost in_micropb in_quick_protobuf in_buffa in_buffa_view);
}
