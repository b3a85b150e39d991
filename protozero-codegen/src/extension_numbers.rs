//! Checks the field numbers of extensions. A number must lie in the ranges that the extended
//! message declares, and no other field of that message may have it.

use std::collections::BTreeMap;

use protobuf::descriptor::descriptor_proto::ExtensionRange;
use protobuf::descriptor::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

use crate::error::{Error, Location};
use crate::registry::{data_extensions, join, type_name};

/// A function that returns the place of a field's number, by the scope and the name of the field.
/// Returns `None` for a field of a file that was not read.
pub(crate) type Places<'p> = dyn Fn(&str, &str) -> Option<Location> + 'p;

/// Messages by full name.
type Messages<'d> = BTreeMap<&'d str, &'d DescriptorProto>;

/// Fields by the full name of their message and their number.
type Fields<'d> = BTreeMap<(&'d str, i32), Field<'d>>;

#[derive(Clone, Copy)]
struct Field<'d> {
    /// The message or package that declares the field.
    scope: &'d str,
    name: &'d str,
}

/// Checks all extensions of the files, in the order of the files.
pub(crate) fn check(files: &[FileDescriptorProto], places: &Places<'_>) -> Result<(), Error> {
    let declared = declared(files);
    let messages = declared
        .iter()
        .filter_map(|it| Some((it.scope.as_str(), it.message?)));
    let messages: Messages<'_> = messages.collect();
    let mut fields = Fields::new();
    for (&scope, message) in &messages {
        for field in &message.field {
            let name = field.name();
            fields.insert((scope, field.number()), Field { scope, name });
        }
    }
    for Declared {
        scope, extensions, ..
    } in &declared
    {
        for extension in data_extensions(extensions) {
            check_extension(scope, extension, &messages, &mut fields, places)?;
        }
    }
    Ok(())
}

fn check_extension<'d>(
    scope: &'d str,
    extension: &'d FieldDescriptorProto,
    messages: &Messages<'d>,
    fields: &mut Fields<'d>,
    places: &Places<'_>,
) -> Result<(), Error> {
    let (name, number) = (extension.name(), extension.number());
    let extended = type_name(extension.extendee());
    // An extension without a place is in a schema that is built into the parser, and those schemas
    // are correct.
    let Some(at) = places(scope, name) else {
        return Ok(());
    };
    let Some((&extended, message)) = messages.get_key_value(extended.as_str()) else {
        return Ok(());
    };
    if let Some(other) = fields.insert((extended, number), Field { scope, name }) {
        return Err(Error::ExtensionNumberTaken {
            at,
            field: name.to_owned(),
            message: extended.to_owned(),
            number,
            other: other.name.to_owned(),
            other_at: places(other.scope, other.name).map(Box::new),
        });
    }
    let is_inside = |range: &ExtensionRange| (range.start()..range.end()).contains(&number);
    if message.extension_range.iter().any(is_inside) {
        return Ok(());
    }
    Err(Error::ExtensionNumberOutside {
        at,
        field: name.to_owned(),
        message: extended.to_owned(),
        number,
        ranges: message
            .extension_range
            .iter()
            .map(|range| range.start()..=range.end() - 1)
            .collect(),
    })
}

/// A package or message in a file, with the extensions that it declares.
struct Declared<'d> {
    scope: String,
    /// `None` for a package.
    message: Option<&'d DescriptorProto>,
    extensions: &'d [FieldDescriptorProto],
}

/// Returns all packages and messages, in the order of the files.
fn declared(files: &[FileDescriptorProto]) -> Vec<Declared<'_>> {
    let mut declared = Vec::new();
    for file in files {
        declared.push(Declared {
            scope: file.package().to_owned(),
            message: None,
            extensions: &file.extension,
        });
        let mut pending = inside(file.package(), &file.message_type);
        while let Some((scope, message)) = pending.pop() {
            pending.extend(inside(&scope, &message.nested_type));
            declared.push(Declared {
                scope,
                message: Some(message),
                extensions: &message.extension,
            });
        }
    }
    declared
}

/// Returns messages with their full names, in reverse order.
fn inside<'d>(scope: &str, messages: &'d [DescriptorProto]) -> Vec<(String, &'d DescriptorProto)> {
    let messages = messages.iter().rev();
    messages
        .map(|message| (join(scope, message.name()), message))
        .collect()
}
