//! The derive macro `ArgValue`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, GenericParam, LitStr, Path, Result,
    TypeParamBound, parse_quote,
};

/// The options of a field.
struct FieldOptions {
    name: String,
    form: Form,
    /// The position of the field's type, for the compiler's messages.
    span: Span,
}

enum Form {
    Value,
    Display,
    Debug,
    Skipped,
}

pub(crate) fn derive(input: DeriveInput) -> Result<TokenStream> {
    let library = library(&input.attrs)?;
    let type_name = &input.ident;
    let annotation = annotation();
    let body = match &input.data {
        Data::Struct(data) => {
            let fields = FieldValues::new(&library, &data.fields)?;
            let pattern = fields.pattern(quote!(Self));
            let value = match &data.fields {
                Fields::Unit => text(type_name),
                _ => fields.value(),
            };
            quote!(let #pattern = self; #library::ArgValue::write(&#value, #annotation);)
        }
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let name = &variant.ident;
                if let Some(attribute) = arg_attributes(&variant.attrs).next() {
                    let message = "a variant takes no options; put options on its fields, and `crate = path` on the type";
                    return Err(Error::new_spanned(attribute, message));
                }
                let fields = FieldValues::new(&library, &variant.fields)?;
                let pattern = fields.pattern(quote!(Self::#name));
                let text = text(name);
                let value = match &variant.fields {
                    Fields::Unit => text,
                    _ => {
                        let value = fields.value();
                        dict(&library, &quote!(.add(#text, &#value)))
                    }
                };
                Ok(quote!(#pattern => #library::ArgValue::write(&#value, #annotation),))
            });
            let arms: Vec<_> = arms.collect::<Result<_>>()?;
            // Match the enum itself if it has no variants: to match a reference to such an enum,
            // the compiler requires an arm.
            let value = if arms.is_empty() {
                quote!(*self)
            } else {
                quote!(self)
            };
            quote!(match #value { #(#arms)* })
        }
        Data::Union(_) => {
            return Err(Error::new_spanned(
                type_name,
                "`ArgValue` cannot be derived for a union; implement it by hand",
            ));
        }
    };
    let mut generics = input.generics;
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            let bounds = bounds(&library, &parameter.ident, &input.data)?;
            parameter.bounds.extend(bounds);
        }
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters #library::ArgValue for #type_name #arguments #bounds {
            fn write(&self, #annotation: &mut #library::protos::DebugAnnotation<'_>) {
                #body
            }
        }
    })
}

/// The fields of a struct or variant, which the generated code binds by reference to variables
/// `field_0`, `field_1`, ..
struct FieldValues<'a> {
    library: &'a TokenStream,
    fields: &'a Fields,
    options: Vec<FieldOptions>,
}

impl<'a> FieldValues<'a> {
    fn new(library: &'a TokenStream, fields: &'a Fields) -> Result<Self> {
        let options = fields.iter().enumerate().map(FieldOptions::of);
        Ok(Self {
            library,
            options: options.collect::<Result<_>>()?,
            fields,
        })
    }

    fn binding(index: usize) -> Ident {
        Ident::new(&format!("field_{index}"), Span::mixed_site())
    }

    /// Returns the pattern that binds all fields but the skipped ones.
    fn pattern(&self, path: TokenStream) -> TokenStream {
        let bound = self.options.iter().enumerate().map(|(index, options)| {
            let binding = Self::binding(index);
            match options.form {
                Form::Skipped => quote!(_),
                _ => quote!(#binding),
            }
        });
        match self.fields {
            Fields::Unit => path,
            Fields::Unnamed(_) => quote!(#path(#(#bound),*)),
            Fields::Named(fields) => {
                let names = fields.named.iter().map(|field| &field.ident);
                quote!(#path { #(#names: #bound),* })
            }
        }
    }

    /// Returns an expression for the value: a dictionary of the fields, or the field itself if a
    /// tuple has only one.
    fn value(&self) -> TokenStream {
        let library = self.library;
        let values = self.options.iter().enumerate().map(|(index, options)| {
            let binding = Self::binding(index);
            let span = options.span;
            match options.form {
                Form::Value => quote_spanned!(span=> *#binding),
                Form::Display => quote_spanned!(span=> #library::display(#binding)),
                Form::Debug => quote_spanned!(span=> #library::debug(#binding)),
                Form::Skipped => quote!(),
            }
        });
        let values: Vec<_> = values.collect();
        if let (Fields::Unnamed(_), [value]) = (self.fields, &values[..])
            && !value.is_empty()
        {
            return quote!(#value);
        }
        let entries = self.options.iter().zip(&values);
        let entries = entries.filter(|(_, value)| !value.is_empty());
        let entries = entries.map(
            |(FieldOptions { name, span, .. }, value)| quote_spanned!(*span=> .add(#name, &#value)),
        );
        dict(library, &quote!(#(#entries)*))
    }
}

impl FieldOptions {
    fn of((index, field): (usize, &Field)) -> Result<Self> {
        let mut options = Self {
            name: match &field.ident {
                Some(name) => name.unraw().to_string(),
                None => index.to_string(),
            },
            form: Form::Value,
            span: field.ty.span(),
        };
        for attribute in arg_attributes(&field.attrs) {
            attribute.parse_nested_meta(|option| {
                let name = option.path.to_token_stream().to_string();
                match name.as_str() {
                    "rename" => options.name = option.value()?.parse::<LitStr>()?.value(),
                    "display" => options.form = Form::Display,
                    "debug" => options.form = Form::Debug,
                    "skip" => options.form = Form::Skipped,
                    _ => {
                        return Err(option.error(
                            "unknown option; a field takes `rename = \"..\"`, `display`, `debug` and `skip`",
                        ));
                    }
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// Returns the path by which code beside the type refers to the crate `tracezero`.
fn library(attributes: &[Attribute]) -> Result<TokenStream> {
    let mut library = quote!(::tracezero);
    for attribute in arg_attributes(attributes) {
        attribute.parse_nested_meta(|option| {
            if !option.path.is_ident("crate") {
                return Err(option.error("unknown option; a type takes `crate = path`"));
            }
            library = option
                .value()?
                .call(Path::parse_mod_style)?
                .into_token_stream();
            Ok(())
        })?;
    }
    Ok(library)
}

fn arg_attributes(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("arg_value"))
}

fn text(name: &Ident) -> TokenStream {
    let name = name.unraw().to_string();
    quote!(#name)
}

/// Returns an expression for a dictionary. Each of `entries` is a method call `.add(name, value)`.
fn dict(library: &TokenStream, entries: &TokenStream) -> TokenStream {
    if entries.is_empty() {
        return quote!(#library::dict(|_| {}));
    }
    let writer = Ident::new("entries", Span::mixed_site());
    quote!(#library::dict(|#writer| { #writer #entries; }))
}

/// Returns the name of the parameter of `ArgValue::write`.
fn annotation() -> Ident {
    Ident::new("annotation", Span::mixed_site())
}

/// Returns the bounds that a type parameter needs: for each field whose type names the parameter,
/// the trait that writes the field.
fn bounds(library: &TokenStream, parameter: &Ident, data: &Data) -> Result<Vec<TypeParamBound>> {
    let fields: Vec<&Field> = match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|it| &it.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let mut bounds = Vec::new();
    for field in fields {
        if !names(field.ty.to_token_stream(), parameter) {
            continue;
        }
        match FieldOptions::of((0, field))?.form {
            Form::Value => bounds.push(parse_quote!(#library::ArgValue)),
            Form::Display => bounds.push(parse_quote!(::core::fmt::Display)),
            Form::Debug => bounds.push(parse_quote!(::core::fmt::Debug)),
            Form::Skipped => {}
        }
    }
    Ok(bounds)
}

/// Returns whether the tokens contain the identifier `wanted`.
fn names(tokens: TokenStream, wanted: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *wanted,
        TokenTree::Group(group) => names(group.stream(), wanted),
        _ => false,
    })
}
