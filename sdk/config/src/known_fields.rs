//! Checks that the schema has each field of an encoded configuration, and that it allows the
//! field's value. Lists the other fields instead, if the configuration may have them.

use std::collections::HashMap;

use protozero::types::{self, FieldType as _};
use protozero::{Decoder, Field};
use tracezero_core::protos::DataSourceConfig;

use crate::error::ConfigError;
use crate::omissions::Omissions;
use crate::place::Place;
use crate::schema::{self, FieldType, Kind, MessageType};
use crate::unsupported::{Foreign, refuses_unknown_values, unsupported_number};

/// The wire type of a tag that begins a group.
const GROUP_START: u8 = 3;
/// The lowest number of a field in `DataSourceConfig` that is meant for the data source, not for
/// the service.
const SOURCE_SPECIFIC_FROM: u32 = 100;
/// The only field above [`SOURCE_SPECIFIC_FROM`] that is meant for the service.
const PREFER_SUSPEND_CLOCK: u32 = DataSourceConfig::PREFER_SUSPEND_CLOCK_FOR_DURATION_FIELD_NUMBER;

/// Checks an encoded `TraceConfig`.
pub(crate) fn check(bytes: &[u8], omissions: &mut Omissions) -> Result<(), ConfigError> {
    check_message(schema::ROOT, bytes, &Place::ROOT, omissions)
}

/// Checks an encoded `DataSourceConfig` that may only have fields meant for the data source. `at`
/// is its place in the configuration.
pub(crate) fn check_source_specific(fields: &[u8], at: &Place<'_>) -> Result<(), ConfigError> {
    for field in Decoder::new(fields).fields() {
        let number = field.map_err(|error| at.malformed(error))?.number;
        let is_for_service = number < SOURCE_SPECIFIC_FROM || number == PREFER_SUSPEND_CLOCK;
        if is_for_service && let Some(field) = schema::DATA_SOURCE_CONFIG.numbered(number) {
            let reason = "is not specific to the data source; use the method for it, or leave it to the service";
            return Err(at.field(field.name).invalid(reason));
        }
    }
    check_message(
        schema::DATA_SOURCE_CONFIG,
        fields,
        at,
        &mut Omissions::Refused,
    )
}

fn check_message(
    message_type: &'static MessageType,
    bytes: &[u8],
    at: &Place<'_>,
    omissions: &mut Omissions,
) -> Result<(), ConfigError> {
    let mut fields = Decoder::new(bytes).fields();
    let mut count_by_number = HashMap::new();
    loop {
        // Refuse groups: the schema has none, and the decoder would skip them silently.
        let tag = bytes.get(fields.offset());
        if tag.is_some_and(|tag| tag & 7 == GROUP_START) {
            return Err(at.malformed("groups are not supported"));
        }
        let Some(field) = fields.next() else {
            return Ok(());
        };
        let field = field.map_err(|error| at.malformed(error))?;
        if let Some(unsupported) = unsupported_number(message_type.name, field.number) {
            let at = at.field(unsupported.name);
            let is_accepted = match unsupported.foreign {
                Foreign::Ignored => omissions.ignores(&at),
                Foreign::PassedOn => omissions.is_foreign(),
                Foreign::Refused => false,
            };
            if !is_accepted {
                return Err(at.unsupported(unsupported.remedy));
            }
            continue;
        }
        let field_type = message_type.numbered(field.number);
        let is_source_specific = std::ptr::eq(message_type, schema::DATA_SOURCE_CONFIG)
            && field.number >= SOURCE_SPECIFIC_FROM
            && field.number != PREFER_SUSPEND_CLOCK;
        if is_source_specific && (field_type.is_none() || omissions.is_foreign()) {
            continue;
        }
        let Some(field_type) = field_type else {
            if !omissions.ignores(&at.field(&field.number.to_string())) {
                return Err(ConfigError::UnknownField {
                    message: at.to_string(),
                    number: field.number,
                });
            }
            continue;
        };
        if field_type.repeated {
            let count = count_by_number.entry(field.number).or_insert(0);
            let at = at.item(field_type.name, *count);
            check_value(field_type, field, &at, omissions)?;
            *count += 1;
        } else {
            check_value(field_type, field, &at.field(field_type.name), omissions)?;
        }
    }
}

fn check_value(
    field_type: &FieldType,
    field: Field<'_>,
    at: &Place<'_>,
    omissions: &mut Omissions,
) -> Result<(), ConfigError> {
    let value = match field_type.kind {
        Kind::Message(message_type) => {
            return match types::Bytes::from_field(field) {
                Ok(bytes) => check_message(message_type, bytes, at, omissions),
                Err(error) => Err(at.malformed(error)),
            };
        }
        Kind::Bool => types::Bool::from_field(field).map(drop),
        Kind::Uint64 => types::Uint64::from_field(field).map(drop),
        Kind::Int64 => types::Int64::from_field(field).map(drop),
        Kind::Double => types::Double::from_field(field).map(drop),
        Kind::String => types::Str::from_field(field).map(drop),
        Kind::Bytes => types::Bytes::from_field(field).map(drop),
        // Refuse larger numbers, which most protobuf decoders would silently truncate to 32 bits.
        Kind::Uint32 => match types::Uint64::from_field(field) {
            Ok(value) if u32::try_from(value).is_err() => {
                return Err(at.invalid(format!("{value} is more than {}", u32::MAX)));
            }
            value => value.map(drop),
        },
        Kind::Int32 | Kind::Enum(_) => match types::Int64::from_field(field) {
            Ok(value) => {
                let Ok(value) = i32::try_from(value) else {
                    let reason = format!("{value} is not within {} to {}", i32::MIN, i32::MAX);
                    return Err(at.invalid(reason));
                };
                if let Kind::Enum(known) = field_type.kind
                    && !known.iter().any(|(_, known)| *known == value)
                    && (refuses_unknown_values(field_type.name) || !omissions.ignores(at))
                {
                    return Err(at.unsupported_value(value));
                }
                Ok(())
            }
            Err(error) => Err(error),
        },
    };
    value.map_err(|error| at.malformed(error))
}
