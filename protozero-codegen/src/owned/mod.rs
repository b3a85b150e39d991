//! Owned structs of messages, on request. Selects the messages, and adds their structs to units
//! that have already been resolved.

mod defaults; // default values of fields
mod places; // the modules of structs
mod structs; // the members of structs
mod sizes; // which members are boxed

use std::collections::{BTreeMap, BTreeSet};

use protobuf::descriptor::FileDescriptorProto;

use self::structs::Builder;
use crate::error::Error;
use crate::extern_path::ExternPaths;
use crate::registry::Registry;
use crate::schema::{Field, Message, Module, Shape, Type, Unit};

/// Adds structs for all requested messages, and for the messages that they reach through fields, to
/// the units that contain these messages.
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

/// Returns the names of the requested messages, and of the messages that they reach through fields.
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
        // A message that is not generated here is covered by an extern path.
        if let Some(message) = generated.get(name)
            && wanted.insert(name.to_owned())
        {
            pending.extend(message.fields.iter().filter_map(message_name));
        }
    }
    Ok(wanted)
}

/// Returns true if `message` is `name`, or is declared inside the message or package `name`.
fn covers(name: &str, message: &str) -> bool {
    !name.is_empty()
        && message
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Suggests a name for a request that was not found: the request with a dot in front, or a message
/// whose last part is equal except for letter case.
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

/// Returns all messages of a module and of the modules inside it, each with the path of its module.
fn messages(module: &Module) -> Vec<(&[String], &Message)> {
    let own = module.messages.iter();
    let mut found: Vec<_> = own.map(|it| (module.path.as_slice(), it)).collect();
    for inner in &module.modules {
        found.extend(messages(inner));
    }
    found
}

/// Returns the message type of a field, or of the values of a map field.
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
