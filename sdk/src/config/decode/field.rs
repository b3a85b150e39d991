//! One field of an encoded configuration, and its place.

use std::fmt;

use protozero::types::{self, FieldType};
use protozero::{Decoder, Field};

use super::super::ConfigError;
use super::super::place::Place;
use super::unsupported::unsupported_number;

/// Wire type of a tag that begins a group.
const GROUP_START: u8 = 3;

/// Hands each field of a message to `read`. `message` is the name of its type.
pub(super) fn read_message(
    message: &'static str,
    bytes: &[u8],
    at: &Place<'_>,
    mut read: impl FnMut(FieldAt<'_, '_>) -> Result<(), ConfigError>,
) -> Result<(), ConfigError> {
    let mut fields = Decoder::new(bytes).fields();
    loop {
        let start = fields.offset();
        // The decoder skips groups, and no configuration has any.
        if bytes.get(start).is_some_and(|tag| tag & 7 == GROUP_START) {
            return Err(malformed(at, "groups are not supported"));
        }
        let Some(field) = fields.next() else {
            return Ok(());
        };
        read(FieldAt {
            message,
            at,
            field: field.map_err(|error| malformed(at, error))?,
            encoded: &bytes[start..fields.offset()],
        })?;
    }
}

/// A field of a message.
#[derive(Clone, Copy)]
pub(super) struct FieldAt<'a, 'b> {
    /// Name of the message's type.
    message: &'static str,
    /// Where the message is.
    at: &'a Place<'a>,
    field: Field<'b>,
    /// Its tag and value.
    encoded: &'b [u8],
}

/// The bytes of a message, and where it is.
pub(super) struct MessageAt<'a, 'b> {
    pub(super) at: Place<'a>,
    bytes: &'b [u8],
}

impl<'a, 'b> FieldAt<'a, 'b> {
    pub(super) const fn number(&self) -> u32 {
        self.field.number
    }

    /// The field with its tag, as it is on the wire.
    pub(super) const fn encoded(&self) -> &'b [u8] {
        self.encoded
    }

    /// Where field `name` is: this one.
    pub(super) const fn place(&self, name: &'static str) -> Place<'a> {
        self.at.field(name)
    }

    fn value<T: FieldType>(&self, name: &'static str) -> Result<T::Value<'b>, ConfigError> {
        T::from_field(self.field).map_err(|error| malformed(&self.place(name), error))
    }

    pub(super) fn bool(&self, name: &'static str) -> Result<bool, ConfigError> {
        self.value::<types::Bool>(name)
    }

    /// Numbers of more than 32 bits are refused; most readers of protobuf would cut them off.
    pub(super) fn u32(&self, name: &'static str) -> Result<u32, ConfigError> {
        let value = self.u64(name)?;
        u32::try_from(value).map_err(|_| {
            let reason = format!("{value} is more than {}", u32::MAX);
            self.place(name).invalid(reason)
        })
    }

    pub(super) fn u64(&self, name: &'static str) -> Result<u64, ConfigError> {
        self.value::<types::Uint64>(name)
    }

    pub(super) fn i32(&self, name: &'static str) -> Result<i32, ConfigError> {
        let value = self.i64(name)?;
        i32::try_from(value).map_err(|_| {
            let reason = format!("{value} is not within {} to {}", i32::MIN, i32::MAX);
            self.place(name).invalid(reason)
        })
    }

    pub(super) fn i64(&self, name: &'static str) -> Result<i64, ConfigError> {
        self.value::<types::Int64>(name)
    }

    pub(super) fn f64(&self, name: &'static str) -> Result<f64, ConfigError> {
        self.value::<types::Double>(name)
    }

    pub(super) fn string(&self, name: &'static str) -> Result<String, ConfigError> {
        self.value::<types::Str>(name).map(str::to_owned)
    }

    /// `None` if the string is empty, which means the same as no string.
    pub(super) fn name(&self, name: &'static str) -> Result<Option<String>, ConfigError> {
        Ok(Some(self.string(name)?).filter(|text| !text.is_empty()))
    }

    /// An enum's value, one of `known`: each is a number and what it means.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &'static str,
        known: &[(i32, T)],
    ) -> Result<T, ConfigError> {
        let number = self.i32(name)?;
        known
            .iter()
            .find(|(value, _)| *value == number)
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| {
                self.place(name)
                    .invalid(format!("the value {number} is not supported"))
            })
    }

    pub(super) fn message(&self, name: &'static str) -> Result<MessageAt<'a, 'b>, ConfigError> {
        Ok(MessageAt {
            at: self.place(name),
            bytes: self.value::<types::Bytes>(name)?,
        })
    }

    /// Element `index` of a repeated message.
    pub(super) fn item(
        &self,
        name: &'static str,
        index: usize,
    ) -> Result<MessageAt<'a, 'b>, ConfigError> {
        let at = self.at.item(name, index);
        match types::Bytes::from_field(self.field) {
            Ok(bytes) => Ok(MessageAt { at, bytes }),
            Err(error) => Err(malformed(&at, error)),
        }
    }

    /// The field is not supported, or not even known.
    pub(super) fn refuse(&self) -> ConfigError {
        match unsupported_number(self.message, self.number()) {
            Some(field) => self.place(field.name).unsupported(field.remedy),
            None => ConfigError::UnknownField {
                message: self.at.to_string(),
                number: self.number(),
            },
        }
    }
}

impl MessageAt<'_, '_> {
    /// Hands each field to `read`. `message` is the name of the message's type.
    pub(super) fn read(
        &self,
        message: &'static str,
        read: impl FnMut(FieldAt<'_, '_>) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        read_message(message, self.bytes, &self.at, read)
    }
}

fn malformed(at: &Place<'_>, error: impl fmt::Display) -> ConfigError {
    ConfigError::Malformed {
        field: at.to_string(),
        reason: error.to_string(),
    }
}
