//! Emits decoders: a getter for each field, and the enums that oneofs decode to.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use super::{
    Method, allow_unused, doc, doc_with, field_title, ident, literal, many_lines, name_lints,
    named, path, scalar_type, titled,
};
use crate::schema::{Field, Message, Oneof, OneofGetter, OneofMember, Scalar, Shape, Type};

const ERRORS: &str = "\n\n# Errors\n\nIf decoding fails.";

/// The sentence on errors for getters that return an iterator, in place of [`ERRORS`].
const MALFORMED: &str = " An error ends the iterator.";

/// Emits the decoder of a message.
pub(super) fn decoder(message: &Message, at: &[String]) -> TokenStream {
    let name = ident(&message.decoder);
    let title = format!("Decoder of `{}`.", message.proto_name);
    let title = doc_with(&title, &message.comment);
    let allow = allow_unused(at);
    let index = Index::of(message);
    let getters = message.fields.iter().map(|field| {
        let source = match &index {
            Some(index) => Source::Slot(index.slot(field.number)),
            None => Source::Search(quote! { self.decoder }),
        };
        getter(field, &source, at, Place::Inherent)
    });
    let oneofs = index.iter().flat_map(|index| {
        let oneofs = message.oneofs.iter();
        oneofs.map(|oneof| oneof_getter(oneof, index, at))
    });
    let methods = getters.chain(oneofs).map(|method| method.inherent());
    let new_doc = match index {
        Some(_) => "Creates a decoder, and reads the message once to find its fields.",
        None => "Creates a decoder. Each accessor reads the whole message.",
    };
    let new_doc = doc(new_doc);
    // Each slot is one line of `new`.
    let many_lines = many_lines(message.fields.len());
    let (field, new, as_decoder) = match &index {
        Some(index) => index.parts(),
        None => (
            quote! { decoder: ::protozero::Decoder<'a> },
            quote! { Self { decoder: ::protozero::Decoder::new(bytes) } },
            quote! { &self.decoder },
        ),
    };
    quote! {
        #title
        #[derive(Clone, Copy, Debug)]
        #allow
        pub struct #name<'a> {
            #field,
        }

        #allow
        impl<'a> #name<'a> {
            #new_doc
            #many_lines
            #[inline]
            #[must_use]
            pub fn new(bytes: &'a [u8]) -> Self {
                #new
            }

            #(#methods)*

            /// Iterates over all fields in the order of the bytes, also unknown ones.
            #[inline]
            #[must_use]
            pub fn fields(&self) -> ::protozero::Fields<'a> {
                self.as_decoder().fields()
            }

            /// Returns the untyped decoder, for unknown fields.
            #[inline]
            #[must_use]
            pub fn as_decoder(&self) -> &::protozero::Decoder<'a> {
                #as_decoder
            }
        }
    }
}

/// The slots of a message's fields; see `protozero::IndexedMessage`.
struct Index {
    /// The field number of each slot, singular fields first.
    numbers: Vec<u32>,
    singular: usize,
}

impl Index {
    /// Returns the slots of a message, or `None` for a message without singular fields. Iterators
    /// read such a message in one pass. An example is a trace, which may be too large to read
    /// twice.
    fn of(message: &Message) -> Option<Self> {
        let is_singular = |field: &&Field| matches!(field.shape, Shape::Singular(_));
        let (singular, repeated): (Vec<&Field>, Vec<&Field>) =
            message.fields.iter().partition(is_singular);
        let numbers = singular.iter().chain(&repeated);
        (!singular.is_empty()).then(|| Self {
            numbers: numbers.map(|field| field.number).collect(),
            singular: singular.len(),
        })
    }

    fn slot(&self, number: u32) -> usize {
        let mut numbers = self.numbers.iter();
        let slot = numbers.position(|it| *it == number);
        slot.expect("a field of the message")
    }

    /// Returns the field of the decoder's struct, the body of `new`, and the body of `as_decoder`.
    fn parts(&self) -> (TokenStream, TokenStream, TokenStream) {
        let slots = Literal::usize_unsuffixed(self.numbers.len());
        let singular = Literal::usize_unsuffixed(self.singular);
        let arms = self.numbers.iter().enumerate().map(|(slot, number)| {
            let (number, slot) = (literal(*number), Literal::usize_unsuffixed(slot));
            quote! { #number => #slot, }
        });
        (
            quote! { message: ::protozero::IndexedMessage<'a, #slots> },
            quote! {
                let slot_of = |number| match number { #(#arms)* _ => #slots };
                Self { message: ::protozero::IndexedMessage::new(bytes, #singular, slot_of) }
            },
            quote! { self.message.decoder() },
        )
    }
}

/// The way in which a getter finds its field.
pub(super) enum Source {
    /// A scan of the message. The expression returns a `Decoder`, or a reference to one.
    Search(TokenStream),
    /// A lookup of this slot in the index.
    Slot(usize),
}

impl Source {
    fn last(&self, marker: &TokenStream, number: u32) -> TokenStream {
        match self {
            Self::Search(decoder) => {
                let number = literal(number);
                quote! { #decoder.last::<#marker>(#number) }
            }
            Self::Slot(slot) => {
                let slot = Literal::usize_unsuffixed(*slot);
                quote! { self.message.last::<#marker>(#slot) }
            }
        }
    }

    fn repeated(&self, marker: &TokenStream, number: u32) -> TokenStream {
        let number = literal(number);
        match self {
            Self::Search(decoder) => quote! { #decoder.repeated::<#marker>(#number) },
            Self::Slot(slot) => {
                let slot = Literal::usize_unsuffixed(*slot);
                quote! { self.message.repeated::<#marker>(#slot, #number) }
            }
        }
    }
}

/// The place of a getter. It decides how the return type names the lifetime of an iterator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Inherent,
    Trait,
}

/// Emits the getter of a field.
pub(super) fn getter(field: &Field, source: &Source, at: &[String], place: Place) -> Method {
    let getter = ident(&field.getter);
    let number = field.number;
    let title = field_title(field);
    let oneof = match &field.oneof {
        Some(oneof) => format!(", a member of oneof `{oneof}`. Other members are ignored"),
        None => String::new(),
    };
    let (what, returned, body, is_iterator_type) = match &field.shape {
        Shape::Singular(value) => {
            let value_type = value_type(value, at);
            let marker = marker(value);
            let convert =
                convert(value, at).map(|convert| quote! { .map(|value| value.map(#convert)) });
            let last = source.last(&marker, number);
            let body = quote! { #last #convert };
            let returned = quote! {
                ::core::result::Result<
                    ::core::option::Option<#value_type>,
                    ::protozero::DecodeError,
                >
            };
            ("Returns the last value of", returned, body, false)
        }
        Shape::Repeated(value) | Shape::Packed(value) => {
            let marker = marker(value);
            let repeated = source.repeated(&marker, number);
            match convert(value, at) {
                Some(convert) => {
                    let returned = iterator(&value_type(value, at), place);
                    let body = quote! { #repeated.map(|value| value.map(#convert)) };
                    ("Returns the elements of", returned, body, false)
                }
                None => {
                    let returned = quote! { ::protozero::Repeated<'a, #marker> };
                    ("Returns the elements of", returned, repeated, true)
                }
            }
        }
        Shape::Map { key, value } => {
            let (key_type, value_type) =
                (scalar_type(*key, &quote! { &'a }), value_type(value, at));
            let returned = iterator(&quote! { (#key_type, #value_type) }, place);
            let (key, value_marker) = (scalar_marker(*key), marker(value));
            // A missing value is the default of its type: of an enum, that is its first value.
            let value = match (convert(value, at), value) {
                (Some(convert), Type::Enum { .. }) => quote! { .map(#convert).unwrap_or_default() },
                (Some(convert), _) => quote! { .map(#convert).unwrap_or_else(|| #convert(&[])) },
                (None, _) => quote! { .unwrap_or_default() },
            };
            let entries = source.repeated(&scalar_marker(Scalar::Bytes), number);
            let body = quote! {
                #entries.map(|entry| {
                    let entry = ::protozero::Decoder::new(entry?);
                    let key = entry.last::<#key>(1)?.unwrap_or_default();
                    let value = entry.last::<#value_marker>(2)? #value;
                    ::core::result::Result::Ok((key, value))
                })
            };
            ("Returns the entries of", returned, body, false)
        }
    };
    let is_singular = matches!(field.shape, Shape::Singular(_));
    let must_use = is_iterator_type.then(|| quote! { #[must_use] });
    let lints = name_lints(&field.getter);
    Method {
        doc: if is_singular {
            titled(&format!("{what} field {title}{oneof}."), &field.comment) + ERRORS
        } else {
            titled(&format!("{what} field {title}.{MALFORMED}"), &field.comment)
        },
        attributes: quote! { #lints #must_use },
        signature: quote! { fn #getter(&self) -> #returned },
        body,
    }
}

/// Returns the type of an iterator over decoded values.
fn iterator(item: &TokenStream, place: Place) -> TokenStream {
    let iterator = quote! {
        impl ::core::iter::Iterator<
            Item = ::core::result::Result<#item, ::protozero::DecodeError>,
        >
    };
    match place {
        Place::Inherent => quote! { #iterator + use<'a> },
        Place::Trait => iterator,
    }
}

/// Emits the getter of a oneof, which returns the member that is set.
fn oneof_getter(oneof: &OneofGetter, index: &Index, at: &[String]) -> Method {
    let getter = ident(&oneof.getter);
    let enum_path = path(&oneof.path, at);
    let lifetime = oneof.borrows().then(|| quote! { <'a> });
    let arms = oneof.members.iter().map(|member| {
        let number = literal(member.number);
        let variant = ident(&member.variant);
        let marker = marker(&member.value_type);
        let decoded = quote! {
            <#marker as ::protozero::types::FieldType>::from_field(field)?
        };
        let decoded = match convert(&member.value_type, at) {
            Some(convert) => quote! { #convert(#decoded) },
            None => decoded,
        };
        quote! { #number => #enum_path::#variant(#decoded), }
    });
    let slots = oneof.members.iter().map(|member| {
        let slot = index.slot(member.number);
        Literal::usize_unsuffixed(slot)
    });
    Method {
        doc: titled(
            &format!(
                "Returns the member of oneof `{}` that was written last.",
                oneof.proto_name
            ),
            &oneof.comment,
        ) + ERRORS,
        attributes: {
            // An arm has up to ten lines.
            let many_lines = many_lines(oneof.members.len() * 10);
            let lints = name_lints(&oneof.getter);
            quote! { #lints #many_lines }
        },
        signature: quote! {
            fn #getter(&self) -> ::core::result::Result<
                ::core::option::Option<#enum_path #lifetime>,
                ::protozero::DecodeError,
            >
        },
        body: quote! {
            let ::core::option::Option::Some(field) = self.message.last_of([#(#slots),*])? else {
                return ::core::result::Result::Ok(::core::option::Option::None);
            };
            ::core::result::Result::Ok(::core::option::Option::Some(match field.number {
                #(#arms)*
                _ => return ::core::result::Result::Ok(::core::option::Option::None),
            }))
        },
    }
}

/// Emits the enum that a oneof decodes to.
pub(super) fn oneof(oneof: &Oneof, at: &[String]) -> TokenStream {
    let name = ident(&oneof.ident);
    let title = format!("The member of oneof `{}` that is set.", oneof.proto_name);
    let title = doc_with(&title, &oneof.comment);
    let allow = allow_unused(at);
    let lifetime = oneof.borrows().then(|| quote! { <'a> });
    let variants = oneof.members.iter().map(|member| {
        let OneofMember {
            proto_name,
            number,
            variant,
            value_type: value,
            comment,
        } = member;
        let title = format!("Field `{proto_name}` ({number}, {}).", named(value));
        let title = doc_with(&title, comment);
        let variant = ident(variant);
        let value_type = value_type(value, at);
        quote! { #title #variant(#value_type), }
    });
    quote! {
        #title
        #[derive(Clone, Copy, Debug)]
        #allow
        // Members are often called after their oneof; the names are the schema's choice.
        #[allow(clippy::enum_variant_names)]
        pub enum #name #lifetime { #(#variants)* }
    }
}

/// Returns the runtime's marker type that decodes a value.
fn marker(value: &Type) -> TokenStream {
    scalar_marker(match value {
        Type::Scalar(scalar) => *scalar,
        Type::Enum { .. } => Scalar::Int32,
        Type::Message { .. } => Scalar::Bytes,
    })
}

fn scalar_marker(scalar: Scalar) -> TokenStream {
    let marker = format_ident!("{}", scalar.marker());
    quote! { ::protozero::types::#marker }
}

/// Returns the function that converts a value of the runtime to the getter's type, if they differ.
fn convert(value: &Type, at: &[String]) -> Option<TokenStream> {
    match value {
        Type::Scalar(_) => None,
        Type::Enum { path: item, .. } => Some(path(item, at)),
        Type::Message { decoder, .. } => {
            let decoder = path(decoder, at);
            Some(quote! { #decoder::new })
        }
    }
}

fn value_type(value: &Type, at: &[String]) -> TokenStream {
    match value {
        Type::Scalar(scalar) => scalar_type(*scalar, &quote! { &'a }),
        Type::Enum { path: item, .. } => path(item, at),
        Type::Message { decoder, .. } => {
            let decoder = path(decoder, at);
            quote! { #decoder<'a> }
        }
    }
}
