//! Messages that become structs, on request: which ones. The units have been resolved before; their
//! structs are added to them.

mod defaults; // what the schema says a field has when it is not set
mod places; // the modules that structs are in
mod structs; // what they hold
mod sizes; // which of it is in boxes

use std::collections::{BTreeMap, BTreeSet};

use protobuf::descriptor::FileDescriptorProto;

use self::structs::Builder;
use crate::error::Error;
use crate::extern_path::ExternPaths;
use crate::registry::Registry;
use crate::schema::{Field, Message, Module, Shape, Type, Unit};

/// Adds the structs of all requested messages, and of those that they reach, to each unit that has
/// them.
pub(crate) fn add(
    units: &mut [Unit],
    files: &[FileDescriptorProto],
    requests: &[String],
    extern_paths: &ExternPaths,
) -> Result<(), Error> {
    if requests.is_empty() {
        return Ok(());
    }
    let registry = Registry::new(files);
    let wanted = wanted(units, requests, extern_paths)?;
    for unit in units {
        let builder = Builder::new(&registry, files, &unit.root);
        let structs = messages(&unit.root)
            .into_iter()
            .filter(|(_, message)| wanted.contains(&message.proto_name))
            .map(|(module, message)| builder.build(module, message))
            .collect::<Result<Vec<_>, _>>()?;
        for built in structs {
            built.add_to(&mut unit.root);
        }
    }
    Ok(())
}

/// The names of the requested messages, and of those that they reach through fields.
fn wanted(
    units: &[Unit],
    requests: &[String],
    extern_paths: &ExternPaths,
) -> Result<BTreeSet<String>, Error> {
    let generated: BTreeMap<&str, &Message> = units
        .iter()
        .flat_map(|unit| messages(&unit.root))
        .map(|(_, message)| (message.proto_name.as_str(), message))
        .collect();
    let mut pending: Vec<&str> = Vec::new();
    for request in requests {
        let name = request.strip_prefix('.').unwrap_or_default();
        let before = pending.len();
        pending.extend(generated.keys().filter(|message| covers(name, message)));
        if pending.len() > before {
            continue;
        }
        let proto = request.clone();
        return Err(match extern_paths.find(name) {
            Some(_) => Error::OwnedElsewhere { proto },
            None => Error::UnknownOwned {
                suggestion: suggestion(request, &generated),
                proto,
            },
        });
    }
    let mut wanted = BTreeSet::new();
    while let Some(name) = pending.pop() {
        // What is not generated here is so elsewhere.
        if let Some(message) = generated.get(name)
            && wanted.insert(name.to_owned())
        {
            pending.extend(message.fields.iter().filter_map(message_name));
        }
    }
    Ok(wanted)
}

/// Whether a message is the named one, or inside of the named message or package.
fn covers(name: &str, message: &str) -> bool {
    !name.is_empty()
        && message
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The request with the dot that it lacks, or a message whose name ends as it does in small letters.
fn suggestion(request: &str, generated: &BTreeMap<&str, &Message>) -> Option<String> {
    if generated.keys().any(|name| covers(request, name)) {
        return Some(format!(".{request}"));
    }
    let last = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or_default();
        last.to_ascii_lowercase()
    };
    let found = generated.keys().find(|name| last(name) == last(request))?;
    Some(format!(".{found}"))
}

/// All messages of a module and of those inside it, each with the path of its module.
fn messages(module: &Module) -> Vec<(&[String], &Message)> {
    let own = module.messages.iter();
    let mut found: Vec<_> = own.map(|it| (module.path.as_slice(), it)).collect();
    for inner in &module.modules {
        found.extend(messages(inner));
    }
    found
}

/// The message that a field, or a value of a map, is.
fn message_name(field: &Field) -> Option<&str> {
    let (Shape::Singular(value)
    | Shape::Repeated(value)
    | Shape::Packed(value)
    | Shape::Map { value, .. }) = &field.shape;
    match value {
        Type::Message { proto_name, .. } => Some(proto_name),
        Type::Scalar(_) | Type::Enum { .. } => None,
    }
}
