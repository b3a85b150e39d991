//! Converts messages to and from those of the foreign library.

use prost_reflect::{
    DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage, Value as Foreign,
};

use crate::field::{self, Field};
use crate::message::{Content, Message, Value};

/// Returns the library's message with the same content.
pub(crate) fn to_foreign(message: &Message, of: &MessageDescriptor) -> DynamicMessage {
    let mut foreign = DynamicMessage::new(of.clone());
    for field in field::all(of) {
        if let Some(content) = message.fields.get(&field.number()) {
            field.set(&mut foreign, foreign_content(content, &field));
        }
    }
    foreign
}

fn foreign_content(content: &Content, field: &Field) -> Foreign {
    match content {
        Content::One(value) => foreign_value(value, &field.kind()),
        Content::Many(values) => {
            let values = values
                .iter()
                .map(|value| foreign_value(value, &field.kind()));
            Foreign::List(values.collect())
        }
        Content::Map(entries) => {
            let [_, value_field] = field.entry().expect("a map");
            let entries = entries
                .iter()
                .map(|(key, value)| (foreign_key(key), foreign_value(value, &value_field.kind())));
            Foreign::Map(entries.collect())
        }
    }
}

fn foreign_value(value: &Value, kind: &Kind) -> Foreign {
    match value {
        Value::Bool(value) => Foreign::Bool(*value),
        Value::I32(value) if kind.as_enum().is_some() => Foreign::EnumNumber(*value),
        Value::I32(value) => Foreign::I32(*value),
        Value::I64(value) => Foreign::I64(*value),
        Value::U32(value) => Foreign::U32(*value),
        Value::U64(value) => Foreign::U64(*value),
        Value::F32(bits) => Foreign::F32(f32::from_bits(*bits)),
        Value::F64(bits) => Foreign::F64(f64::from_bits(*bits)),
        Value::Str(value) => Foreign::String(value.clone()),
        Value::Bytes(value) => Foreign::Bytes(value.clone().into()),
        Value::Message(value) => {
            let of = kind.as_message().expect("a field of a message type");
            Foreign::Message(to_foreign(value, of))
        }
    }
}

fn foreign_key(key: &Value) -> MapKey {
    match key {
        Value::Bool(key) => MapKey::Bool(*key),
        Value::I32(key) => MapKey::I32(*key),
        Value::I64(key) => MapKey::I64(*key),
        Value::U32(key) => MapKey::U32(*key),
        Value::U64(key) => MapKey::U64(*key),
        Value::Str(key) => MapKey::String(key.clone()),
        other => panic!("{other:?} cannot be the key of a map"),
    }
}

/// Returns the content of the library's message.
///
/// # Panics
///
/// If there is a field that the schema does not know.
pub(crate) fn from_foreign(foreign: &DynamicMessage) -> Message {
    let unknown: Vec<_> = foreign.unknown_fields().collect();
    assert!(unknown.is_empty(), "unknown to the library: {unknown:?}");
    let fields = field::all(&foreign.descriptor()).into_iter();
    let contents = fields.filter_map(|field| {
        let content = match field.get(foreign)? {
            Foreign::List(values) => Content::Many(values.iter().map(value).collect()),
            Foreign::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, it)| (value(&key.clone().into()), value(it)));
                Content::Map(entries.collect())
            }
            single => Content::One(value(&single)),
        };
        Some((field.number(), content))
    });
    Message {
        fields: contents.collect(),
    }
}

fn value(foreign: &Foreign) -> Value {
    match foreign {
        Foreign::Bool(value) => (*value).into(),
        Foreign::I32(value) | Foreign::EnumNumber(value) => (*value).into(),
        Foreign::I64(value) => (*value).into(),
        Foreign::U32(value) => (*value).into(),
        Foreign::U64(value) => (*value).into(),
        Foreign::F32(value) => (*value).into(),
        Foreign::F64(value) => (*value).into(),
        Foreign::String(value) => value.as_str().into(),
        Foreign::Bytes(value) => (&**value).into(),
        Foreign::Message(value) => from_foreign(value).into(),
        Foreign::List(_) | Foreign::Map(_) => panic!("{foreign:?} inside of another field"),
    }
}

/// Returns the message without defaults in fields that have no presence, because bytes cannot
/// express them.
pub(crate) fn canonical(message: &Message, of: &MessageDescriptor) -> Message {
    let fields = field::all(of).into_iter();
    let contents = fields.filter_map(|field| {
        let content = match message.fields.get(&field.number())? {
            Content::One(value) if !field.has_presence() && is_default(value) => return None,
            Content::One(value) => Content::One(canonical_value(value, &field.kind())),
            Content::Many(values) => {
                let values = values
                    .iter()
                    .map(|value| canonical_value(value, &field.kind()));
                Content::Many(values.collect())
            }
            Content::Map(entries) => {
                let [_, of_values] = field.entry().expect("a map");
                let entries = entries
                    .iter()
                    .map(|(key, value)| (key.clone(), canonical_value(value, &of_values.kind())));
                Content::Map(entries.collect())
            }
        };
        Some((field.number(), content))
    });
    Message {
        fields: contents.collect(),
    }
}

fn canonical_value(value: &Value, kind: &Kind) -> Value {
    match (value, kind) {
        (Value::Message(message), Kind::Message(of)) => canonical(message, of).into(),
        (value, _) => value.clone(),
    }
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::I32(value) => *value == 0,
        Value::I64(value) => *value == 0,
        Value::U32(value) | Value::F32(value) => *value == 0,
        Value::U64(value) | Value::F64(value) => *value == 0,
        Value::Str(value) => value.is_empty(),
        Value::Bytes(value) => value.is_empty(),
        Value::Message(_) => false,
    }
}
