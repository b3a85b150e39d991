//! Encodes a tree of names and values as protobuf, with the field numbers and types of the schema.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use protozero::append_varint;

use super::Position;
use super::suggest::similar;
use super::tree::{Field, Message, Value};
use crate::error::ConfigError;
use crate::place::Place;
use crate::schema::{self, FieldType, Kind, MessageType};
use crate::unsupported::unsupported_name;

// Wire types, as in the tag of a field.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const DELIMITED: u8 = 2;

/// Names of fields in `DataSourceConfig` that configure a particular data source. Their message
/// types are not part of this crate's schema.
static SOURCE_SPECIFIC: [&str; 40] = [
    "android_aflags_config",
    "android_game_intervention_list_config",
    "android_input_event_config",
    "android_log_config",
    "android_polled_state_config",
    "android_power_config",
    "android_sdk_sysprop_guard_config",
    "android_system_property_config",
    "app_wakelocks_config",
    "chrome_config",
    "chromium_histogram_samples",
    "chromium_sampling_heap_profiler",
    "chromium_stack_sampling_profiler",
    "chromium_system_metrics",
    "cpu_per_uid_config",
    "display_video_config",
    "etw_config",
    "for_testing",
    "frozen_ftrace_config",
    "gpu_counter_config",
    "gpu_renderstages_config",
    "heapprofd_config",
    "inode_file_config",
    "inputmethod_config",
    "java_hprof_config",
    "journald_config",
    "kernel_wakelocks_config",
    "network_packet_trace_config",
    "packages_list_config",
    "perf_event_config",
    "pixel_modem_config",
    "protolog_config",
    "qnx_config",
    "statsd_tracing_config",
    "surfaceflinger_layers_config",
    "surfaceflinger_transactions_config",
    "user_list_config",
    "v8_config",
    "vulkan_memory_config",
    "windowmanager_config",
];

/// An encoded configuration, with the positions of its fields in the text.
#[derive(Debug, Default)]
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    /// The position of each field, by its path.
    positions: HashMap<String, Position>,
}

impl Encoded {
    /// Returns the position of the field with this path, or of the innermost message around it that
    /// is in the text.
    pub(super) fn position(&self, path: &str) -> Position {
        let mut path = path;
        loop {
            if let Some(position) = self.positions.get(path) {
                return *position;
            }
            match path.rsplit_once(['.', '[']) {
                Some((parent, _)) => path = parent,
                None => return Position { line: 1, column: 1 },
            }
        }
    }
}

/// Encodes the tree of a text.
pub(super) fn encode(tree: &Message) -> Result<Encoded, ConfigError> {
    let mut encoded = Encoded::default();
    encoded.bytes = message(tree, schema::ROOT, &Place::ROOT, &mut encoded.positions)?;
    Ok(encoded)
}

type Positions = HashMap<String, Position>;

/// Encodes a message whose type is `message_type`. Notes the position of each field in `positions`.
fn message(
    tree: &Message,
    message_type: &'static MessageType,
    at: &Place<'_>,
    positions: &mut Positions,
) -> Result<Vec<u8>, ConfigError> {
    let mut out = Vec::new();
    let mut count_by_number = HashMap::new();
    let mut name_by_oneof = HashMap::new();
    for field in &tree.fields {
        let at_field = at.field(&field.name);
        let field_type = field_type(field, message_type, at)?;
        if field.is_list && !field_type.repeated {
            return Err(field
                .at
                .error(at_field.invalid("takes one value, not a list")));
        }
        for value in &field.values {
            let count = count_by_number.entry(field_type.number).or_insert(0);
            let at_value = match field_type.repeated {
                true => at.item(&field.name, *count),
                false => at_field,
            };
            if *count > 0 && !field_type.repeated {
                return Err(field
                    .at
                    .error(at_value.invalid("is given twice; remove one")));
            }
            *count += 1;
            if let Some(oneof) = field_type.oneof
                && let Some(other) = name_by_oneof.insert(oneof, field_type.name)
            {
                let reason = format!("conflicts with {other}, which is given before; remove one");
                return Err(field.at.error(at_value.invalid(reason)));
            }
            positions.insert(at_value.to_string(), field.at);
            self::value(value, field, field_type, &at_value, positions, &mut out)?;
        }
    }
    Ok(out)
}

/// Looks up a field by its name.
fn field_type(
    field: &Field,
    message_type: &'static MessageType,
    at: &Place<'_>,
) -> Result<&'static FieldType, ConfigError> {
    let name = field.name.as_str();
    let at = at.field(name);
    if let Some(unsupported) = unsupported_name(message_type.name, name) {
        return Err(field.at.error(at.unsupported(unsupported.remedy)));
    }
    if let Some(field_type) = message_type.field(name) {
        return Ok(field_type);
    }
    if message_type.name == "DataSourceConfig" {
        if let Some(field_type) = schema::SOURCE_CONFIGS.field(name) {
            return Ok(field_type);
        }
        if SOURCE_SPECIFIC.contains(&name) {
            return Err(field.at.error(at.unsupported(
                "leave it out, or decode the configuration from protobuf (this crate passes its bytes \
                 on, but does not have its schema)",
            )));
        }
    }
    let names = message_type.fields.iter().map(|field| field.name);
    let meant = path_within(message_type, name).or_else(|| similar(name, names).map(str::to_owned));
    Err(field.at.error(at.invalid(match meant {
        Some(meant) => format!("unknown field: did you mean {meant}?"),
        None => "unknown field".to_owned(),
    })))
}

/// Finds a field with this name in the messages inside this message, and returns its path. If
/// several messages have the field, returns the first path in the order of the schema.
fn path_within(message_type: &MessageType, name: &str) -> Option<String> {
    message_type.fields.iter().find_map(|field| {
        let Kind::Message(inner) = field.kind else {
            return None;
        };
        let path = match inner.field(name) {
            Some(found) => found.name.to_owned(),
            None => path_within(inner, name)?,
        };
        Some(format!("{}.{path}", field.name))
    })
}

/// Appends a field with one value to `out`.
fn value(
    value: &Value,
    field: &Field,
    field_type: &'static FieldType,
    at: &Place<'_>,
    positions: &mut Positions,
    out: &mut Vec<u8>,
) -> Result<(), ConfigError> {
    let number = field_type.number;
    let invalid = |reason: String| field.at.error(at.invalid(reason));
    match &field_type.kind {
        Kind::Message(message_type) => match value {
            Value::Message(tree) => {
                let bytes = message(tree, message_type, at, positions)?;
                append_delimited(out, number, &bytes);
            }
            other => {
                return Err(invalid(format!(
                    "{} is not a message in braces",
                    shown(other)
                )));
            }
        },
        Kind::String | Kind::Bytes => match value {
            Value::Text(text) => {
                if matches!(field_type.kind, Kind::String) && std::str::from_utf8(text).is_err() {
                    return Err(invalid(format!("{} is not UTF-8", shown(value))));
                }
                append_delimited(out, number, text);
            }
            other => {
                return Err(invalid(format!(
                    "{} is not a string in quotes",
                    shown(other)
                )));
            }
        },
        Kind::Double => {
            let double = double(value).ok_or_else(|| invalid(not_a("a number", value)))?;
            append_tag(out, number, FIXED64);
            out.extend(double.to_le_bytes());
        }
        Kind::Bool => {
            let bool = bool(value).ok_or_else(|| invalid(not_a("true or false", value)))?;
            append_varint_field(out, number, bool.into());
        }
        Kind::Enum(values) => {
            let value = enum_value(value, values).map_err(invalid)?;
            append_varint_field(out, number, i64::from(value) as u64);
        }
        Kind::Uint32 => {
            let value = integer::<u32>(value, u32::MIN, u32::MAX).map_err(invalid)?;
            append_varint_field(out, number, value.into());
        }
        Kind::Uint64 => {
            let value = integer::<u64>(value, u64::MIN, u64::MAX).map_err(invalid)?;
            append_varint_field(out, number, value);
        }
        Kind::Int32 => {
            let value = integer::<i32>(value, i32::MIN, i32::MAX).map_err(invalid)?;
            append_varint_field(out, number, i64::from(value) as u64);
        }
        Kind::Int64 => {
            let value = integer::<i64>(value, i64::MIN, i64::MAX).map_err(invalid)?;
            append_varint_field(out, number, value as u64);
        }
    }
    Ok(())
}

/// Parses a whole number: decimal, hexadecimal after `0x`, or octal after `0`.
fn integer<T: TryFrom<i128> + Display>(value: &Value, min: T, max: T) -> Result<T, String> {
    let parsed = match value {
        Value::Number { negative, digits } => {
            let magnitude = match digits.as_bytes() {
                [b'0', b'x' | b'X', ..] => i128::from_str_radix(&digits[2..], 16),
                [b'0', _, ..] => i128::from_str_radix(&digits[1..], 8),
                _ => i128::from_str(digits),
            };
            let magnitude = magnitude.ok();
            magnitude.map(|magnitude| if *negative { -magnitude } else { magnitude })
        }
        _ => None,
    };
    let parsed = parsed.ok_or_else(|| not_a("a whole number", value))?;
    T::try_from(parsed).map_err(|_| format!("{parsed} is not within {min} to {max}"))
}

fn double(value: &Value) -> Option<f64> {
    let Value::Number { negative, digits } = value else {
        return None;
    };
    let number = digits.strip_suffix(['f', 'F']).unwrap_or(digits);
    let number = match number.bytes().next()? {
        b'0'..=b'9' | b'.' => number,
        // `inf` also ends with `f`, but that `f` is not a suffix: keep it.
        _ => digits,
    };
    let magnitude = f64::from_str(number).ok()?;
    Some(if *negative { -magnitude } else { magnitude })
}

fn bool(value: &Value) -> Option<bool> {
    match value {
        Value::Name(name) => match name.as_str() {
            "true" | "True" | "t" => Some(true),
            "false" | "False" | "f" => Some(false),
            _ => None,
        },
        Value::Number {
            negative: false,
            digits,
        } => match digits.as_str() {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the number of an enum's value, which is given by its name or its number.
fn enum_value(value: &Value, values: &[(&'static str, i32)]) -> Result<i32, String> {
    let written = match value {
        Value::Name(name) => name,
        Value::Number { .. } => {
            let number = integer::<i32>(value, i32::MIN, i32::MAX)?;
            return match values.iter().any(|&(_, known)| known == number) {
                true => Ok(number),
                false => Err(format!("unknown value {number}")),
            };
        }
        other => return Err(not_a("the name of a value", other)),
    };
    if let Some(&(_, number)) = values.iter().find(|(name, _)| name == written) {
        return Ok(number);
    }
    let names = values.iter().map(|&(name, _)| name);
    Err(match similar(written, names.clone()) {
        Some(similar) => format!("unknown value {written}: did you mean {similar}?"),
        None => {
            let names: Vec<_> = names.collect();
            format!("unknown value {written}: use one of {}", names.join(", "))
        }
    })
}

fn not_a(wanted: &str, value: &Value) -> String {
    format!("{} is not {wanted}", shown(value))
}

/// Returns the value roughly as it was written, for an error.
fn shown(value: &Value) -> String {
    match value {
        Value::Name(name) => name.clone(),
        Value::Number { negative, digits } => {
            format!("{}{digits}", if *negative { "-" } else { "" })
        }
        Value::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Value::Message(_) => "a message".to_owned(),
    }
}

fn append_tag(out: &mut Vec<u8>, number: u32, wire_type: u8) {
    append_varint(u64::from(number) << 3 | u64::from(wire_type), out);
}

fn append_varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    append_tag(out, number, VARINT);
    append_varint(value, out);
}

fn append_delimited(out: &mut Vec<u8>, number: u32, payload: &[u8]) {
    append_tag(out, number, DELIMITED);
    append_varint(payload.len() as u64, out);
    out.extend(payload);
}
