//! Places in a configuration, for error messages.

use std::fmt;

use crate::error::ConfigError;

/// The place of a field in a configuration, as a chain of fields from the root. Displays as a path
/// such as `data_sources[1].config.name`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The field that contains this one; `None` for the whole configuration.
    parent: Option<&'a Self>,
    name: &'a str,
    /// The index of the element, in a repeated field.
    index: Option<usize>,
}

impl Place<'_> {
    /// The whole configuration; its path is empty.
    pub(crate) const ROOT: Self = Place {
        parent: None,
        name: "",
        index: None,
    };

    /// Returns the place of field `name` in the message at this place.
    pub(crate) const fn field<'b>(&'b self, name: &'b str) -> Place<'b> {
        Place {
            parent: Some(self),
            name,
            index: None,
        }
    }

    /// Returns the place of element `index` of the repeated field `name`, in the message at this
    /// place.
    pub(crate) const fn item<'b>(&'b self, name: &'b str, index: usize) -> Place<'b> {
        Place {
            parent: Some(self),
            name,
            index: Some(index),
        }
    }

    /// Returns the error for a wrong value at this place.
    pub(crate) fn invalid(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::Invalid {
            field: self.to_string(),
            reason: reason.into(),
        }
    }

    /// Returns the error for a field that is not supported.
    pub(crate) fn unsupported(&self, remedy: &'static str) -> ConfigError {
        ConfigError::Unsupported {
            field: self.to_string(),
            remedy,
        }
    }

    /// Returns the error for an enum's value that is unknown or not supported.
    pub(crate) fn unsupported_value(&self, number: i32) -> ConfigError {
        self.invalid(format!("the value {number} is not supported"))
    }

    /// Returns the error for bytes that do not have the form of the schema.
    pub(crate) fn malformed(&self, error: impl fmt::Display) -> ConfigError {
        ConfigError::Malformed {
            field: self.to_string(),
            reason: error.to_string(),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.parent else {
            return Ok(());
        };
        parent.fmt(f)?;
        if parent.parent.is_some() {
            f.write_str(".")?;
        }
        f.write_str(self.name)?;
        match self.index {
            Some(index) => write!(f, "[{index}]"),
            None => Ok(()),
        }
    }
}
