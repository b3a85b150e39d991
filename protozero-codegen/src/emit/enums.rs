//! Emits enums. They are open: a value may have a number that the schema does not know.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::quote;

use super::{allow_unused, doc_with, ident, literal, many_lines};
use crate::schema::Enum;

/// Emits a newtype with a constant for each value.
///
/// Its functions are inline, like all generated functions. So the compiler makes machine code only
/// of functions that a program calls. Otherwise the value names of a large schema would cost every
/// user seconds of compile time.
pub(super) fn open_enum(item: &Enum, at: &[String]) -> TokenStream {
    let name = ident(&item.ident);
    let title = format!(
        "Enum `{}`; it may hold numbers without a name.",
        item.proto_name
    );
    let title = doc_with(&title, &item.comment);
    let allow = allow_unused(at);
    let constants = item.values.iter().map(|value| {
        let constant = ident(&value.constant);
        let number = literal(value.number);
        let title = format!("`{}` ({}).", value.proto_name, value.number);
        let title = doc_with(&title, &value.comment);
        quote! { #title pub const #constant: Self = Self(#number); }
    });
    let mut named = BTreeSet::new();
    let arms = item
        .values
        .iter()
        .filter(|value| named.insert(value.number))
        .map(|value| {
            let number = literal(value.number);
            let proto_name = &value.proto_name;
            quote! { #number => ::core::option::Option::Some(#proto_name), }
        });
    let many_lines = many_lines(item.values.len());
    // The default of an enum is its first value, which is always 0 in proto3.
    let first = item.values.first().filter(|first| first.number != 0);
    let derive_default = first.is_none().then(|| quote! { , Default });
    let default = first.map(|first| {
        let constant = ident(&first.constant);
        quote! {
            impl ::core::default::Default for #name {
                #[inline]
                fn default() -> Self {
                    Self::#constant
                }
            }
        }
    });
    quote! {
        #title
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash #derive_default)]
        #allow
        pub struct #name(pub i32);

        #allow
        impl #name {
            #(#constants)*

            /// Returns the name in the schema. If several values share the number, this is the first name.
            #many_lines
            #[inline]
            #[must_use]
            pub fn name(self) -> ::core::option::Option<&'static str> {
                match self.0 {
                    #(#arms)*
                    _ => ::core::option::Option::None,
                }
            }
        }

        #default

        impl ::core::fmt::Debug for #name {
            #[inline]
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self.name() {
                    ::core::option::Option::Some(name) => f.write_str(name),
                    ::core::option::Option::None => ::core::fmt::Debug::fmt(&self.0, f),
                }
            }
        }

        impl ::core::convert::From<i32> for #name {
            #[inline]
            fn from(number: i32) -> Self {
                Self(number)
            }
        }

        impl ::core::convert::From<#name> for i32 {
            #[inline]
            fn from(value: #name) -> Self {
                value.0
            }
        }
    }
}
