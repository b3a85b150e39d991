//! Names of messages and fields: from the SDK's own schema, and from extension schemas in a trace.
//!
//! Descriptors from a trace are untrusted. If a descriptor is faulty, only names are missing in the
//! output.

use std::collections::HashMap;

use protozero::{DecodeError, Decoder, Value, types};
use tracezero_core::protos::{ExtensionDescriptor, TracePacket};

/// A message that no schema describes.
pub(crate) const UNKNOWN: MessageId = MessageId(0);
/// The full name of the message of a packet.
const PACKET: &str = ".perfetto.protos.TracePacket";
/// The maximum depth of nested declarations. Deeper ones are ignored.
const MAX_DEPTH: u32 = 32;
/// The maximum number of fields that all schemas together may declare. The same limit holds for
/// enum values, and for types. Beyond the limit, they have no name.
const MAX_FIELDS: usize = 1 << 18;
/// The maximum length of a name. A longer one is ignored.
const MAX_NAME_BYTES: usize = 512;

/// A message of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageId(u32);

/// The name and type of a field.
#[derive(Clone, Debug)]
pub(crate) struct FieldType {
    /// The name as in the text format: extensions are in brackets.
    pub(crate) name: Box<str>,
    pub(crate) kind: Kind,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
    Message(MessageId),
    Enum(EnumId),
}

/// An enum of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnumId(u32);

/// All known names.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The ids of messages and enums, by full name with a leading dot. Names that are only referred
    /// to have an id too.
    messages: HashMap<String, MessageId>,
    enums: HashMap<String, EnumId>,
    fields: HashMap<(MessageId, u32), FieldType>,
    values: HashMap<(EnumId, i32), Box<str>>,
}

impl Schema {
    /// Creates the schema of what the SDK itself writes.
    pub(crate) fn of_sdk() -> Self {
        let mut schema = Self {
            messages: HashMap::from([(String::new(), UNKNOWN)]),
            enums: HashMap::new(),
            fields: HashMap::new(),
            values: HashMap::new(),
        };
        let set = protozero::include_descriptor_set!("tracezero.sequences");
        // The error is ignored here: a test checks that the whole schema can be added.
        let _ = schema.add(set);
        schema
    }

    /// Adds the names of an extension schema in a packet of the trace. If the schema is malformed,
    /// adds those before the fault.
    pub(crate) fn learn_from_packet(&mut self, packet: &[u8]) {
        let nested = |message, number| {
            let field = Decoder::new(message).last::<types::Bytes>(number);
            field.ok().flatten()
        };
        let set =
            nested(packet, TracePacket::EXTENSION_DESCRIPTOR_FIELD_NUMBER).and_then(|extension| {
                nested(extension, ExtensionDescriptor::EXTENSION_SET_FIELD_NUMBER)
            });
        if let Some(set) = set {
            let _ = self.add(set);
        }
    }

    /// Adds the files of a serialized `FileDescriptorSet`. Known fields keep their names.
    ///
    /// # Errors
    ///
    /// If the set is malformed. The names before the fault are added.
    fn add(&mut self, set: &[u8]) -> Result<(), DecodeError> {
        const FILE: u32 = 1;
        for file in Decoder::new(set).repeated::<types::Bytes>(FILE) {
            self.add_file(Decoder::new(file?))?;
        }
        Ok(())
    }

    /// Returns the message of a packet.
    pub(crate) fn packet(&self) -> MessageId {
        self.messages.get(PACKET).copied().unwrap_or(UNKNOWN)
    }

    pub(crate) fn field(&self, message: MessageId, number: u32) -> Option<&FieldType> {
        self.fields.get(&(message, number))
    }

    /// Returns the name of an enum's value.
    pub(crate) fn value(&self, of: EnumId, number: i32) -> Option<&str> {
        self.values.get(&(of, number)).map(|name| &**name)
    }

    fn add_file(&mut self, file: Decoder<'_>) -> Result<(), DecodeError> {
        const PACKAGE: u32 = 2;
        const EXTENSION: u32 = 7;
        let package = file.last::<types::Str>(PACKAGE)?.unwrap_or_default();
        let scope = match package {
            "" => String::new(),
            package => format!(".{package}"),
        };
        self.add_types(file, &scope, 4, 5, 0)?;
        for extension in file.repeated::<types::Bytes>(EXTENSION) {
            self.add_extension(Decoder::new(extension?), &scope)?;
        }
        Ok(())
    }

    /// Adds the messages and enums that `parent` declares in its fields `message` and
    /// `enumeration`.
    fn add_types(
        &mut self,
        parent: Decoder<'_>,
        scope: &str,
        message: u32,
        enumeration: u32,
        depth: u32,
    ) -> Result<(), DecodeError> {
        for field in parent.fields() {
            let field = field?;
            if let Value::Bytes(bytes) = field.value {
                if field.number == message && depth < MAX_DEPTH {
                    self.add_message(Decoder::new(bytes), scope, depth)?;
                } else if field.number == enumeration {
                    self.add_enum(Decoder::new(bytes), scope)?;
                }
            }
        }
        Ok(())
    }

    fn add_message(
        &mut self,
        message: Decoder<'_>,
        scope: &str,
        depth: u32,
    ) -> Result<(), DecodeError> {
        const FIELD: u32 = 2;
        const EXTENSION: u32 = 6;
        let name = join(scope, message)?;
        if name.len() > MAX_NAME_BYTES {
            return Ok(());
        }
        let id = self.message(&name);
        for field in message.repeated::<types::Bytes>(FIELD) {
            let field = Decoder::new(field?);
            let field_name = name_of(field)?.to_owned();
            self.add_field(id, field, field_name)?;
        }
        for extension in message.repeated::<types::Bytes>(EXTENSION) {
            self.add_extension(Decoder::new(extension?), &name)?;
        }
        self.add_types(message, &name, 3, 4, depth + 1)
    }

    fn add_extension(&mut self, field: Decoder<'_>, scope: &str) -> Result<(), DecodeError> {
        const EXTENDEE: u32 = 2;
        let extended = field.last::<types::Str>(EXTENDEE)?.unwrap_or_default();
        let extended = self.message(extended);
        let name = join(scope, field)?;
        self.add_field(extended, field, format!("[{}]", &name[1..]))
    }

    fn add_field(
        &mut self,
        message: MessageId,
        field: Decoder<'_>,
        name: String,
    ) -> Result<(), DecodeError> {
        const NUMBER: u32 = 3;
        const TYPE: u32 = 5;
        const TYPE_NAME: u32 = 6;
        let number = field.last::<types::Int32>(NUMBER)?.unwrap_or_default();
        let kind = field.last::<types::Int32>(TYPE)?.unwrap_or_default();
        let type_name = field.last::<types::Str>(TYPE_NAME)?.unwrap_or_default();
        // Fields of `UNKNOWN` are left out, because they would apply to all messages that no schema
        // describes.
        if message == UNKNOWN || !is_name(&name) || self.fields.len() >= MAX_FIELDS {
            return Ok(());
        }
        let Some(kind) = self.kind(kind, type_name) else {
            return Ok(());
        };
        self.fields
            .entry((message, number as u32))
            .or_insert_with(|| FieldType {
                name: name.into(),
                kind,
            });
        Ok(())
    }

    fn add_enum(&mut self, enumeration: Decoder<'_>, scope: &str) -> Result<(), DecodeError> {
        const VALUE: u32 = 2;
        const NUMBER: u32 = 2;
        let name = join(scope, enumeration)?;
        let Some(id) = self.enumeration(&name) else {
            return Ok(());
        };
        for value in enumeration.repeated::<types::Bytes>(VALUE) {
            let value = Decoder::new(value?);
            let number = value.last::<types::Int32>(NUMBER)?.unwrap_or_default();
            let name = name_of(value)?;
            if is_name(name) && self.values.len() < MAX_FIELDS {
                let entry = self.values.entry((id, number));
                entry.or_insert_with(|| name.into());
            }
        }
        Ok(())
    }

    /// Returns the message of this name, which need not be declared. Returns `UNKNOWN` if there is
    /// no room.
    fn message(&mut self, name: &str) -> MessageId {
        let next = MessageId(self.messages.len() as u32);
        id_of(name, next, &mut self.messages).unwrap_or(UNKNOWN)
    }

    fn enumeration(&mut self, name: &str) -> Option<EnumId> {
        let next = EnumId(self.enums.len() as u32);
        id_of(name, next, &mut self.enums)
    }

    /// Converts the number that `descriptor.proto` gives to a type. Returns `None` for groups, for
    /// unknown types, and for an enum if there is no room.
    fn kind(&mut self, number: i32, type_name: &str) -> Option<Kind> {
        Some(match number {
            1 => Kind::Double,
            2 => Kind::Float,
            3 => Kind::Int64,
            4 => Kind::Uint64,
            5 => Kind::Int32,
            6 => Kind::Fixed64,
            7 => Kind::Fixed32,
            8 => Kind::Bool,
            9 => Kind::String,
            11 => Kind::Message(self.message(type_name)),
            12 => Kind::Bytes,
            13 => Kind::Uint32,
            14 => Kind::Enum(self.enumeration(type_name)?),
            15 => Kind::Sfixed32,
            16 => Kind::Sfixed64,
            17 => Kind::Sint32,
            18 => Kind::Sint64,
            _ => return None,
        })
    }
}

/// Returns the id of a type; `next` if the type is new. `None` if the name is too long or there is
/// no room.
fn id_of<I: Copy>(name: &str, next: I, ids: &mut HashMap<String, I>) -> Option<I> {
    if let Some(known) = ids.get(name) {
        return Some(*known);
    }
    if name.len() > MAX_NAME_BYTES || ids.len() >= MAX_FIELDS {
        return None;
    }
    ids.insert(name.to_owned(), next);
    Some(next)
}

fn name_of(declaration: Decoder<'_>) -> Result<&str, DecodeError> {
    const NAME: u32 = 1;
    Ok(declaration.last::<types::Str>(NAME)?.unwrap_or_default())
}

/// Returns the full name of a declaration in `scope`.
fn join(scope: &str, declaration: Decoder<'_>) -> Result<String, DecodeError> {
    Ok(format!("{scope}.{}", name_of(declaration)?))
}

/// Returns true if `name` is safe to print before a value: no text from a trace reaches a terminal
/// unescaped.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.[]".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_the_sdk_is_known_with_its_extension() {
        let schema = Schema::of_sdk();
        let name = |message, number| &*schema.field(message, number).unwrap().name;
        let packet = schema.packet();
        assert_eq!(name(packet, 8), "timestamp");
        assert_eq!(
            name(packet, 1990),
            "[tracezero.sequences.sequence_accounts]"
        );
        let Kind::Message(event) = schema.field(packet, 11).unwrap().kind else {
            panic!("an event is a message");
        };
        let Kind::Enum(event_type) = schema.field(event, 9).unwrap().kind else {
            panic!("its type is an enum");
        };
        assert_eq!(schema.value(event_type, 1), Some("TYPE_SLICE_BEGIN"));
        assert!(schema.field(packet, 7).is_none());
        assert!(schema.field(UNKNOWN, 1).is_none());
    }

    #[test]
    fn field_name_with_control_characters_is_ignored() {
        let mut schema = Schema::of_sdk();
        // A file with a message `M`, with a field whose name is an escape sequence.
        let set = b"\x0a\x10\x22\x0e\x0a\x01M\x12\x09\x0a\x03\x1b[0\x18\x01\x28\x05";
        schema.add(set).unwrap();
        let message = schema.message(".M");
        assert!(schema.field(message, 1).is_none());
    }

    #[test]
    fn an_extension_of_nothing_names_no_field() {
        let mut schema = Schema::of_sdk();
        // A file with an extension `x` with number 1.
        let set = b"\x0a\x09\x3a\x07\x0a\x01x\x18\x01\x28\x05";
        schema.add(set).unwrap();
        assert!(schema.field(UNKNOWN, 1).is_none());
    }

    #[test]
    fn types_beyond_the_limit_are_unknown() {
        let mut ids = HashMap::new();
        for number in 0..MAX_FIELDS {
            assert_eq!(id_of(&number.to_string(), number, &mut ids), Some(number));
        }
        assert_eq!(id_of("one more", 0, &mut ids), None);
        assert_eq!(id_of("7", 0, &mut ids), Some(7));
        assert_eq!(
            id_of(&"x".repeat(MAX_NAME_BYTES + 1), 0, &mut HashMap::new()),
            None
        );
    }

    #[test]
    fn a_damaged_set_is_an_error_and_not_a_panic() {
        let set = protozero::include_descriptor_set!("tracezero.sequences");
        for length in (0..set.len()).step_by(61) {
            let mut schema = Schema::of_sdk();
            let _ = schema.add(&set[..length]);
            let mut damaged = set.to_vec();
            damaged[length] ^= 0x15;
            let _ = schema.add(&damaged);
        }
    }
}
