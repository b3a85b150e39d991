//! The function that the attribute is written on, and what becomes of it.

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
        let Body {
            attributes: inner_attributes,
            statements,
        } = syn::parse2(body.stream())?;
        // A block of its own: items of the body still come first in theirs. It stands where the body
        // stood, but is not what the user wrote: lints would take its braces for superfluous.
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

/// The body of a function, behind the guard of a span.
fn traced_sync(signature: &Signature, mut options: Options, block: &Group) -> TokenStream {
    let library = options.library();
    // Cannot be meant by a name in the body.
    let guard = Ident::new("_span", Span::mixed_site());
    let output = Ident::new("output", Span::mixed_site());
    let end = end(&mut options, &output, &guard);
    let span = span("span", signature, options);
    let Some(end) = end else {
        return quote!(let #guard = #span; #block);
    };
    let result = named_result(library.clone(), &signature.output);
    // A closure, for a `return` or a `?` to lead to the end of the span.
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

/// Ends the span `guard` with what the options ask for, of the reference `output` to what the function
/// returns; `None` if they ask for nothing.
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
            // It need not be used.
            let _ = #result;
            #end;
        },
        // That of a success ends where its guard is dropped.
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

/// The body of an async function, as a future with a span.
fn traced_async(signature: &Signature, mut options: Options, block: &Group) -> TokenStream {
    let library = options.library();
    let guard = Ident::new("_span", Span::mixed_site());
    let output = Ident::new("output", Span::mixed_site());
    let end = end(&mut options, &output, &guard);
    let span = span("async_span", signature, options);
    let end = end.map(|end| quote!(.end_with(|#output, #guard| { #end })));
    let result = named_result(library.clone(), &signature.output);
    // Under `cfg(tracezero_off)`, which only the library's own code can ask for, the span is named all the same, so
    // that nothing is unused. What does not go on from there borrows nothing that the future would have to keep.
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

/// Tells the compiler what the function returns: inside of a closure or an `async` block, it does not know.
fn named_result(library: TokenStream, output: &ReturnType) -> TokenStream {
    // Messages about it point to where it is said.
    let (span, mut result) = match output {
        ReturnType::Default => (Span::mixed_site(), Type::Tuple(parse_quote!(()))),
        // What never returns needs none.
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
            // With its own hygiene: `$crate` stays that of the macro that has written it.
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

/// Leaves the parts of a type to the compiler that a function's body cannot name.
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

/// The invocation of the macro that makes the span.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(options: TokenStream, function: TokenStream) -> String {
        let function: Function = syn::parse2(function).unwrap();
        let traced = function.traced(syn::parse2(options).unwrap()).unwrap();
        traced.to_string().replace(' ', "")
    }

    #[test]
    fn a_function_names_the_library_as_the_option_does() {
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
