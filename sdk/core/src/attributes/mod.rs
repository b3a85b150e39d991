//! The attributes of a trace: which machine, boot, service and version it comes from, and what its user
//! adds.
//!
//! Attributes have OpenTelemetry's names, so that a trace can be joined with the metrics, logs and
//! distributed traces of the same service. Perfetto's trace processor lists them in its table `metadata`,
//! as `trace_attribute.service.name` and so on.

pub mod keys; // names of attributes

use protozero::HeapBuffered;

use crate::protos;
use crate::protos::owned::trace_attributes::{Attribute, attribute};
use crate::small_map::SmallMap;

/// The value of an attribute of a trace.
///
/// ```
/// use tracezero::{TraceAttributeValue, TraceConfig};
///
/// let config = TraceConfig::default()
///     .add_trace_attribute("com.example.branch", "main")
///     .add_trace_attribute("com.example.build", TraceAttributeValue::Long(1207));
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceAttributeValue {
    /// An integer.
    Long(i64),
    /// A string.
    Text(String),
}

impl From<i64> for TraceAttributeValue {
    fn from(value: i64) -> Self {
        Self::Long(value)
    }
}

impl From<&str> for TraceAttributeValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for TraceAttributeValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// Attributes of a trace, each key once, in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceAttributes {
    by_key: SmallMap<String, TraceAttributeValue>,
}

impl TraceAttributes {
    /// Creates a set without attributes.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            by_key: SmallMap::new(),
        }
    }

    /// Sets an attribute. An earlier value of the key is replaced.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<TraceAttributeValue>) {
        self.by_key.insert(key.into(), value.into());
    }

    /// Sets all attributes of `others`.
    pub fn put_over(&mut self, others: &Self) {
        for (key, value) in others.iter() {
            self.set(key, value.clone());
        }
    }

    /// Sets the attributes of a message. Those without a key or a value are left out.
    pub fn put_message_over(&mut self, message: &[Attribute]) {
        for attribute in message {
            if let (Some(key), Some(value)) = (&attribute.key, &attribute.value) {
                self.set(key.as_str(), value.clone());
            }
        }
    }

    /// Returns the value of an attribute.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&TraceAttributeValue> {
        self.by_key.get(key)
    }

    /// Returns the value of an attribute that is a string.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            TraceAttributeValue::Text(text) => Some(text),
            TraceAttributeValue::Long(_) => None,
        }
    }

    /// Returns the attributes in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TraceAttributeValue)> {
        self.by_key.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the number of attributes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns whether there is no attribute.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Encodes the attributes as the message `perfetto.protos.TraceAttributes`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut buffer = HeapBuffered::<protos::TraceAttributes<'_>>::new();
        let mut message = buffer.message();
        for (key, value) in self.iter() {
            message.add_attribute(|attribute| {
                attribute.set_key(key);
                match value {
                    TraceAttributeValue::Long(value) => attribute.set_long_value(*value),
                    TraceAttributeValue::Text(value) => attribute.set_string_value(value),
                };
            });
        }
        drop(message);
        buffer.to_vec()
    }
}

impl From<TraceAttributeValue> for attribute::Value {
    fn from(value: TraceAttributeValue) -> Self {
        match value {
            TraceAttributeValue::Long(value) => Self::LongValue(value),
            TraceAttributeValue::Text(value) => Self::StringValue(value),
        }
    }
}

impl From<attribute::Value> for TraceAttributeValue {
    fn from(value: attribute::Value) -> Self {
        match value {
            attribute::Value::LongValue(value) => Self::Long(value),
            attribute::Value::StringValue(value) => Self::Text(value),
        }
    }
}
