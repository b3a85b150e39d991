//! The arguments of events (Perfetto's debug annotations). They are decoded when they are asked
//! for.

use std::borrow::Cow;

use protozero::{Decoder, Fields, Value};

use crate::iid_table::Table;
use crate::interning::Interned;
use crate::names::NameTable;
use tracezero_core::protos::{DebugAnnotation, TrackEvent};

/// The maximum depth of nested dictionaries and arrays in an argument. Deeper ones are left out.
pub const ARGS_MAX_DEPTH: u32 = 100;

/// An iterator over the arguments of an event, the entries of a dictionary or the items of an
/// array.
///
/// The iterator ends early if the encoding is malformed.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    fields: Fields<'a>,
    /// The number of the field that holds one argument, entry or item.
    number: u32,
    /// The number of dictionaries and arrays around the iterated values.
    depth: u32,
    names: &'a NameTable,
    interned: Interned<'a>,
}

/// An argument.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Arg<'a> {
    /// The name of the argument. Empty for items of an array.
    pub name: Cow<'a, str>,
    /// The value of the argument.
    pub value: ArgValue<'a>,
}

/// The value of an argument.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ArgValue<'a> {
    /// No value, or a kind of value that this reader does not know.
    None,
    /// A boolean.
    Bool(bool),
    /// An unsigned integer.
    Uint(u64),
    /// A signed integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// An address.
    Pointer(u64),
    /// A string in JSON. Older producers write these.
    Json(Cow<'a, str>),
    /// A dictionary: values with names.
    Dict(Args<'a>),
    /// An array.
    Array(Args<'a>),
    /// An encoded message.
    Message {
        /// The full name of the message's type.
        type_name: Cow<'a, str>,
        /// The bytes of the message.
        bytes: &'a [u8],
    },
}

impl<'a> Args<'a> {
    pub(super) const fn of_event(
        event: &'a [u8],
        names: &'a NameTable,
        interned: Interned<'a>,
    ) -> Self {
        Self {
            fields: Decoder::new(event).fields(),
            number: TrackEvent::DEBUG_ANNOTATIONS_FIELD_NUMBER,
            depth: 0,
            names,
            interned,
        }
    }

    /// Returns the value of the first argument called `name`.
    #[must_use]
    pub fn find(mut self, name: &str) -> Option<ArgValue<'a>> {
        self.find_map(|arg| (arg.name == name).then_some(arg.value))
    }

    fn nested(&self, annotation: &'a [u8], number: u32) -> Self {
        Self {
            fields: Decoder::new(annotation).fields(),
            number,
            depth: self.depth + 1,
            ..*self
        }
    }

    fn interned(&self, table: Table, iid: u64) -> Cow<'a, str> {
        Cow::Borrowed(self.names.text(self.interned.name(table, iid)))
    }

    fn decode(&self, annotation: &'a [u8]) -> Arg<'a> {
        use DebugAnnotation as A;

        let mut name = Cow::Borrowed("");
        let mut value = ArgValue::None;
        let mut type_name = Cow::Borrowed("");
        for field in Decoder::new(annotation).fields().map_while(Result::ok) {
            match (field.number, field.value) {
                (A::NAME_IID_FIELD_NUMBER, Value::Varint(iid)) => {
                    name = self.interned(Table::ArgNames, iid);
                }
                (A::NAME_FIELD_NUMBER, Value::Bytes(text)) => name = String::from_utf8_lossy(text),
                (A::BOOL_VALUE_FIELD_NUMBER, Value::Varint(raw)) => {
                    value = ArgValue::Bool(raw != 0);
                }
                (A::UINT_VALUE_FIELD_NUMBER, Value::Varint(raw)) => value = ArgValue::Uint(raw),
                (A::INT_VALUE_FIELD_NUMBER, Value::Varint(raw)) => {
                    value = ArgValue::Int(raw.cast_signed());
                }
                (A::DOUBLE_VALUE_FIELD_NUMBER, Value::Fixed64(bits)) => {
                    value = ArgValue::Double(f64::from_bits(bits));
                }
                (A::STRING_VALUE_FIELD_NUMBER, Value::Bytes(text)) => {
                    value = ArgValue::Text(String::from_utf8_lossy(text));
                }
                (A::POINTER_VALUE_FIELD_NUMBER, Value::Varint(raw)) => {
                    value = ArgValue::Pointer(raw);
                }
                (A::LEGACY_JSON_VALUE_FIELD_NUMBER, Value::Bytes(text)) => {
                    value = ArgValue::Json(String::from_utf8_lossy(text));
                }
                (A::STRING_VALUE_IID_FIELD_NUMBER, Value::Varint(iid)) => {
                    value = ArgValue::Text(self.interned(Table::ArgTexts, iid));
                }
                (A::PROTO_TYPE_NAME_FIELD_NUMBER, Value::Bytes(text)) => {
                    type_name = String::from_utf8_lossy(text);
                }
                (A::PROTO_TYPE_NAME_IID_FIELD_NUMBER, Value::Varint(iid)) => {
                    type_name = self.interned(Table::TypeNames, iid);
                }
                (A::PROTO_VALUE_FIELD_NUMBER, Value::Bytes(bytes)) => {
                    value = ArgValue::Message {
                        type_name: Cow::Borrowed(""),
                        bytes,
                    };
                }
                _ if self.depth == ARGS_MAX_DEPTH => {}
                (number @ A::DICT_ENTRIES_FIELD_NUMBER, Value::Bytes(_)) => {
                    value = ArgValue::Dict(self.nested(annotation, number));
                }
                (number @ A::ARRAY_VALUES_FIELD_NUMBER, Value::Bytes(_)) => {
                    value = ArgValue::Array(self.nested(annotation, number));
                }
                _ => {}
            }
        }
        if let ArgValue::Message {
            type_name: unknown, ..
        } = &mut value
        {
            *unknown = type_name;
        }
        Arg { name, value }
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = Arg<'a>;

    fn next(&mut self) -> Option<Arg<'a>> {
        loop {
            let field = self.fields.next()?.ok()?;
            if field.number == self.number
                && let Value::Bytes(annotation) = field.value
            {
                return Some(self.decode(annotation));
            }
        }
    }
}
