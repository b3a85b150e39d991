//! Emits writers: setters, and two methods for each nested message. One of the two takes a closure,
//! the other returns a guard.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::{
    Method, allow_unused, doc_with, field_title, ident, literal, name_lints, path, scalar_type,
    titled,
};
use crate::names::{constant_prefix, whole};
use crate::schema::{Field, Message, Scalar, Shape, Type};

/// Emits the writer of a message.
pub(super) fn writer(message: &Message, at: &[String]) -> TokenStream {
    let name = ident(&message.writer);
    let proto_name = &message.proto_name;
    let title = doc_with(&format!("Writer of `{proto_name}`."), &message.comment);
    let allow = allow_unused(at);
    let public = quote! { pub };
    let constants = message
        .fields
        .iter()
        .map(|field| number_constant(field, &public));
    let receiver = quote! { self.message };
    let methods = message
        .fields
        .iter()
        .flat_map(|field| methods(field, &receiver, at));
    let methods = methods.map(|method| method.inherent());
    quote! {
        #title
        #[derive(Debug)]
        #allow
        pub struct #name<'w> {
            message: ::protozero::Message<'w>,
        }

        #allow
        impl<'w> #name<'w> {
            #(#constants)*
            #(#methods)*

            /// Returns the untyped message, for unknown fields.
            #[inline]
            pub fn as_message_mut(&mut self) -> &mut ::protozero::Message<'w> {
                &mut self.message
            }
        }

        impl ::protozero::Writer for #name<'_> {
            type At<'w> = #name<'w>;

            const NAME: &'static str = #proto_name;

            #[inline]
            fn from_message(message: ::protozero::Message<'_>) -> #name<'_> {
                #name { message }
            }
        }
    }
}

/// Emits the constant with a field's number.
pub(super) fn number_constant(field: &Field, visibility: &TokenStream) -> TokenStream {
    let name = format_ident!("{}_FIELD_NUMBER", constant_prefix(&field.base));
    let Field {
        number,
        proto_name,
        comment,
        ..
    } = field;
    let number = literal(*number);
    let doc = doc_with(&format!("Number of field `{proto_name}`."), comment);
    quote! { #doc #visibility const #name: u32 = #number; }
}

/// Emits the methods that write a field. `receiver` is an expression of type `Message` or
/// `&mut Message`.
pub(super) fn methods(field: &Field, receiver: &TokenStream, at: &[String]) -> Vec<Method> {
    let writer = FieldWriter {
        field,
        receiver,
        at,
    };
    match &field.shape {
        Shape::Singular(Type::Message { writer: child, .. }) => {
            writer.nested(&path(child, at), &whole(&field.base))
        }
        Shape::Repeated(Type::Message { writer: child, .. }) => {
            writer.nested(&path(child, at), &format!("add_{}", field.base))
        }
        Shape::Singular(value) => vec![writer.setter("set", value)],
        Shape::Repeated(value) => vec![writer.setter("add", value)],
        Shape::Packed(value) => vec![writer.setter("add", value), writer.packed(value)],
        Shape::Map { key, value } => vec![writer.map_entry(*key, value)],
    }
}

struct FieldWriter<'a> {
    field: &'a Field,
    receiver: &'a TokenStream,
    at: &'a [String],
}

impl FieldWriter<'_> {
    fn title(&self, verb: &str) -> String {
        let title = field_title(self.field);
        match &self.field.oneof {
            Some(oneof) => format!("{verb} field {title}, a member of oneof `{oneof}`."),
            None => format!("{verb} field {title}."),
        }
    }

    fn doc(&self, verb: &str) -> String {
        titled(&self.title(verb), &self.field.comment)
    }

    /// Emits a method that appends one value.
    fn setter(&self, verb: &str, value: &Type) -> Method {
        let name = format_ident!("{verb}_{}", self.field.base);
        let value_type = argument_type(value, self.at);
        let append = append(self.receiver, self.field.number, value, &quote! { value });
        let what = match &self.field.shape {
            Shape::Singular(_) => "Appends",
            _ => "Appends one element of",
        };
        Method {
            doc: self.doc(what),
            attributes: TokenStream::new(),
            signature: quote! { fn #name(&mut self, value: #value_type) -> &mut Self },
            body: quote! { #append self },
        }
    }

    /// Emits a method that appends all values as one packed field.
    fn packed(&self, value: &Type) -> Method {
        let FieldWriter {
            field,
            receiver,
            at,
        } = self;
        let name = format_ident!("set_{}", field.base);
        let number = literal(field.number);
        let item = argument_type(value, at);
        let (marker, values) = match value {
            Type::Scalar(scalar) => (scalar.marker(), quote! { values }),
            _ => (
                Scalar::Int32.marker(),
                quote! {
                    ::core::iter::IntoIterator::into_iter(values).map(|value| value.0)
                },
            ),
        };
        let marker = format_ident!("{marker}");
        // `append_packed` needs an iterator that can be cloned, to write the length in its shortest
        // form. For other iterators there is no second setter: users call `Message::begin_packed`.
        Method {
            doc: self.doc("Appends all elements of"),
            attributes: TokenStream::new(),
            signature: quote! {
                fn #name(
                    &mut self,
                    values: impl ::core::iter::IntoIterator<
                        Item = #item,
                        IntoIter: ::core::clone::Clone,
                    >,
                ) -> &mut Self
            },
            body: quote! {
                #receiver.append_packed::<::protozero::types::#marker, #number>(#values);
                self
            },
        }
    }

    /// Emits the methods for a nested message: one takes a closure, the other returns a guard.
    fn nested(&self, child: &TokenStream, closure_name: &str) -> Vec<Method> {
        let FieldWriter {
            field, receiver, ..
        } = self;
        let number = literal(field.number);
        let closure = ident(closure_name);
        let begin = format_ident!("begin_{}", field.base);
        let what = match &field.shape {
            Shape::Singular(_) => "Appends",
            _ => "Appends one element of",
        };
        let begins = match &field.shape {
            Shape::Singular(_) => "Begins",
            _ => "Begins one element of",
        };
        vec![
            Method {
                doc: self.doc(what),
                attributes: name_lints(closure_name),
                signature: quote! {
                    fn #closure<R>(
                        &mut self,
                        write: impl ::core::ops::FnOnce(&mut #child<'_>) -> R,
                    ) -> R
                },
                body: quote! { write(&mut self.#begin()) },
            },
            Method {
                doc: format!(
                    "{}\n\nThe message ends when the returned writer is dropped.",
                    self.doc(begins)
                ),
                attributes: TokenStream::new(),
                signature: quote! { fn #begin(&mut self) -> #child<'_> },
                body: quote! {
                    <#child<'_> as ::protozero::Writer>::from_message(
                        #receiver.begin_nested::<#number>(),
                    )
                },
            },
        ]
    }

    /// Emits a method that appends one map entry.
    fn map_entry(&self, key: Scalar, value: &Type) -> Method {
        let FieldWriter {
            field,
            receiver,
            at,
        } = self;
        let name = format_ident!("add_{}", field.base);
        let number = literal(field.number);
        let key_type = scalar_type(key, &quote! { & });
        let entry = quote! { entry };
        let append_key = append(&entry, 1, &Type::Scalar(key), &quote! { key });
        let (signature, body) = if let Type::Message { writer, .. } = value {
            let child = path(writer, at);
            let signature = quote! {
                fn #name<R>(
                    &mut self,
                    key: #key_type,
                    write: impl ::core::ops::FnOnce(&mut #child<'_>) -> R,
                ) -> R
            };
            let body = quote! {
                let mut entry = #receiver.begin_nested::<#number>();
                #append_key
                let value = entry.begin_nested::<2>();
                write(&mut <#child<'_> as ::protozero::Writer>::from_message(value))
            };
            (signature, body)
        } else {
            let value_type = argument_type(value, at);
            let append_value = append(&entry, 2, value, &quote! { value });
            let signature = quote! {
                fn #name(&mut self, key: #key_type, value: #value_type) -> &mut Self
            };
            let body = quote! {
                {
                    let mut entry = #receiver.begin_nested::<#number>();
                    #append_key
                    #append_value
                }
                self
            };
            (signature, body)
        };
        Method {
            doc: self.doc("Appends one entry of"),
            attributes: TokenStream::new(),
            signature,
            body,
        }
    }
}

/// Emits the statement that appends a scalar or an enum.
fn append(
    receiver: &TokenStream,
    number: u32,
    value: &Type,
    expression: &TokenStream,
) -> TokenStream {
    let number = literal(number);
    let (suffix, expression) = match value {
        Type::Scalar(scalar) => (scalar.proto_name(), quote! { #expression }),
        _ => ("enum", quote! { #expression.0 }),
    };
    let append = format_ident!("append_{suffix}");
    quote! { #receiver.#append::<#number>(#expression); }
}

fn argument_type(value: &Type, at: &[String]) -> TokenStream {
    match value {
        Type::Scalar(scalar) => scalar_type(*scalar, &quote! { & }),
        Type::Enum { path: item, .. } => path(item, at),
        Type::Message { .. } => unreachable!("messages are written in place"),
    }
}
