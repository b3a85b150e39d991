//! Finds the methods of the generated code in the code itself, by the fields that their
//! documentation names. So this test need not repeat the rules for names.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Expr, ImplItem, Item, Lit, Meta, TraitItem, Type};

use crate::Result;

/// The public items of one generated file.
#[derive(Default)]
pub(crate) struct Surface {
    /// The paths of the writers, by the full name of the message.
    pub(crate) writers: BTreeMap<String, String>,
    /// The paths of the decoders, by the full name of the message.
    pub(crate) decoders: BTreeMap<String, String>,
    /// The paths of methods, including those of traits, by message, verb and target.
    methods: BTreeMap<Method, String>,
    /// The fields that have a constant for their number: message, name and number. Two scopes may
    /// extend a message by fields of the same name.
    numbers: BTreeSet<(String, String, u32)>,
    /// The variants of the enums of oneofs, by the full name of the oneof and the number of the
    /// member.
    variants: BTreeMap<(String, u32), String>,
    /// The enums, by full name.
    pub(crate) enums: BTreeMap<String, OpenEnum>,
}

/// An enum with its constants and the names of their values.
pub(crate) struct OpenEnum {
    pub(crate) path: String,
    pub(crate) constants: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Method {
    /// The full name of the message.
    pub(crate) message: String,
    pub(crate) verb: Verb,
    pub(crate) target: Target,
}

/// The action of a method, according to the first word of its documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    /// Appends a value or an element, or a message in a closure.
    Append,
    /// Appends all elements of a packed field.
    AppendAll,
    /// Begins a nested message.
    Begin,
    Get,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Field(u32),
    Oneof(String),
}

const VERBS: [(&str, Verb); 9] = [
    ("Appends field ", Verb::Append),
    ("Appends one element of field ", Verb::Append),
    ("Appends one entry of field ", Verb::Append),
    ("Appends all elements of field ", Verb::AppendAll),
    ("Begins field ", Verb::Begin),
    ("Begins one element of field ", Verb::Begin),
    ("Returns the last value of field ", Verb::Get),
    ("Returns the elements of field ", Verb::Get),
    ("Returns the entries of field ", Verb::Get),
];

/// The names of methods that do not belong to a field.
const UNTYPED: [&str; 4] = ["as_message_mut", "as_decoder", "fields", "new"];

impl Surface {
    pub(crate) fn read(source: &str) -> Result<Self> {
        let mut surface = Surface::default();
        surface.items(&syn::parse_file(source)?.items, "")?;
        Ok(surface)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writers.is_empty() && self.enums.is_empty()
    }

    /// Removes a method, and returns its path.
    pub(crate) fn take(&mut self, message: &str, verb: Verb, target: Target) -> Result<String> {
        let method = Method {
            message: message.to_owned(),
            verb,
            target,
        };
        let path = self.methods.remove(&method);
        path.ok_or_else(|| format!("not generated: {method:?}").into())
    }

    /// Removes the variant for a member of a oneof, and returns its path.
    pub(crate) fn take_variant(&mut self, oneof: &str, member: u32) -> Result<String> {
        let path = self.variants.remove(&(oneof.to_owned(), member));
        path.ok_or_else(|| format!("not generated: variant of {oneof} for {member}").into())
    }

    /// Removes the constant for the number of a field.
    pub(crate) fn take_number(&mut self, message: &str, field: &str, number: u32) -> Result<()> {
        let key = (message.to_owned(), field.to_owned(), number);
        let is_there = self.numbers.remove(&key);
        is_there
            .then_some(())
            .ok_or_else(|| format!("not generated: number of {message}.{field}").into())
    }

    /// Returns everything that was not removed: methods that no driver calls.
    pub(crate) fn left_over(&self) -> Vec<String> {
        let methods = self.methods.iter().map(|method| format!("{method:?}"));
        let variants = self.variants.iter().map(|variant| format!("{variant:?}"));
        let numbers = self.numbers.iter().map(|number| format!("{number:?}"));
        methods.chain(variants).chain(numbers).collect()
    }

    /// Reads the items of a module, whose path ends in `::` or is empty.
    fn items(&mut self, items: &[Item], module: &str) -> Result<()> {
        // The struct of a message precedes its methods.
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        for item in items {
            match item {
                Item::Struct(item) => {
                    let (doc, name) = (doc(&item.attrs), item.ident.to_string());
                    let path = format!("{module}{name}");
                    if let Some(message) = quoted_after(&doc, "Writer of ") {
                        self.writers.insert(message.to_owned(), path);
                        named.insert(name, message.to_owned());
                    } else if let Some(message) = quoted_after(&doc, "Decoder of ") {
                        self.decoders.insert(message.to_owned(), path);
                        named.insert(name, message.to_owned());
                    } else if let Some(full_name) = quoted_after(&doc, "Enum ") {
                        let constants = Vec::new();
                        self.enums
                            .insert(full_name.to_owned(), OpenEnum { path, constants });
                        named.insert(name, full_name.to_owned());
                    } else {
                        return Err(format!("{path} is not documented as expected: {doc}").into());
                    }
                }
                Item::Impl(item) if item.trait_.is_none() => {
                    let Type::Path(self_type) = &*item.self_ty else {
                        return Err("an impl block of something without a path".into());
                    };
                    let name = self_type.path.segments[0].ident.to_string();
                    let owner = named.get(&name).ok_or("an impl block before its type")?;
                    self.members(owner, &format!("{module}{name}"), &item.items)?;
                }
                Item::Impl(_) => {}
                Item::Trait(item) => {
                    let doc = doc(&item.attrs);
                    let message = quoted_after(&doc, "Writes extension fields of ")
                        .or_else(|| quoted_after(&doc, "Reads extension fields of "))
                        .ok_or_else(|| format!("not expected of a trait: {doc}"))?;
                    let path = format!("{module}{}", item.ident);
                    for item in &item.items {
                        match item {
                            TraitItem::Fn(item) => {
                                self.method(
                                    message,
                                    &path,
                                    &item.sig.ident.to_string(),
                                    &item.attrs,
                                )?;
                            }
                            TraitItem::Const(item) => {
                                let value = item.default.as_ref().map(|(_, value)| value);
                                self.number(message, &item.attrs, value)?;
                            }
                            _ => return Err(format!("not expected in {path}").into()),
                        }
                    }
                }
                Item::Enum(item) => {
                    let doc = doc(&item.attrs);
                    let oneof = quoted_after(&doc, "The member of oneof ")
                        .ok_or_else(|| format!("not expected of an enum: {doc}"))?;
                    for variant in &item.variants {
                        let number = field_number(&self::doc(&variant.attrs), "Field ")?;
                        let path = format!("{module}{}::{}", item.ident, variant.ident);
                        self.variants.insert((oneof.to_owned(), number), path);
                    }
                }
                Item::Mod(item) => {
                    let (_, items) = item.content.as_ref().ok_or("a module without content")?;
                    self.items(items, &format!("{module}{}::", item.ident))?;
                }
                _ => return Err(format!("an item of another kind in `{module}`").into()),
            }
        }
        Ok(())
    }

    /// Reads the methods and constants of a type.
    fn members(&mut self, owner: &str, path: &str, items: &[ImplItem]) -> Result<()> {
        for item in items {
            match item {
                ImplItem::Fn(item) if self.enums.contains_key(owner) => {
                    if item.sig.ident != "name" {
                        return Err(format!("not expected of {owner}: {}", item.sig.ident).into());
                    }
                }
                ImplItem::Fn(item) => {
                    self.method(owner, path, &item.sig.ident.to_string(), &item.attrs)?;
                }
                ImplItem::Const(item) => match self.enums.get_mut(owner) {
                    Some(open_enum) => {
                        let doc = doc(&item.attrs);
                        let value = quoted_after(&doc, "").ok_or("a constant has a name")?;
                        let constant = format!("{path}::{}", item.ident);
                        open_enum.constants.push((value.to_owned(), constant));
                    }
                    None => self.number(owner, &item.attrs, Some(&item.expr))?,
                },
                _ => return Err(format!("not expected in {path}").into()),
            }
        }
        Ok(())
    }

    fn method(&mut self, owner: &str, path: &str, name: &str, attrs: &[Attribute]) -> Result<()> {
        if UNTYPED.contains(&name) && !is_of_field(&doc(attrs)) {
            return Ok(());
        }
        let doc = doc(attrs);
        let (verb, target) = match quoted_after(&doc, "Returns the member of oneof ") {
            Some(oneof) => (Verb::Get, Target::Oneof(oneof.to_owned())),
            None => {
                let (prefix, verb) = VERBS
                    .iter()
                    .find(|(prefix, _)| doc.starts_with(prefix))
                    .ok_or_else(|| format!("{path}::{name} has no verb: {doc}"))?;
                (*verb, Target::Field(field_number(&doc, prefix)?))
            }
        };
        let method = Method {
            message: owner.to_owned(),
            verb,
            target,
        };
        match self.methods.insert(method, format!("{path}::{name}")) {
            None => Ok(()),
            Some(other) => Err(format!("{path}::{name} does what {other} does").into()),
        }
    }

    fn number(&mut self, owner: &str, attrs: &[Attribute], value: Option<&Expr>) -> Result<()> {
        let doc = doc(attrs);
        let field = quoted_after(&doc, "Number of field ")
            .ok_or_else(|| format!("not expected of a constant: {doc}"))?;
        let Some(Expr::Lit(literal)) = value else {
            return Err(format!("no literal: {doc}").into());
        };
        let Lit::Int(literal) = &literal.lit else {
            return Err(format!("no number: {doc}").into());
        };
        self.numbers
            .insert((owner.to_owned(), field.to_owned(), literal.base10_parse()?));
        Ok(())
    }
}

fn is_of_field(doc: &str) -> bool {
    doc.starts_with("Returns the member of oneof ")
        || VERBS.iter().any(|(verb, _)| doc.starts_with(verb))
}

/// Returns the first paragraph of an item's documentation.
fn doc(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let paragraph: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ")
}

/// Returns "a.B" of "Writer of `a.B`.".
fn quoted_after<'d>(doc: &'d str, prefix: &str) -> Option<&'d str> {
    let (quoted, _) = doc
        .strip_prefix(prefix)?
        .strip_prefix('`')?
        .split_once('`')?;
    Some(quoted)
}

/// Returns 7 of "Field `x` (7, string)".
fn field_number(doc: &str, prefix: &str) -> Result<u32> {
    let number = || {
        let (_, rest) = doc.strip_prefix(prefix)?.split_once("` (")?;
        rest.split_once(',')?.0.parse().ok()
    };
    number().ok_or_else(|| format!("no field number: {doc}").into())
}
