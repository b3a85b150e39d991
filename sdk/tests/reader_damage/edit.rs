//! Messages as lists of fields that tests can edit.

use protozero::{Decoder, Value};

/// A message. Nested messages stay encoded until they are needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(pub Vec<(u32, Content)>);

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
}

impl Message {
    pub fn decode(bytes: &[u8]) -> Self {
        let fields = Decoder::new(bytes).fields().map(|field| {
            let field = field.expect("a message of the SDK");
            let content = match field.value {
                Value::Varint(value) => Content::Varint(value),
                Value::Fixed64(value) => Content::Fixed64(value),
                Value::Fixed32(value) => Content::Fixed32(value),
                Value::Bytes(bytes) => Content::Bytes(bytes.to_vec()),
            };
            (field.number, content)
        });
        Self(fields.collect())
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, content) in &self.0 {
            let mut tag = |wire_type| put_varint(&mut out, u64::from(number << 3 | wire_type));
            match content {
                Content::Varint(value) => {
                    tag(0);
                    put_varint(&mut out, *value);
                }
                Content::Fixed64(value) => {
                    tag(1);
                    out.extend_from_slice(&value.to_le_bytes());
                }
                Content::Fixed32(value) => {
                    tag(5);
                    out.extend_from_slice(&value.to_le_bytes());
                }
                Content::Bytes(bytes) => {
                    tag(2);
                    put_varint(&mut out, bytes.len() as u64);
                    out.extend_from_slice(bytes);
                }
            }
        }
        out
    }

    pub fn has(&self, number: u32) -> bool {
        self.0.iter().any(|(known, _)| *known == number)
    }

    pub fn number(&self, number: u32) -> Option<u64> {
        self.0.iter().find_map(|field| match field {
            (known, Content::Varint(value)) if *known == number => Some(*value),
            _ => None,
        })
    }

    pub fn message(&self, number: u32) -> Option<Message> {
        self.messages(number).into_iter().next()
    }

    pub fn messages(&self, number: u32) -> Vec<Message> {
        let fields = self.0.iter().filter_map(|field| match field {
            (known, Content::Bytes(bytes)) if *known == number => Some(Message::decode(bytes)),
            _ => None,
        });
        fields.collect()
    }

    /// Sets a field, replacing all its values.
    pub fn set(&mut self, number: u32, content: Content) {
        self.remove(number);
        self.0.push((number, content));
    }

    pub fn remove(&mut self, number: u32) {
        self.0.retain(|(known, _)| *known != number);
    }

    /// Edits the nested messages in a field.
    pub fn edit(&mut self, number: u32, mut change: impl FnMut(&mut Message)) {
        for (known, content) in &mut self.0 {
            if let Content::Bytes(bytes) = content
                && *known == number
            {
                let mut message = Message::decode(bytes);
                change(&mut message);
                *bytes = message.encode();
            }
        }
    }
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
