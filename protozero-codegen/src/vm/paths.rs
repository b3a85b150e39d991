//! Paths of a program: their text, and the fields that they lead through.

use super::fields::{Field, Message, Schema};
use super::instruction::Component;

/// A path whose fields have been found.
#[derive(Debug)]
pub(super) struct Path<'a> {
    pub(super) fields: Vec<&'a Field<'a>>,
    /// The message at the end of the path; `None` if the path ends at a scalar.
    pub(super) message: Option<&'a Message<'a>>,
}

impl<'a> Path<'a> {
    /// Finds the fields of a path that starts at `message`.
    pub(super) fn find(
        schema: &'a Schema<'a>,
        message: &'a Message<'a>,
        text: &str,
    ) -> Result<Self, String> {
        let mut path = Path {
            fields: Vec::new(),
            message: Some(message),
        };
        for name in names(text)? {
            let Some(message) = path.message else {
                return Err(format!(
                    "{} has no fields; end the path there",
                    path.end_text()
                ));
            };
            let field = schema.field(message, name)?;
            path.fields.push(field);
            path.message = schema.message_of(field);
        }
        Ok(path)
    }

    /// Returns the components that select the end of the path. If `each` is true, repeated fields
    /// become iterations.
    pub(super) fn components(&self, each: bool) -> Vec<Component> {
        let components = self.fields.iter().map(|field| Component::Field {
            number: field.number(),
            name: field.name.clone(),
            is_repeated: each && field.is_repeated(),
        });
        components.collect()
    }

    /// Returns a description of the end of the path for errors.
    pub(super) fn end_text(&self) -> String {
        match self.fields.last() {
            None => "the message of the scope".to_owned(),
            Some(field) => format!("`{}` ({})", field.name, field.kind()),
        }
    }
}

/// Splits a path at its dots, except those in brackets.
fn names(text: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = match rest.starts_with('[') {
            true => rest.find(']').map(|index| index + 1),
            false => Some(rest.find('.').unwrap_or(rest.len())),
        };
        let malformed = || {
            format!(
                "the path \"{text}\" is malformed; write names of fields with dots between them, \
                 and extensions as `[package.name]`"
            )
        };
        let (name, after) = rest.split_at(end.ok_or_else(malformed)?);
        names.push(name);
        rest = match after.strip_prefix('.') {
            Some(after) if !after.is_empty() => after,
            None if after.is_empty() => after,
            _ => return Err(malformed()),
        };
        if name.is_empty() {
            return Err(malformed());
        }
    }
    Ok(names)
}
