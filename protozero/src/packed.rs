//! Packed repeated fields: one length-delimited field whose payload is the elements, back to back.
//!
//! The elements go straight to the stream, behind a length slot, so their number and size need not
//! be known before.

use crate::message::Message;
use crate::wire::{zigzag32, zigzag64};

/// Declares the append method of one packed type.
macro_rules! packed {
    ($method:ident, $proto:literal, $value:ty, varint |$v:ident| $encode:expr) => {
        packed!(@ $method, $proto, $value, append_bare_varint, $v, $encode);
    };
    ($method:ident, $proto:literal, $value:ty, fixed) => {
        packed!(@ $method, $proto, $value, append_raw, v, &v.to_le_bytes());
    };
    (@ $method:ident, $proto:literal, $value:ty, $append:ident, $v:ident, $encode:expr) => {
        #[doc = concat!(
            "Appends the packed field number `FIELD` with elements of protobuf type `", $proto,
            "`. Without elements, an empty field is written."
        )]
        pub fn $method<const FIELD: u32>(&mut self, values: impl IntoIterator<Item = $value>) {
            let mut payload = self.begin_nested::<FIELD>();
            for $v in values {
                payload.stream().$append($encode);
            }
        }
    };
}

impl Message<'_> {
    packed!(
        append_packed_int32,
        "int32",
        i32,
        varint | v | i64::from(v) as u64
    );
    packed!(append_packed_int64, "int64", i64, varint | v | v as u64);
    packed!(
        append_packed_uint32,
        "uint32",
        u32,
        varint | v | u64::from(v)
    );
    packed!(append_packed_uint64, "uint64", u64, varint | v | v);
    packed!(
        append_packed_sint32,
        "sint32",
        i32,
        varint | v | u64::from(zigzag32(v))
    );
    packed!(
        append_packed_sint64,
        "sint64",
        i64,
        varint | v | zigzag64(v)
    );
    packed!(append_packed_bool, "bool", bool, varint | v | u64::from(v));
    packed!(
        append_packed_enum,
        "enum",
        i32,
        varint | v | i64::from(v) as u64
    );
    packed!(append_packed_fixed32, "fixed32", u32, fixed);
    packed!(append_packed_fixed64, "fixed64", u64, fixed);
    packed!(append_packed_sfixed32, "sfixed32", i32, fixed);
    packed!(append_packed_sfixed64, "sfixed64", i64, fixed);
    packed!(append_packed_float, "float", f32, fixed);
    packed!(append_packed_double, "double", f64, fixed);
}
