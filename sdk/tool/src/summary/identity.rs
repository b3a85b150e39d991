//! Says which service, version and machine a trace comes from.

use std::io::{self, Write};

use serde_json::{Value, json};
use tracezero_core::attributes::keys;
use tracezero_reader::{TraceAttributeValue, TraceIdentity};

use crate::table::printable;

/// The attributes that have places of their own in the text.
const NAMED: [&str; 7] = [
    keys::SERVICE_NAME,
    keys::SERVICE_VERSION,
    keys::HOST_NAME,
    keys::HOST_ID,
    keys::HOST_BOOT_ID,
    keys::PROCESS_PID,
    keys::PROCESS_EXECUTABLE_NAME,
];
/// The prefix of attributes about the library that recorded, which only the JSON has.
const OF_LIBRARY: &str = "telemetry.sdk.";

/// Prints lines for the head of a summary: of each identity the service, the machine unless it is the
/// machine of the identity before, and other attributes.
pub(super) fn print(identities: &[TraceIdentity], out: &mut impl Write) -> io::Result<()> {
    let mut last_host = Vec::new();
    for identity in identities {
        line("service", &service(identity), out)?;
        let host = host(identity);
        if host != last_host {
            line("host", &host, out)?;
            last_host = host;
        }
        line("attributes", &others(identity), out)?;
    }
    Ok(())
}

/// Prints the parts as one line, if there are any.
fn line(label: &str, parts: &[String], out: &mut impl Write) -> io::Result<()> {
    match parts {
        [] => Ok(()),
        parts => writeln!(out, "{label:<10} {}", printable(&parts.join(", "))),
    }
}

fn service(identity: &TraceIdentity) -> Vec<String> {
    let name = identity.service_name().map(|name| {
        let version = identity.service_version();
        version.map_or_else(|| name.to_owned(), |version| format!("{name} {version}"))
    });
    let executable = identity.executable_name();
    let executable = executable.filter(|it| Some(*it) != identity.service_name());
    let process = match (executable, identity.process_pid()) {
        (Some(name), Some(pid)) => Some(format!("process {pid} ({name})")),
        (None, Some(pid)) => Some(format!("process {pid}")),
        (Some(name), None) => Some(format!("program {name}")),
        (None, None) => None,
    };
    [name, process].into_iter().flatten().collect()
}

fn host(identity: &TraceIdentity) -> Vec<String> {
    let name = identity.host_name().map(ToOwned::to_owned);
    let id = identity.host_id().map(|id| format!("id {id}"));
    let boot = identity.host_boot_id().map(|boot| format!("boot {boot}"));
    [name, id, boot].into_iter().flatten().collect()
}

fn others(identity: &TraceIdentity) -> Vec<String> {
    let others = identity
        .attributes()
        .filter(|(key, _)| !NAMED.contains(key) && !key.starts_with(OF_LIBRARY));
    others
        .map(|(key, value)| match value {
            TraceAttributeValue::Long(value) => format!("{key}={value}"),
            TraceAttributeValue::Text(value) => format!("{key}={value}"),
            _ => key.to_owned(),
        })
        .collect()
}

/// Returns an identity as JSON.
pub(super) fn as_json(identity: &TraceIdentity) -> Value {
    let attributes = identity.attributes().map(|(key, value)| {
        let value = match value {
            TraceAttributeValue::Long(value) => json!(value),
            TraceAttributeValue::Text(value) => json!(value),
            _ => Value::Null,
        };
        (key.to_owned(), value)
    });
    let attributes: serde_json::Map<String, Value> = attributes.collect();
    json!({ "machine_id": identity.machine_id(), "attributes": attributes })
}
