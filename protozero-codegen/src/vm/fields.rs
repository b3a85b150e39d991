//! Finds the messages and fields that a program names.

use std::collections::BTreeMap;

use protobuf::descriptor::field_descriptor_proto::{Label, Type as ProtoType};
use protobuf::descriptor::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

use crate::registry::{data_extensions, join, type_name};
use crate::resolve;

/// All messages and extension fields that were read, by full name.
#[derive(Debug)]
pub(super) struct Schema<'a> {
    messages: BTreeMap<String, Message<'a>>,
    extensions: BTreeMap<String, Field<'a>>,
}

#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) name: String,
    /// The file that declares the message, as `import` statements name it.
    file: &'a str,
    pub(super) fields: Vec<Field<'a>>,
}

/// A field of a message, or an extension field.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    /// The name in a path: that of an extension is in brackets.
    pub(super) name: String,
    descriptor: &'a FieldDescriptorProto,
    is_proto3: bool,
}

/// The encodings of values. Values of two types with the same encoding can replace each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Varint,
    ZigZag,
    Fixed32,
    Float,
    Fixed64,
    Double,
    Bytes,
    Message,
}

impl Field<'_> {
    pub(super) fn number(&self) -> u32 {
        resolve::number(self.descriptor)
    }

    pub(super) fn is_repeated(&self) -> bool {
        self.descriptor.label() == Label::LABEL_REPEATED
    }

    pub(super) fn is_deprecated(&self) -> bool {
        self.descriptor.options.deprecated()
    }

    /// Returns true if encoders write all elements as one field.
    pub(super) fn is_packed(&self) -> bool {
        self.is_repeated()
            && !matches!(self.encoding(), Encoding::Bytes | Encoding::Message)
            && self.descriptor.options.packed.unwrap_or(self.is_proto3)
    }

    pub(super) fn encoding(&self) -> Encoding {
        match self.descriptor.type_() {
            ProtoType::TYPE_INT32
            | ProtoType::TYPE_INT64
            | ProtoType::TYPE_UINT32
            | ProtoType::TYPE_UINT64
            | ProtoType::TYPE_BOOL
            | ProtoType::TYPE_ENUM => Encoding::Varint,
            ProtoType::TYPE_SINT32 | ProtoType::TYPE_SINT64 => Encoding::ZigZag,
            ProtoType::TYPE_FIXED32 | ProtoType::TYPE_SFIXED32 => Encoding::Fixed32,
            ProtoType::TYPE_FLOAT => Encoding::Float,
            ProtoType::TYPE_FIXED64 | ProtoType::TYPE_SFIXED64 => Encoding::Fixed64,
            ProtoType::TYPE_DOUBLE => Encoding::Double,
            ProtoType::TYPE_STRING | ProtoType::TYPE_BYTES => Encoding::Bytes,
            ProtoType::TYPE_MESSAGE | ProtoType::TYPE_GROUP => Encoding::Message,
        }
    }

    /// Returns true for an integer whose values take more than 32 bits.
    pub(super) fn is_64_bit(&self) -> bool {
        matches!(
            self.descriptor.type_(),
            ProtoType::TYPE_INT64
                | ProtoType::TYPE_UINT64
                | ProtoType::TYPE_SINT64
                | ProtoType::TYPE_FIXED64
                | ProtoType::TYPE_SFIXED64
        )
    }

    /// Returns the name of the field's type in a `.proto` file.
    pub(super) fn type_text(&self) -> String {
        match self.descriptor.type_() {
            ProtoType::TYPE_MESSAGE | ProtoType::TYPE_GROUP | ProtoType::TYPE_ENUM => {
                type_name(self.descriptor.type_name())
            }
            scalar => resolve::scalar(scalar).proto_name().to_owned(),
        }
    }

    /// Returns label and type of the field for an error, such as "repeated uint32".
    pub(super) fn kind(&self) -> String {
        let label = if self.is_repeated() { "repeated " } else { "" };
        format!("{label}{}", self.type_text())
    }
}

impl<'a> Schema<'a> {
    pub(super) fn new(files: &'a [FileDescriptorProto]) -> Self {
        let mut schema = Schema {
            messages: BTreeMap::new(),
            extensions: BTreeMap::new(),
        };
        for file in files {
            schema.add_extensions(file.package(), &file.extension, file);
            schema.add_messages(file.package(), &file.message_type, file);
        }
        schema
    }

    fn add_messages(
        &mut self,
        scope: &str,
        messages: &'a [DescriptorProto],
        file: &'a FileDescriptorProto,
    ) {
        for message in messages {
            let name = join(scope, message.name());
            self.add_extensions(&name, &message.extension, file);
            self.add_messages(&name, &message.nested_type, file);
            let fields = message.field.iter().map(|descriptor| Field {
                name: descriptor.name().to_owned(),
                descriptor,
                is_proto3: file.syntax() == "proto3",
            });
            let message = Message {
                name: name.clone(),
                file: file.name(),
                fields: fields.collect(),
            };
            self.messages.insert(name, message);
        }
    }

    fn add_extensions(
        &mut self,
        scope: &str,
        extensions: &'a [FieldDescriptorProto],
        file: &'a FileDescriptorProto,
    ) {
        for descriptor in data_extensions(extensions) {
            let name = join(scope, descriptor.name());
            let field = Field {
                name: format!("[{name}]"),
                descriptor,
                is_proto3: file.syntax() == "proto3",
            };
            self.extensions.insert(name, field);
        }
    }

    pub(super) fn root(&self, name: &str) -> Result<&Message<'a>, String> {
        let name = name.strip_prefix('.').unwrap_or(name);
        self.messages.get(name).ok_or_else(|| {
            let names = self.messages.keys().map(String::as_str);
            format!(
                "the root message `{name}` is not in the schema; {}",
                remedy(name, names, "write its full name, and import its file")
            )
        })
    }

    /// Returns the message that is the type of a field, if its type is a message.
    pub(super) fn message_of(&self, field: &Field<'_>) -> Option<&Message<'a>> {
        if field.encoding() != Encoding::Message {
            return None;
        }
        self.messages.get(&type_name(field.descriptor.type_name()))
    }

    /// Finds a field of a message by its name in a path.
    pub(super) fn field<'s>(
        &'s self,
        message: &'s Message<'a>,
        name: &str,
    ) -> Result<&'s Field<'a>, String> {
        let extension = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let field = match extension {
            Some(extension) => self.extensions.get(extension),
            None => message.fields.iter().find(|field| field.name == name),
        };
        let field = field.ok_or_else(|| self.no_field(message, name))?;
        let extended = type_name(field.descriptor.extendee());
        if extension.is_none() || extended == message.name {
            return Ok(field);
        }
        Err(format!(
            "`{name}` extends `{extended}`, but the path is at `{}`; check where the path starts",
            message.name
        ))
    }

    fn no_field(&self, message: &Message<'_>, name: &str) -> String {
        let extensions = self.extensions.values();
        let extensions =
            extensions.filter(|it| type_name(it.descriptor.extendee()) == message.name);
        let fields = message.fields.iter().chain(extensions);
        let names: Vec<&str> = fields.map(|field| field.name.as_str()).collect();
        let otherwise = match names.is_empty() {
            true => "it has no fields at all".to_owned(),
            false => {
                "check the spelling, and whether the file of an extension is imported".to_owned()
            }
        };
        format!(
            "message `{}` ({}) has no field `{name}`; {}",
            message.name,
            message.file,
            remedy(name, names.into_iter(), &otherwise)
        )
    }
}

/// Returns a question with the names that are similar to `name`, or another remedy.
fn remedy<'n>(name: &str, names: impl Iterator<Item = &'n str>, otherwise: &str) -> String {
    /// The maximum number of names.
    const MAX: usize = 3;
    let mut close: Vec<(usize, &str)> = names
        .filter_map(|candidate| {
            let distance = distance(last_part(name), last_part(candidate));
            let is_close = distance <= last_part(name).len() / 3;
            is_close.then_some((distance, candidate))
        })
        .collect();
    close.sort_unstable();
    let close: Vec<String> = close
        .iter()
        .take(MAX)
        .map(|(_, name)| format!("`{name}`"))
        .collect();
    match close.is_empty() {
        true => otherwise.to_owned(),
        false => format!("did you mean {}?", close.join(" or ")),
    }
}

fn last_part(name: &str) -> &str {
    let name = name.trim_end_matches(']');
    name.rsplit(['.', '[']).next().unwrap_or_default()
}

/// Returns how many letters must be added, removed or replaced to turn one name into the other.
fn distance(left: &str, right: &str) -> usize {
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, letter) in left.bytes().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in right.bytes().enumerate() {
            let replaced = above[column] + usize::from(!letter.eq_ignore_ascii_case(&other));
            let fewest = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            current.push(fewest);
        }
        above = current;
    }
    above.last().copied().unwrap_or_default()
}
