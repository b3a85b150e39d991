//! A tree of plain values, which tests can assert on.

use std::collections::BTreeMap;

use protobuf::MessageDyn;
use protobuf::reflect::{ReflectFieldRef, ReflectValueRef};

/// A value of an argument or of a field of a custom message.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A truth value.
    Bool(bool),
    /// An unsigned integer of any width.
    Uint(u64),
    /// A signed integer of any width.
    Int(i64),
    /// A floating-point number of either width.
    Double(f64),
    /// A string, or the name of an enum's value.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A message or dictionary: the fields that are set, by name.
    Dict(BTreeMap<String, Value>),
    /// A repeated field or array.
    Array(Vec<Value>),
}

impl Value {
    /// Returns the value at a path of field names and indexes, such as `payload.nested.0.str`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(self, |value, step| match value {
            Value::Dict(fields) => fields.get(step),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Returns the integer, if the value is one and fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::Uint(value) => Some(value),
            Value::Int(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    /// Returns the integer, if the value is one and fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::Int(value) => Some(value),
            Value::Uint(value) => i64::try_from(value).ok(),
            _ => None,
        }
    }

    /// Returns the floating-point number, if the value is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::Double(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the boolean, if the value is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the text, if the value is a text or UTF-8 bytes.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Bytes(bytes) => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the items, if the value is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the fields that are set in `message`.
    pub(crate) fn of_message(message: &dyn MessageDyn) -> Value {
        let mut fields = BTreeMap::new();
        for field in message.descriptor_dyn().fields() {
            let value = match field.get_reflect(message) {
                ReflectFieldRef::Optional(value) => value.value().map(Value::of_field),
                ReflectFieldRef::Repeated(items) if items.is_empty() => None,
                ReflectFieldRef::Repeated(items) => Some(Value::Array(
                    items.into_iter().map(Value::of_field).collect(),
                )),
                ReflectFieldRef::Map(entries) if entries.is_empty() => None,
                ReflectFieldRef::Map(entries) => Some(Value::Dict(
                    (&entries)
                        .into_iter()
                        .map(|(key, value)| (key.to_string(), Value::of_field(value)))
                        .collect(),
                )),
            };
            if let Some(value) = value {
                fields.insert(field.name().to_owned(), value);
            }
        }
        Value::Dict(fields)
    }

    fn of_field(value: ReflectValueRef<'_>) -> Value {
        match value {
            ReflectValueRef::U32(value) => Value::Uint(value.into()),
            ReflectValueRef::U64(value) => Value::Uint(value),
            ReflectValueRef::I32(value) => Value::Int(value.into()),
            ReflectValueRef::I64(value) => Value::Int(value),
            ReflectValueRef::F32(value) => Value::Double(value.into()),
            ReflectValueRef::F64(value) => Value::Double(value),
            ReflectValueRef::Bool(value) => Value::Bool(value),
            ReflectValueRef::String(value) => Value::Text(value.to_owned()),
            ReflectValueRef::Bytes(value) => Value::Bytes(value.to_owned()),
            ReflectValueRef::Enum(descriptor, number) => match descriptor.value_by_number(number) {
                Some(value) => Value::Text(value.name().to_owned()),
                None => Value::Int(number.into()),
            },
            ReflectValueRef::Message(message) => Value::of_message(&*message),
        }
    }
}
