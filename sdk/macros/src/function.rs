//! The function below the attribute `trace`, and its expansion.

use std::env;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, GenericArgument, LitStr, PathArguments, Result, ReturnType, Signature, Token,
    Type, Visibility, parse_quote,
};

use crate::options::{EndArg, Options};

/// A function or method. Its body is not parsed: the expansion copies its tokens.
pub(crate) struct Function {
    /// The attributes in front of the function.
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
    /// `None` for a method that is only declared.
    body: Option<Group>,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let signature = input.parse().map_err(|error: Error| {
            Error::new(
                error.span(),
                "`trace` is only for functions and methods; remove it here",
            )
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
    /// Returns the function with a span around its body.
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
                "a `const fn` cannot be traced, since the compiler may run it; trace its callers, \
                 or remove `const`",
            ));
        }
        let Some(body) = body else {
            return Err(Error::new_spanned(
                signature,
                "a method without a body cannot be traced; put the attribute on its \
                 implementations",
            ));
        };
        let Body {
            attributes: inner_attributes,
            statements,
        } = syn::parse2(body.stream())?;
        // Put the body into a block of its own. Items at the start of the body are then still the
        // first in their block, as lints demand. The braces get the body's position, but mixed-site
        // hygiene: otherwise lints would report them as superfluous.
        let mut block = Group::new(Delimiter::Brace, statements);
        block.set_span(Span::mixed_site().located_at(body.span()));
        let traced = if signature.asyncness.is_some() {
            traced_async(&signature, options, &block)
        } else {
            traced_sync(&signature, options, &block)
        };
        Ok(quote! {
            #(#attributes)*
            #visibility #signature {
                #(#inner_attributes)*
                #traced
            }
        })
    }
}

/// Returns the new body of a function that is not `async`: the guard of a span, then the old body.
fn traced_sync(signature: &Signature, mut options: Options, block: &Group) -> TokenStream {
    let library = options.library();
    // Mixed-site hygiene: no name in the body refers to these variables.
    let guard = Ident::new("_span", Span::mixed_site());
    let output = Ident::new("output", Span::mixed_site());
    let end = end(&mut options, &output, &guard);
    let span = span("span", signature, options);
    let Some(end) = end else {
        return quote!(let #guard = #span; #block);
    };
    let result = named_result(library.clone(), &signature.output);
    // A closure, so that a `return` or a `?` in the body leads to the code that ends the span.
    quote! {
        let #guard = #span;
        let #output = #library::__private::call_once(|| {
            #result
            #block
        });
        {
            let #output = &#output;
            #end
        }
        #output
    }
}

/// Returns the code that ends the span `guard` with the arguments `result` and `error`. `output` is
/// the variable that refers to the returned value. Returns `None` if the options ask for neither
/// argument.
fn end(options: &mut Options, output: &Ident, guard: &Ident) -> Option<TokenStream> {
    let library = options.library();
    let end = |EndArg { name, arg }: &EndArg| {
        let end = quote!(#library::end!(#guard, #arg));
        (name.clone(), end)
    };
    let result = options.result.take().as_ref().map(end);
    let error = options.error.take().as_ref().map(end);
    Some(match (result, error) {
        (None, None) => return None,
        (Some((result, end)), None) => quote! {
            let #result = #output;
            // Prevents a warning if the user's expression does not use the variable.
            let _ = #result;
            #end;
        },
        // After a success, the span ends where its guard is dropped.
        (None, Some((error, end))) => quote_spanned! {error.span()=>
            if let ::core::result::Result::Err(#error) = #output {
                let _ = #error;
                #end;
            }
        },
        (Some((result, end)), Some((error, end_with_error))) => quote_spanned! {error.span()=>
            match #output {
                ::core::result::Result::Ok(#result) => {
                    let _ = #result;
                    #end;
                }
                ::core::result::Result::Err(#error) => {
                    let _ = #error;
                    #end_with_error;
                }
            }
        },
    })
}

/// Returns the new body of an async function: a future with a span, which runs the old body.
fn traced_async(signature: &Signature, mut options: Options, block: &Group) -> TokenStream {
    let library = options.library();
    let guard = Ident::new("_span", Span::mixed_site());
    let output = Ident::new("output", Span::mixed_site());
    let end = end(&mut options, &output, &guard);
    let span = span("async_span", signature, options);
    let end = end.map(|end| quote!(.end_with(|#output, #guard| { #end })));
    let result = named_result(library.clone(), &signature.output);
    // The second block is for `cfg(tracezero_off)`. Only the library knows that setting, so its
    // macro chooses the block. The second block creates the span in a branch that never runs, so
    // that the compiler does not report parameters as unused. The branch diverges, so the future
    // need not keep what the branch borrows.
    quote! {
        #library::__traced_async! {
            [{
                #library::Traced::new(#span, async move {
                    #result
                    #block
                })
                #end
                .await
            }]
            [{
                if false {
                    ::core::mem::drop(#span);
                    ::core::unreachable!();
                }
                #block
            }]
        }
    }
}

/// Returns code that tells the compiler the type of the result, which it cannot infer inside of a
/// closure or an `async` block.
fn named_result(library: TokenStream, output: &ReturnType) -> TokenStream {
    // The compiler's messages about the type point to the signature.
    let (span, mut result) = match output {
        ReturnType::Default => (Span::mixed_site(), Type::Tuple(parse_quote!(()))),
        // A function that never returns needs no type.
        ReturnType::Type(_, result) if matches!(**result, Type::Never(_)) => return quote!(),
        ReturnType::Type(_, result) => {
            let span = Span::mixed_site().located_at(result.span());
            (span, parse_quote!(#result))
        }
    };
    infer_unnamed(&mut result);
    let library: TokenStream = library
        .into_iter()
        .map(|mut token| {
            // Change the position only, and keep the hygiene: a `$crate` still refers to the crate
            // of the macro that wrote it.
            token.set_span(token.span().located_at(span));
            token
        })
        .collect();
    quote_spanned! {span=>
        if false {
            return #library::__private::result_of::<#result>();
        }
    }
}

/// Replaces each `impl Trait` in a type with `_`, because a function's body cannot name it.
fn infer_unnamed(part: &mut Type) {
    match part {
        Type::ImplTrait(_) => *part = Type::Infer(parse_quote!(_)),
        Type::Array(array) => infer_unnamed(&mut array.elem),
        Type::Group(group) => infer_unnamed(&mut group.elem),
        Type::Paren(paren) => infer_unnamed(&mut paren.elem),
        Type::Reference(reference) => infer_unnamed(&mut reference.elem),
        Type::Slice(slice) => infer_unnamed(&mut slice.elem),
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(infer_unnamed),
        Type::Path(path) => {
            for segment in &mut path.path.segments {
                if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
                    for argument in &mut arguments.args {
                        if let GenericArgument::Type(argument) = argument {
                            infer_unnamed(argument);
                        }
                    }
                }
            }
        }
        _ => {}
    }
}

/// Returns the invocation of the macro that begins the span.
fn span(macro_name: &str, signature: &Signature, options: Options) -> TokenStream {
    let library = options.library();
    let Options {
        category,
        name,
        args,
        ..
    } = options;
    let text = |text: &str| LitStr::new(text, Span::call_site());
    let category = category.unwrap_or_else(|| text(&package()));
    let name = name.unwrap_or_else(|| text(&signature.ident.unraw().to_string()));
    let args = args.into_iter().flatten();
    let macro_name = Ident::new(macro_name, Span::call_site());
    quote!(#library::#macro_name!(#category, #name, #(#args,)*))
}

/// Returns the name of the package that is compiled. Build systems other than Cargo may not set the
/// variable.
fn package() -> String {
    env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "app".to_owned())
}

/// The content of the function's braces.
struct Body {
    /// Inner attributes, `#![..]`, which must come first.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(options: TokenStream, function: TokenStream) -> String {
        let function: Function = syn::parse2(function).unwrap();
        let traced = function.traced(syn::parse2(options).unwrap()).unwrap();
        traced.to_string().replace(' ', "")
    }

    #[test]
    fn function_names_the_library_as_the_option_does() {
        let functions = [
            quote!(
                fn plain(n: u32) -> u32 {
                    n
                }
            ),
            quote!(
                async fn asynchronous(n: u32) -> u32 {
                    n
                }
            ),
        ];
        for function in functions {
            let usual = traced(quote!(args(n)), function.clone());
            let renamed = traced(quote!(args(n), crate = crate::vendor::sdk), function);
            assert!(usual.contains("::tracezero::"), "{usual}");
            assert_eq!(
                usual.replace("::tracezero::", "crate::vendor::sdk::"),
                renamed
            );
        }
    }
}
