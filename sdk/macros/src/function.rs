//! The function that the attribute is written on, and what becomes of it.

use std::env;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, LitStr, Result, Signature, Token, Visibility};

use crate::options::Options;

/// A function or method. Its statements stay tokens: nothing has to know them.
pub(crate) struct Function {
    /// Those outside.
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
    /// None for a declaration.
    body: Option<Group>,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let signature = input.parse().map_err(|error: Error| {
            Error::new(error.span(), "`trace` is for functions and methods")
        })?;
        let body = if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            None
        } else {
            Some(input.parse()?)
        };
        Ok(Self {
            attributes,
            visibility,
            signature,
            body,
        })
    }
}

impl Function {
    /// The function with a span around its body.
    pub(crate) fn traced(self, options: Options) -> Result<TokenStream> {
        let Self {
            attributes,
            visibility,
            signature,
            body,
        } = self;
        if let Some(constness) = signature.constness {
            return Err(Error::new_spanned(
                constness,
                "a `const fn` cannot be traced, since the compiler may run it: trace its callers, \
                 or leave out `const`",
            ));
        }
        let Some(body) = body else {
            return Err(Error::new_spanned(
                signature,
                "a method without a body cannot be traced: write the attribute on its \
                 implementations",
            ));
        };
        let span = span(&signature, options);
        let Body {
            attributes: inner_attributes,
            statements,
        } = syn::parse2(body.stream())?;
        // A block of its own: items of the body still come first in theirs. It stands where the body
        // stood, but is not what the user wrote: lints would take its braces for superfluous.
        let mut block = Group::new(Delimiter::Brace, statements);
        block.set_span(Span::mixed_site().located_at(body.span()));
        // Cannot be meant by a name in the body.
        let guard = Ident::new("_span", Span::mixed_site());
        Ok(quote! {
            #(#attributes)*
            #visibility #signature {
                #(#inner_attributes)*
                let #guard = #span;
                #block
            }
        })
    }
}

/// The invocation of `span!`.
fn span(signature: &Signature, options: Options) -> TokenStream {
    let Options {
        category,
        name,
        args,
    } = options;
    let text = |text: &str| LitStr::new(text, Span::call_site());
    let category = category.unwrap_or_else(|| text(&package()));
    let name = name.unwrap_or_else(|| text(&signature.ident.unraw().to_string()));
    let args = args.into_iter().flatten();
    // Where the function is left and entered again, its thread's track is not its own.
    let track = signature
        .asyncness
        .as_ref()
        .map(|_| quote!(track: &::tracezero::Track::unique(#name),));
    quote!(::tracezero::span!(#category, #name, #(#args,)* #track))
}

/// The package that is compiled. Cargo names it; another build system may not.
fn package() -> String {
    env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "app".to_owned())
}

/// What is inside of the braces.
struct Body {
    /// `#![..]`, which must come first.
    attributes: Vec<Attribute>,
    statements: TokenStream,
}

impl Parse for Body {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        Ok(Self {
            attributes: input.call(Attribute::parse_inner)?,
            statements: input.parse()?,
        })
    }
}
