//! The members of the struct of a message.

use protobuf::descriptor::{FieldDescriptorProto, FileDescriptorProto};

use super::defaults;
use super::places::{Place, Places};
use super::sizes::Sizes;
use crate::error::Error;
use crate::names::Taken;
use crate::registry::{Entry, Registry, join};
use crate::schema::{
    DefaultValue, Field, Message, Module, OneofGetter, OwnedCase, OwnedField, OwnedMember,
    OwnedMessage, OwnedOneof, OwnedShape, OwnedType, Path, Shape, Type,
};

/// The name of the member for fields that the schema does not know.
const UNKNOWN_FIELDS: &str = "unknown_fields";

/// A builder of the structs of one unit.
pub(super) struct Builder<'a> {
    registry: &'a Registry<'a>,
    files: &'a [FileDescriptorProto],
    places: Places<'a>,
    sizes: Sizes<'a>,
}

/// A struct with the enums of its oneofs, and its place.
pub(super) struct Built {
    place: Place,
    message: OwnedMessage,
    oneofs: Vec<OwnedOneof>,
}

impl Built {
    pub(super) fn add_to(self, root: &mut Module) {
        if !self.oneofs.is_empty() {
            let module = self.place.inner_module(root);
            module.owned_oneofs.extend(self.oneofs);
        }
        let module = self.place.module(root);
        module.owned_messages.push(self.message);
    }
}

impl<'a> Builder<'a> {
    /// Creates a builder for a unit that has no structs yet.
    pub(super) fn new(
        registry: &'a Registry<'a>,
        files: &'a [FileDescriptorProto],
        root: &'a Module,
    ) -> Self {
        Builder {
            registry,
            files,
            places: Places { registry, root },
            sizes: Sizes::new(registry),
        }
    }

    /// Builds the struct of a message whose writer is in `module`.
    pub(super) fn build(&self, module: &[String], message: &Message) -> Result<Built, Error> {
        let entry = self.registry.entry(&message.proto_name);
        let place = self.places.of(module, &message.proto_name);
        let mut members = Vec::new();
        let mut oneofs = Vec::new();
        let mut taken = Taken::default();
        for field in &message.fields {
            let mut of_message = message.oneofs.iter().zip(&entry.oneofs);
            let of_field = of_message.find(|(it, _)| field.oneof.as_ref() == Some(&it.proto_name));
            let Some((oneof, names)) = of_field else {
                taken.claim(&field.getter);
                members.push(self.field_member(message, field)?);
                continue;
            };
            // The member of a oneof is at the position of its first field.
            if oneof.members[0].number != field.number {
                continue;
            }
            let cases = self.cases(message, oneof)?;
            oneofs.push(OwnedOneof {
                proto_name: join(&message.proto_name, &oneof.proto_name),
                comment: oneof.comment.clone(),
                ident: names.ident.clone(),
                cases: cases.clone(),
            });
            taken.claim(&oneof.getter);
            members.push(OwnedMember::Oneof {
                proto_name: oneof.proto_name.clone(),
                comment: oneof.comment.clone(),
                name: oneof.getter.clone(),
                path: Path::Local {
                    module: place.inner_path(),
                    ident: names.ident.clone(),
                },
                cases,
            });
        }
        Ok(Built {
            place,
            message: OwnedMessage {
                proto_name: message.proto_name.clone(),
                comment: message.comment.clone(),
                ident: message.writer.clone(),
                writer: Path::Local {
                    module: module.to_vec(),
                    ident: message.writer.clone(),
                },
                members,
                unknown_fields: taken.claim(UNKNOWN_FIELDS),
            },
            oneofs,
        })
    }

    fn field_member(&self, message: &Message, field: &Field) -> Result<OwnedMember, Error> {
        let entry = self.registry.entry(&message.proto_name);
        let descriptor = descriptor(entry, field.number);
        let in_heap = |value| self.owned_type(value, false);
        let shape = match &field.shape {
            Shape::Singular(value) => {
                let owned = self.singular_type(message, value)?;
                let is_implicit = entry.is_proto3 && !descriptor.proto3_optional();
                match value {
                    Type::Scalar(_) | Type::Enum { .. } if is_implicit => {
                        OwnedShape::Implicit(owned)
                    }
                    _ => OwnedShape::Optional(owned),
                }
            }
            Shape::Repeated(value) => OwnedShape::Repeated(in_heap(value)?),
            Shape::Packed(value) => OwnedShape::Packed(in_heap(value)?),
            Shape::Map { key, value } => OwnedShape::Map {
                key: *key,
                value: in_heap(value)?,
            },
        };
        Ok(OwnedMember::Field(Box::new(OwnedField {
            field: field.clone(),
            shape,
            default: self.default_value(message, field, descriptor)?,
        })))
    }

    fn cases(&self, message: &Message, oneof: &OneofGetter) -> Result<Vec<OwnedCase>, Error> {
        let cases = oneof.members.iter().map(|member| {
            let field = message
                .fields
                .iter()
                .find(|field| field.number == member.number)
                .expect("a oneof's members are fields of the message");
            Ok(OwnedCase {
                field: field.clone(),
                variant: member.variant.clone(),
                value_type: self.singular_type(message, &member.value_type)?,
            })
        });
        cases.collect()
    }

    /// Returns the type of a singular member, which may be boxed.
    fn singular_type(&self, message: &Message, value: &Type) -> Result<OwnedType, Error> {
        let is_boxed = match value {
            Type::Message { proto_name, .. } => {
                self.sizes.is_boxed(&message.proto_name, proto_name)
            }
            Type::Scalar(_) | Type::Enum { .. } => false,
        };
        self.owned_type(value, is_boxed)
    }

    fn owned_type(&self, value: &Type, is_boxed: bool) -> Result<OwnedType, Error> {
        Ok(match value {
            Type::Scalar(scalar) => OwnedType::Scalar(*scalar),
            Type::Enum { path, .. } => OwnedType::Enum(path.clone()),
            Type::Message {
                proto_name, writer, ..
            } => OwnedType::Message {
                path: self.places.owned_path(writer, proto_name)?,
                is_boxed,
            },
        })
    }

    /// Returns the default that the schema declares explicitly, if there is one.
    fn default_value(
        &self,
        message: &Message,
        field: &Field,
        descriptor: &FieldDescriptorProto,
    ) -> Result<Option<DefaultValue>, Error> {
        let (Some(text), Shape::Singular(value)) = (&descriptor.default_value, &field.shape) else {
            return Ok(None);
        };
        let parsed = defaults::parse(text, value, self.files);
        let wrong = || Error::DefaultValue {
            field: join(&message.proto_name, &field.proto_name),
            proto_type: value.proto_name().to_owned(),
            value: text.clone(),
        };
        parsed.ok_or_else(wrong).map(Some)
    }
}

fn descriptor<'a>(entry: &Entry<'a>, number: u32) -> &'a FieldDescriptorProto {
    let fields = entry.message().map_or(&[][..], |message| &message.field);
    fields
        .iter()
        .find(|field| u32::try_from(field.number()) == Ok(number))
        .expect("the model's fields are those of the descriptor")
}
