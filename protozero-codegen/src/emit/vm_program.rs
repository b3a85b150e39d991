//! Emits ProtoVM programs.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{allow_unused, doc, ident};
use crate::schema::VmConstant;

/// Emits a constant with the bytes of a program, and with its text as documentation.
pub(super) fn constant(item: &VmConstant) -> TokenStream {
    let VmConstant {
        ident: name,
        root,
        text,
        bytes,
    } = item;
    let doc = doc(&format!(
        "A serialized ProtoVM program, which applies patches to a state. Both are messages \
         `{root}`.\n\n```text\n{}\n```",
        text.join("\n")
    ));
    let allow = allow_unused(&[]);
    let name = ident(name);
    let bytes = Literal::byte_string(bytes);
    quote! { #doc #allow pub const #name: &[u8] = #bytes; }
}
