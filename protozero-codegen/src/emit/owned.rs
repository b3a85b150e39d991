//! Emits owned structs, and the enums of their oneofs. The generated code only says which member
//! holds which field; the runtime (`protozero::owned`) decodes and encodes the members.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};

use super::{allow_unused, doc_with, field_title, ident, literal, many_lines, path, scalar_type};
use crate::schema::{
    DefaultValue, OwnedCase, OwnedField, OwnedMember, OwnedMessage, OwnedOneof, OwnedShape,
    OwnedType, Path, Scalar,
};

/// Emits the struct of a message.
pub(super) fn message(message: &OwnedMessage, at: &[String]) -> TokenStream {
    let name = ident(&message.ident);
    let title = format!("`{}` as a plain Rust value.", message.proto_name);
    let title = doc_with(&title, &message.comment);
    let allow = allow_unused(at);
    let writer = path(&message.writer, at);
    let members = message.members.iter().map(|it| declaration(it, at));
    let unknown_fields = ident(&message.unknown_fields);
    let merge = merge(message, at);
    let encode = encode(message, at);
    let many_lines = many_lines(message.members.len() * 2);
    let accessors: Vec<TokenStream> = message
        .members
        .iter()
        .filter_map(|member| match member {
            OwnedMember::Field(field) => accessor(field, at),
            OwnedMember::Oneof { .. } => None,
        })
        .collect();
    let accessors = (!accessors.is_empty()).then(|| {
        quote! {
            #allow
            impl #name { #(#accessors)* }
        }
    });
    quote! {
        #title
        #[derive(Clone, Debug, Default, PartialEq)]
        #allow
        pub struct #name {
            #(#members)*
            /// The fields that the schema does not have, extensions included.
            pub #unknown_fields: ::protozero::owned::UnknownFields,
        }

        #accessors

        impl ::protozero::OwnedMessage for #name {
            type Writer<'w> = #writer<'w>;

            // Inline, so that a crate compiles only the messages that it uses, not the whole
            // schema.

            #many_lines
            #[inline]
            fn merge_field(
                &mut self,
                field: &::protozero::owned::EncodedField<'_>,
            ) -> ::core::result::Result<(), ::protozero::DecodeError> {
                #merge
            }

            #many_lines
            #[inline]
            fn encode_fields(&self, fields: &mut ::protozero::owned::FieldEncoder) {
                #encode
                fields.unknown(&self.#unknown_fields);
            }

            #[inline]
            fn encode(&self, writer: &mut #writer<'_>) {
                let bytes = ::protozero::OwnedMessage::encode_to_vec(self);
                writer.as_message_mut().append_raw(&bytes);
            }
        }
    }
}

/// Emits the enum of a oneof in a struct.
pub(super) fn oneof(oneof: &OwnedOneof, at: &[String]) -> TokenStream {
    let name = ident(&oneof.ident);
    let title = format!(
        "The member of oneof `{}` that is set, as a plain Rust value.",
        oneof.proto_name
    );
    let title = doc_with(&title, &oneof.comment);
    let allow = allow_unused(at);
    let variants = oneof.cases.iter().map(|case| {
        let title = format!("Field {}.", field_title(&case.field));
        let title = doc_with(&title, &case.field.comment);
        let variant = ident(&case.variant);
        let value_type = value_type(&case.value_type, at);
        quote! { #title #variant(#value_type), }
    });
    quote! {
        #title
        #[derive(Clone, Debug, PartialEq)]
        // The schema chooses names and sizes.
        #[allow(clippy::enum_variant_names, clippy::large_enum_variant)]
        #allow
        pub enum #name { #(#variants)* }
    }
}

/// Emits the declaration of a member.
fn declaration(member: &OwnedMember, at: &[String]) -> TokenStream {
    match member {
        OwnedMember::Field(owned) => {
            let OwnedField { field, shape, .. } = &**owned;
            let title = format!("Field {}.", field_title(field));
            let title = doc_with(&title, &field.comment);
            let name = ident(&field.getter);
            let member_type = member_type(shape, at);
            quote! { #title pub #name: #member_type, }
        }
        OwnedMember::Oneof {
            proto_name,
            comment,
            name,
            path: item,
            ..
        } => {
            let title = doc_with(&format!("Oneof `{proto_name}`."), comment);
            let name = ident(name);
            let item = path(item, at);
            quote! { #title pub #name: ::core::option::Option<#item>, }
        }
    }
}

fn member_type(shape: &OwnedShape, at: &[String]) -> TokenStream {
    match shape {
        OwnedShape::Implicit(value) => value_type(value, at),
        OwnedShape::Optional(value) => {
            let value = value_type(value, at);
            quote! { ::core::option::Option<#value> }
        }
        OwnedShape::Repeated(value) | OwnedShape::Packed(value) => {
            let value = value_type(value, at);
            quote! { ::protozero::owned::heap::Vec<#value> }
        }
        OwnedShape::Map { key, value } => {
            let key = value_type(&OwnedType::Scalar(*key), at);
            let value = value_type(value, at);
            quote! { ::protozero::owned::heap::BTreeMap<#key, #value> }
        }
    }
}

/// Returns the Rust type that owns a value.
fn value_type(value: &OwnedType, at: &[String]) -> TokenStream {
    match value {
        OwnedType::Scalar(Scalar::String) => quote! { ::protozero::owned::heap::String },
        OwnedType::Scalar(Scalar::Bytes) => quote! { ::protozero::owned::heap::Vec<u8> },
        OwnedType::Scalar(scalar) => scalar_type(*scalar, &TokenStream::new()),
        OwnedType::Enum(item) => path(item, at),
        OwnedType::Message {
            path: item,
            is_boxed,
        } => {
            let item = path(item, at);
            match is_boxed {
                true => quote! { ::protozero::owned::heap::Box<#item> },
                false => item,
            }
        }
    }
}

/// Returns the runtime's marker type that decodes and encodes a value.
fn marker(value: &OwnedType, at: &[String]) -> TokenStream {
    match value {
        OwnedType::Scalar(scalar) => {
            let marker = format_ident!("{}", scalar.marker());
            quote! { ::protozero::types::#marker }
        }
        OwnedType::Enum(item) => {
            let item = path(item, at);
            quote! { ::protozero::owned::Enum<#item> }
        }
        OwnedType::Message { .. } => {
            let item = value_type(value, at);
            quote! { ::protozero::owned::Nested<#item> }
        }
    }
}

/// Emits the body of `merge_field`, which merges a field into its member.
fn merge(message: &OwnedMessage, at: &[String]) -> TokenStream {
    let unknown_fields = ident(&message.unknown_fields);
    let keep = quote! { field.keep(&mut self.#unknown_fields) };
    let arms: Vec<TokenStream> = message
        .members
        .iter()
        .flat_map(|member| match member {
            OwnedMember::Field(field) => vec![merge_arm(field, at)],
            OwnedMember::Oneof {
                name, path, cases, ..
            } => {
                let is_only = cases.len() == 1;
                let arm = |case| merge_case_arm(name, path, case, is_only, at);
                cases.iter().map(arm).collect()
            }
        })
        .collect();
    if arms.is_empty() {
        return keep;
    }
    quote! {
        match field.number() {
            #(#arms)*
            _ => #keep,
        }
    }
}

fn merge_arm(OwnedField { field, shape, .. }: &OwnedField, at: &[String]) -> TokenStream {
    let (method, markers) = method(shape, at);
    let number = literal(field.number);
    let member = ident(&field.getter);
    let method = match shape {
        // The runtime's `repeated` also decodes packed elements.
        OwnedShape::Packed(_) => format_ident!("repeated"),
        _ => method,
    };
    quote! { #number => field.#method::<#markers>(&mut self.#member), }
}

fn merge_case_arm(
    oneof: &str,
    item: &Path,
    case: &OwnedCase,
    is_only: bool,
    at: &[String],
) -> TokenStream {
    let number = literal(case.field.number);
    let member = ident(oneof);
    let marker = marker(&case.value_type, at);
    let item = path(item, at);
    let variant = ident(&case.variant);
    let others = (!is_only).then(|| quote! { _ => ::core::option::Option::None, });
    quote! {
        #number => field.oneof::<#marker, _>(
            &mut self.#member,
            #item::#variant,
            |case| match case {
                #item::#variant(value) => ::core::option::Option::Some(value),
                #others
            },
        ),
    }
}

/// Emits the statements that append all members, in the order of the field numbers.
fn encode(message: &OwnedMessage, at: &[String]) -> TokenStream {
    let mut statements: Vec<(u32, TokenStream)> = Vec::new();
    for member in &message.members {
        match member {
            OwnedMember::Field(owned) => {
                let OwnedField { field, shape, .. } = &**owned;
                let (method, markers) = method(shape, at);
                let number = literal(field.number);
                let name = ident(&field.getter);
                statements.push((
                    field.number,
                    quote! { fields.#method::<#markers>(#number, &self.#name); },
                ));
            }
            OwnedMember::Oneof {
                name,
                path: item,
                cases,
                ..
            } => {
                let item = path(item, at);
                let name = ident(name);
                statements.extend(cases.iter().map(|case| {
                    let number = literal(case.field.number);
                    let variant = ident(&case.variant);
                    let marker = marker(&case.value_type, at);
                    let statement = quote! {
                        if let ::core::option::Option::Some(#item::#variant(value)) = &self.#name {
                            fields.value::<#marker>(#number, value);
                        }
                    };
                    (case.field.number, statement)
                }));
            }
        }
    }
    statements.sort_by_key(|(number, _)| *number);
    statements
        .into_iter()
        .map(|(_, statement)| statement)
        .collect()
}

/// Returns the runtime's method for a kind of member, with its type arguments.
fn method(shape: &OwnedShape, at: &[String]) -> (Ident, TokenStream) {
    let (method, markers) = match shape {
        OwnedShape::Implicit(value) => ("implicit", marker(value, at)),
        OwnedShape::Optional(value) => ("optional", marker(value, at)),
        OwnedShape::Repeated(value) => ("repeated", marker(value, at)),
        OwnedShape::Packed(value) => ("packed", marker(value, at)),
        OwnedShape::Map { key, value } => {
            let key = marker(&OwnedType::Scalar(*key), at);
            let value = marker(value, at);
            ("map", quote! { #key, #value })
        }
    };
    (format_ident!("{method}"), markers)
}

/// Emits the method that returns a member, or the default that the schema declares.
fn accessor(owned: &OwnedField, at: &[String]) -> Option<TokenStream> {
    let OwnedField {
        field,
        shape,
        default,
    } = owned;
    let default = default.as_ref()?;
    let member = ident(&field.getter);
    let plain = field.getter.strip_prefix("r#").unwrap_or(&field.getter);
    let name = format_ident!("{plain}_or_default");
    let value_type = match shape {
        OwnedShape::Optional(value) => value_type(value, at),
        _ => unreachable!("only optional fields have a default"),
    };
    let default_value = match default {
        DefaultValue::Integer(value) => {
            let value = literal(*value);
            quote! { #value }
        }
        DefaultValue::Float(value) => {
            float(*value, || Literal::f32_unsuffixed(value.abs()), &value_type)
        }
        DefaultValue::Double(value) => {
            float(*value, || Literal::f64_unsuffixed(value.abs()), &value_type)
        }
        DefaultValue::Bool(value) => quote! { #value },
        DefaultValue::String(text) => quote! { #text },
        DefaultValue::Bytes(bytes) => {
            let value = Literal::byte_string(bytes);
            quote! { #value }
        }
        DefaultValue::Enum(number) => {
            let number = literal(*number);
            quote! { #value_type(#number) }
        }
    };
    let (returned, body) = match default {
        DefaultValue::String(_) => (
            quote! { &str },
            quote! { self.#member.as_deref().unwrap_or(#default_value) },
        ),
        DefaultValue::Bytes(_) => (
            quote! { &[u8] },
            quote! { self.#member.as_deref().unwrap_or(#default_value) },
        ),
        _ => (
            value_type,
            quote! { self.#member.unwrap_or(#default_value) },
        ),
    };
    let title = format!(
        "Returns field {}, or its default in the schema if it is not set.",
        field_title(field)
    );
    let title = doc_with(&title, &field.comment);
    Some(quote! {
        #title
        #[must_use]
        pub fn #name(&self) -> #returned {
            #body
        }
    })
}

/// Emits the expression of a number, which may be infinite or NaN.
fn float<T: Into<f64> + Copy>(
    value: T,
    magnitude: impl FnOnce() -> Literal,
    value_type: &TokenStream,
) -> TokenStream {
    let number: f64 = value.into();
    if number.is_nan() {
        return quote! { #value_type::NAN };
    }
    let magnitude = match number.is_infinite() {
        true => quote! { #value_type::INFINITY },
        false => magnitude().to_token_stream(),
    };
    match number.is_sign_negative() {
        true => quote! { -#magnitude },
        false => magnitude,
    }
}
