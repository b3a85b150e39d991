//! Emits extensions: traits that add setters and getters to a message of another scope.

use proc_macro2::TokenStream;
use quote::quote;

use super::decoder::{Place, Source};
use super::{Method, allow_unused, decoder, doc, ident, message, path};
use crate::schema::Extension;

/// Emits the writer trait and the decoder trait for one extended message, with their
/// implementations.
pub(super) fn traits(extension: &Extension, at: &[String]) -> TokenStream {
    let Extension {
        extendee, fields, ..
    } = extension;
    let (writer, reader) = (path(&extension.writer, at), path(&extension.decoder, at));
    let (writer_trait, decoder_trait) = (
        ident(&extension.writer_trait),
        ident(&extension.decoder_trait),
    );
    let writer_title = doc(&format!("Writes extension fields of `{extendee}`."));
    let decoder_title = doc(&format!("Reads extension fields of `{extendee}`."));
    let allow = allow_unused(at);
    let constants = fields
        .iter()
        .map(|field| message::number_constant(field, &TokenStream::new()));

    let receiver = quote! { self.as_message_mut() };
    let setters: Vec<Method> = fields
        .iter()
        .flat_map(|field| message::methods(field, &receiver, at))
        .collect();
    let source = Source::Search(quote! { self.as_decoder() });
    let getters: Vec<Method> = fields
        .iter()
        .map(|field| decoder::getter(field, &source, at, Place::Trait))
        .collect();
    let declared_setters = setters.iter().map(Method::declared);
    let setters = setters.iter().map(Method::implemented);
    let declared_getters = getters.iter().map(Method::declared);
    let getters = getters.iter().map(Method::implemented);
    quote! {
        #writer_title
        #allow
        pub trait #writer_trait {
            #(#constants)*
            #(#declared_setters)*
        }

        impl #writer_trait for #writer<'_> {
            #(#setters)*
        }

        #decoder_title
        #allow
        pub trait #decoder_trait<'a> {
            #(#declared_getters)*
        }

        impl<'a> #decoder_trait<'a> for #reader<'a> {
            #(#getters)*
        }
    }
}
