//! The options of the attribute `trace`: category, name, arguments, result, error, and the
//! library's path.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, LitStr, Path, Result, Token, parenthesized, parse_quote};

/// The options that the attribute has.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) category: Option<LitStr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) args: Option<Punctuated<Arg, Token![,]>>,
    /// The argument that records the returned value at the span's end.
    pub(crate) result: Option<EndArg>,
    /// The argument that records a returned error at the span's end.
    pub(crate) error: Option<EndArg>,
    library: Option<TokenStream>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        if input.peek(LitStr) {
            options.category = Some(input.parse()?);
            if input.is_empty() {
                return Ok(options);
            }
            input.parse::<Token![,]>()?;
        }
        while !input.is_empty() {
            options.parse_option(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    /// Returns the path by which code in the traced function refers to the crate `tracezero`.
    pub(crate) fn library(&self) -> TokenStream {
        let library = self.library.clone();
        library.unwrap_or_else(|| quote!(::tracezero))
    }

    fn parse_option(&mut self, input: ParseStream<'_>) -> Result<()> {
        let unknown = |span| {
            let options = "unknown option; `trace` takes `category = \"..\"`, or only the literal as \
                           its first option, `name = \"..\"`, `args(..)`, `result`, `error` and \
                           `crate = path`";
            Error::new(span, options)
        };
        let format = Format::parse(input)?;
        // `parse_any`, since `crate` is a keyword.
        let key = Ident::parse_any(input).map_err(|error| unknown(error.span()))?;
        let is_first = match key.to_string().as_str() {
            "result" => {
                let result = EndArg::parse(&key, format, input)?;
                self.result.replace(result).is_none()
            }
            "error" => {
                let error = EndArg::parse(&key, format, input)?;
                self.error.replace(error).is_none()
            }
            _ if format.is_some() => return Err(unknown(key.span())),
            "category" => self.category.replace(parse_text(input)?).is_none(),
            "name" => self.name.replace(parse_text(input)?).is_none(),
            "args" => {
                let args;
                parenthesized!(args in input);
                self.args
                    .replace(Punctuated::parse_terminated(&args)?)
                    .is_none()
            }
            "crate" => {
                input.parse::<Token![=]>()?;
                self.library
                    .replace(Path::parse_mod_style(input)?.into_token_stream())
                    .is_none()
            }
            _ => return Err(unknown(key.span())),
        };
        if is_first {
            Ok(())
        } else {
            Err(Error::new(
                key.span(),
                format!("`{key}` is given twice; remove one"),
            ))
        }
    }
}

/// Parses `= "text"`.
fn parse_text(input: ParseStream<'_>) -> Result<LitStr> {
    input.parse::<Token![=]>()?;
    let value: Expr = input.parse()?;
    match syn::parse2(value.to_token_stream()) {
        Ok(text) => Ok(text),
        Err(_) => Err(Error::new_spanned(
            value,
            "categories and names must be string literals; record what varies at run time as an \
             argument",
        )),
    }
}

/// An argument that is added at the span's end: `result` or `error`. The expansion binds the
/// returned value or error to the same name, so that the argument's expression can use it.
pub(crate) struct EndArg {
    pub(crate) name: Ident,
    pub(crate) arg: Arg,
}

impl EndArg {
    /// Parses the rest of the option behind its name: `= value`, `= %value`, `= ?value`, or
    /// nothing.
    fn parse(name: &Ident, format: Option<Format>, input: ParseStream<'_>) -> Result<Self> {
        let (format, value) = if format.is_none() && input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            (Format::parse(input)?, input.parse()?)
        } else {
            (format, parse_quote!(#name))
        };
        let arg = Arg {
            key: Some(Key::Ident(name.clone())),
            format,
            value,
        };
        Ok(Self {
            name: name.clone(),
            arg,
        })
    }
}

/// One argument of the span.
pub(crate) struct Arg {
    /// `None` for the short form, where a variable has the argument's name.
    key: Option<Key>,
    format: Option<Format>,
    value: Expr,
}

enum Key {
    Ident(Ident),
    Text(LitStr),
}

/// The trait that turns the value into text.
enum Format {
    Display(Token![%]),
    Debug(Token![?]),
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let key = if input.peek(LitStr) {
            Some(Key::Text(input.parse()?))
        } else if input.peek(Ident::peek_any) && input.peek2(Token![=]) {
            Some(Key::Ident(input.call(Ident::parse_any)?))
        } else {
            None
        };
        if key.is_some() {
            input.parse::<Token![=]>()?;
        }
        let format = Format::parse(input)?;
        let value: Expr = input.parse()?;
        if key.is_none() && !is_variable(&value) {
            return Err(Error::new_spanned(
                value,
                "an expression needs a name, as in `key = expression`; only a variable names \
                 itself",
            ));
        }
        Ok(Self { key, format, value })
    }
}

impl Format {
    fn parse(input: ParseStream<'_>) -> Result<Option<Self>> {
        Ok(if input.peek(Token![%]) {
            Some(Self::Display(input.parse()?))
        } else if input.peek(Token![?]) {
            Some(Self::Debug(input.parse()?))
        } else {
            None
        })
    }
}

/// Returns whether the expression is a single identifier. Returns false for `self`, which cannot be
/// the name of an argument.
fn is_variable(value: &Expr) -> bool {
    let Expr::Path(path) = value else {
        return false;
    };
    path.path
        .get_ident()
        .is_some_and(|variable| variable != "self")
}

impl ToTokens for Arg {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { key, format, value } = self;
        let key = key.as_ref().map(|key| match key {
            Key::Ident(key) => quote!(#key =),
            Key::Text(key) => quote!(#key =),
        });
        let format = format.as_ref().map(|format| match format {
            Format::Display(sigil) => sigil.to_token_stream(),
            Format::Debug(sigil) => sigil.to_token_stream(),
        });
        tokens.extend(quote!(#key #format #value));
    }
}
