//! `prost`: a struct that owns its strings; lengths are computed again at each level.

use prost::Message as _;

use super::Input;

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

#[inline(always)]
pub fn encode(input: &Input, levels: usize, memory: &mut [u8]) -> usize {
    let mut free = &mut memory[..];
    let free_bytes = free.len();
    build(input, levels)
        .encode(&mut free)
        .expect("there is room for the message");
    free_bytes - free.len()
}

#[inline(always)]
pub fn decode(bytes: &[u8]) -> EveryField {
    EveryField::decode(bytes).expect("a message")
}
