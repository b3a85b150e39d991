//! Reads a descriptor set and checks it. Usually a schema compiler has made the set and checked the
//! schema. But a set can come from any program, so this module checks everything that later stages
//! rely on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use protobuf::Message as _;
use protobuf::descriptor::field_descriptor_proto::{Label, Type as ProtoType};
use protobuf::descriptor::source_code_info::Location as Span;
use protobuf::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet,
};

use crate::comments::Comments;
use crate::error::Error;
use crate::front_end::{FIELD_NUMBERS, Loaded, RESERVED_FIELD_NUMBERS};
use crate::registry::{is_map_entry, join, type_name};

/// Field numbers in `descriptor.proto`. The path of a declaration consists of these numbers and of
/// indexes; source information is found by this path.
mod path {
    pub(super) const FILE_MESSAGE: i32 = 4;
    pub(super) const FILE_ENUM: i32 = 5;
    pub(super) const FILE_EXTENSION: i32 = 7;
    pub(super) const MESSAGE_FIELD: i32 = 2;
    pub(super) const MESSAGE_MESSAGE: i32 = 3;
    pub(super) const MESSAGE_ENUM: i32 = 4;
    pub(super) const MESSAGE_EXTENSION: i32 = 6;
    pub(super) const MESSAGE_ONEOF: i32 = 8;
    pub(super) const ENUM_VALUE: i32 = 2;
}

const GROUP: &str = "groups are not supported; make it a nested message with a field of its type";

/// Reads and checks a descriptor set. Every file in the set is a root.
pub(crate) fn load(set: &Path) -> Result<Loaded, Error> {
    let bytes = fs::read(set).map_err(|source| Error::Read {
        file: set.to_owned(),
        source,
    })?;
    let not_a_set = |message: String| Error::DescriptorSet {
        set: set.to_owned(),
        message,
    };
    let files = FileDescriptorSet::parse_from_bytes(&bytes)
        .map_err(|error| not_a_set(error.to_string()))?
        .file;
    if files.is_empty() {
        return Err(not_a_set("it contains no files".to_owned()));
    }
    let descriptors = without_repetitions(set, files)?;
    let mut types = BTreeMap::new();
    for file in &descriptors {
        collect_types(
            file.package(),
            &file.message_type,
            &file.enum_type,
            &mut types,
        );
    }
    let mut comments = Comments::default();
    let mut declared = BTreeSet::new();
    for file in &descriptors {
        let spans = file.source_code_info.location.iter();
        let mut check = Check {
            set,
            file,
            types: &types,
            spans: spans.map(|span| (span.path.as_slice(), span)).collect(),
            comments: &mut comments,
            declared: &mut declared,
        };
        check.file()?;
    }
    Ok(Loaded {
        roots: descriptors
            .iter()
            .map(|file| file.name().to_owned())
            .collect(),
        descriptors,
        comments,
        files_read: vec![set.to_owned()],
    })
}

/// Returns the files of a set without repetitions: sets that were joined end to end may contain the
/// same file several times. Checks that each file comes after its imports.
fn without_repetitions(
    set: &Path,
    files: Vec<FileDescriptorProto>,
) -> Result<Vec<FileDescriptorProto>, Error> {
    let mut names = BTreeSet::new();
    let mut kept: Vec<FileDescriptorProto> = Vec::new();
    for file in files {
        let name = file.name().to_owned();
        if let Some(import) = file.dependency.iter().find(|it| !names.contains(*it)) {
            return Err(Error::ImportNotInSet {
                set: set.to_owned(),
                file: name,
                import: import.clone(),
            });
        }
        if names.insert(name.clone()) {
            kept.push(file);
        } else if !kept.contains(&file) {
            return Err(Error::Descriptor {
                set: set.to_owned(),
                file: name,
                place: None,
                name: String::new(),
                message: "the set contains another file of this name; rename one of them"
                    .to_owned(),
            });
        }
    }
    Ok(kept)
}

/// The kind of a named type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    MapEntry,
    Enum,
}

/// Adds all types of a scope to `types`, by full name.
fn collect_types(
    scope: &str,
    messages: &[DescriptorProto],
    enums: &[EnumDescriptorProto],
    types: &mut BTreeMap<String, Kind>,
) {
    for item in enums {
        types.insert(join(scope, item.name()), Kind::Enum);
    }
    for message in messages {
        let name = join(scope, message.name());
        collect_types(&name, &message.nested_type, &message.enum_type, types);
        let kind = match is_map_entry(message) {
            true => Kind::MapEntry,
            false => Kind::Message,
        };
        types.insert(name, kind);
    }
}

/// A pass over one file that checks its declarations and collects their comments.
struct Check<'a> {
    set: &'a Path,
    file: &'a FileDescriptorProto,
    types: &'a BTreeMap<String, Kind>,
    spans: BTreeMap<&'a [i32], &'a Span>,
    comments: &'a mut Comments,
    /// The full names of all declarations so far, in all files.
    declared: &'a mut BTreeSet<String>,
}

/// A declaration: its full name, and its path in the file's descriptor.
#[derive(Clone, Copy)]
struct At<'a> {
    name: &'a str,
    path: &'a [i32],
}

impl Check<'_> {
    fn file(&mut self) -> Result<(), Error> {
        let file = self.file;
        let package = file.package();
        let at = At {
            name: "",
            path: &[],
        };
        match file.syntax() {
            "" | "proto2" | "proto3" => {}
            "editions" => {
                let message =
                    "editions are not supported; use `syntax = \"proto3\";` or \"proto2\"";
                return Err(self.fault(at, message));
            }
            other => {
                return Err(self.fault(
                    at,
                    &format!("syntax \"{other}\" is not supported; use \"proto3\" or \"proto2\""),
                ));
            }
        }
        if !package.is_empty() && !package.split('.').all(is_identifier) {
            return Err(self.fault(
                at,
                &format!("`{package}` is not a valid package name; rename it"),
            ));
        }
        self.messages(package, &[path::FILE_MESSAGE], &file.message_type)?;
        self.enums(package, &[path::FILE_ENUM], &file.enum_type)?;
        let extensions = &file.extension;
        self.extensions(package, &[path::FILE_EXTENSION], extensions)
    }

    fn messages(
        &mut self,
        scope: &str,
        path: &[i32],
        messages: &[DescriptorProto],
    ) -> Result<(), Error> {
        for (index, message) in (0_i32..).zip(messages) {
            let path = [path, &[index]].concat();
            let name = join(scope, message.name());
            let at = At {
                name: &name,
                path: &path,
            };
            self.declare(at, message.name())?;
            self.message(at, message)?;
        }
        Ok(())
    }

    fn message(&mut self, at: At<'_>, message: &DescriptorProto) -> Result<(), Error> {
        if is_map_entry(message) {
            self.map_entry(at, message)?;
        }
        let scope = at.name;
        let below = |field: i32| [at.path, &[field]].concat();
        let mut numbers = BTreeSet::new();
        for (index, field) in (0_i32..).zip(&message.field) {
            let path = [at.path, &[path::MESSAGE_FIELD, index]].concat();
            let name = join(scope, field.name());
            let at = At {
                name: &name,
                path: &path,
            };
            self.declare(at, field.name())?;
            self.field(at, field)?;
            if !numbers.insert(field.number()) {
                let number = field.number();
                let message =
                    format!("number {number} belongs to another field already; choose another");
                return Err(self.fault(at, &message));
            }
            if self.kind(field) == Some(Kind::MapEntry) && !is_map_of(field, scope) {
                return Err(self.fault(at, "the entry type of this map belongs to another field; make the set with `protoc`"));
            }
        }
        for (index, oneof) in (0_i32..).zip(&message.oneof_decl) {
            let path = [at.path, &[path::MESSAGE_ONEOF, index]].concat();
            let name = join(scope, oneof.name());
            let at = At {
                name: &name,
                path: &path,
            };
            // Not `declare`, which rejects a name that is declared already: the front end for
            // `.proto` files allows a oneof with the name of a type.
            self.describe(at, oneof.name())?;
        }
        let messages = &message.nested_type;
        self.messages(scope, &below(path::MESSAGE_MESSAGE), messages)?;
        let enums = &message.enum_type;
        self.enums(scope, &below(path::MESSAGE_ENUM), enums)?;
        let extensions = &message.extension;
        self.extensions(scope, &below(path::MESSAGE_EXTENSION), extensions)
    }

    fn enums(
        &mut self,
        scope: &str,
        path: &[i32],
        enums: &[EnumDescriptorProto],
    ) -> Result<(), Error> {
        for (index, item) in (0_i32..).zip(enums) {
            let path = [path, &[index]].concat();
            let name = join(scope, item.name());
            let at = At {
                name: &name,
                path: &path,
            };
            self.declare(at, item.name())?;
            if item.value.is_empty() {
                let message = "this enum has no values; declare one with number 0";
                return Err(self.fault(at, message));
            }
            for (index, value) in (0_i32..).zip(&item.value) {
                let path = [at.path, &[path::ENUM_VALUE, index]].concat();
                let name = join(at.name, value.name());
                let at = At {
                    name: &name,
                    path: &path,
                };
                self.declare(at, value.name())?;
            }
        }
        Ok(())
    }

    fn extensions(
        &mut self,
        scope: &str,
        path: &[i32],
        fields: &[FieldDescriptorProto],
    ) -> Result<(), Error> {
        for (index, field) in (0_i32..).zip(fields) {
            let path = [path, &[index]].concat();
            let name = join(scope, field.name());
            let at = At {
                name: &name,
                path: &path,
            };
            self.declare(at, field.name())?;
            self.field(at, field)?;
            let extendee = field.extendee();
            if self.types.get(&type_name(extendee)) != Some(&Kind::Message) {
                let message = format!(
                    "it extends `{extendee}`, which is not a message of the set; add its file to the set"
                );
                return Err(self.fault(at, &message));
            }
            if self.kind(field) == Some(Kind::MapEntry) {
                let message = "an extension cannot be a map; \
                               make it a repeated message with a key and a value";
                return Err(self.fault(at, message));
            }
        }
        Ok(())
    }

    /// Records a declaration with its comment, and checks that its name is valid and unique.
    fn declare(&mut self, at: At<'_>, name: &str) -> Result<(), Error> {
        self.describe(at, name)?;
        if self.declared.insert(at.name.to_owned()) {
            return Ok(());
        }
        Err(self.fault(at, "it is declared already; rename one of them"))
    }

    fn describe(&mut self, at: At<'_>, name: &str) -> Result<(), Error> {
        if !is_identifier(name) {
            return Err(self.fault(
                at,
                "the name is not an identifier of a-z, A-Z, 0-9 and _; rename it",
            ));
        }
        if let Some(span) = self.spans.get(at.path) {
            let (leading, trailing) = (span.leading_comments(), span.trailing_comments());
            self.comments.add(at.name.to_owned(), leading, trailing);
        }
        Ok(())
    }

    fn field(&self, at: At<'_>, field: &FieldDescriptorProto) -> Result<(), Error> {
        let number = field.number();
        if !FIELD_NUMBERS.contains(&number.into())
            || RESERVED_FIELD_NUMBERS.contains(&number.into())
        {
            let message = format!(
                "a field cannot have number {number}; \
                 choose one of 1 to 536870911 outside of 19000 to 19999"
            );
            return Err(self.fault(at, &message));
        }
        let is_known = match field
            .type_
            .and_then(|proto_type| proto_type.enum_value().ok())
        {
            None => {
                return Err(self.fault(
                    at,
                    "its type is missing or unknown; make the set with `protoc`",
                ));
            }
            Some(ProtoType::TYPE_GROUP) => return Err(self.fault(at, GROUP)),
            Some(ProtoType::TYPE_ENUM) => self.kind(field) == Some(Kind::Enum),
            Some(ProtoType::TYPE_MESSAGE) => {
                matches!(self.kind(field), Some(Kind::Message | Kind::MapEntry))
            }
            Some(_) => field.type_name().is_empty(),
        };
        if is_known {
            return Ok(());
        }
        let message = format!(
            "its type `{}` is not in the set, or is of another kind; make the set with `protoc`",
            field.type_name()
        );
        Err(self.fault(at, &message))
    }

    /// Checks that the message of a map's entries has a key field and a value field.
    fn map_entry(&self, at: At<'_>, entry: &DescriptorProto) -> Result<(), Error> {
        let is_singular = |field: &FieldDescriptorProto| {
            field.label() != Label::LABEL_REPEATED && self.kind(field) != Some(Kind::MapEntry)
        };
        let is_entry = match entry.field.as_slice() {
            [key, value] => {
                let is_key = !matches!(
                    key.type_(),
                    ProtoType::TYPE_FLOAT
                        | ProtoType::TYPE_DOUBLE
                        | ProtoType::TYPE_BYTES
                        | ProtoType::TYPE_ENUM
                        | ProtoType::TYPE_MESSAGE
                        | ProtoType::TYPE_GROUP
                );
                is_key
                    && (key.number(), value.number()) == (1, 2)
                    && is_singular(key)
                    && is_singular(value)
            }
            _ => false,
        };
        if is_entry {
            return Ok(());
        }
        let message = "a map entry needs a key, which is bool, string or an integer, and a value";
        Err(self.fault(at, message))
    }

    /// Returns the kind of a field's type, if the type is a message or an enum of the set.
    fn kind(&self, field: &FieldDescriptorProto) -> Option<Kind> {
        let name = field.type_name().strip_prefix('.')?;
        self.types.get(name).copied()
    }

    fn fault(&self, at: At<'_>, message: &str) -> Error {
        let place = self.spans.get(at.path).and_then(|span| {
            // Line and column in a descriptor start at 0.
            let [line, column, ..] = span.span.as_slice() else {
                return None;
            };
            let from_1 = |number: i32| u32::try_from(number).ok()?.checked_add(1);
            Some((from_1(*line)?, from_1(*column)?))
        });
        Error::Descriptor {
            set: self.set.to_owned(),
            file: self.file.name().to_owned(),
            place: place.filter(|_| !at.path.is_empty()),
            name: at.name.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// Returns whether a map field is repeated and its entry message is declared in `scope`, the
/// message of the field.
fn is_map_of(field: &FieldDescriptorProto, scope: &str) -> bool {
    let entry = field.type_name().rsplit_once('.');
    let parent = entry.map_or("", |(parent, _)| parent.trim_start_matches('.'));
    field.label() == Label::LABEL_REPEATED && parent == scope
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
}
