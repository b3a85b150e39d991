//! The fields of a configuration, as the schema declares them. `table.rs` and `source_configs.rs` list
//! them; `tests/schema_table.rs` generates these files.

/// The type of a message.
#[derive(Debug)]
pub(crate) struct MessageType {
    /// The name without package and outer messages.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [FieldType],
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct FieldType {
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) repeated: bool,
    /// The index of the `oneof` that the field belongs to. At most one field of a `oneof` can be
    /// set.
    #[cfg_attr(
        not(feature = "text-config"),
        expect(dead_code, reason = "texts alone are checked for it")
    )]
    pub(crate) oneof: Option<i32>,
}

/// The type of a field.
#[derive(Debug)]
pub(crate) enum Kind {
    Bool,
    Uint32,
    Uint64,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    /// Names and numbers of the values.
    Enum(&'static [(&'static str, i32)]),
    Message(&'static MessageType),
}

impl MessageType {
    /// Returns the field with this name.
    #[cfg(feature = "text-config")]
    pub(crate) fn field(&self, name: &str) -> Option<&'static FieldType> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the field with this number.
    pub(crate) fn numbered(&self, number: u32) -> Option<&'static FieldType> {
        self.fields.iter().find(|field| field.number == number)
    }
}

/// The message `TraceConfig`.
pub(crate) static ROOT: &MessageType = &PERFETTO__PROTOS__TRACECONFIG;
/// The message `DataSourceConfig`.
pub(crate) static DATA_SOURCE_CONFIG: &MessageType = &PERFETTO__PROTOS__DATASOURCECONFIG;

include!("table.rs");

/// Fields of `DataSourceConfig` that configure data sources of Perfetto's daemon. Only a text is checked for
/// them: the service passes their bytes on.
#[cfg(feature = "text-config")]
mod source_configs {
    use super::{FieldType, Kind, MessageType};

    /// A message with these fields.
    pub(crate) static ROOT: &MessageType = &TRACEZERO__KERNEL__SOURCECONFIGS;

    include!("source_configs.rs");
}
#[cfg(feature = "text-config")]
pub(crate) use source_configs::ROOT as SOURCE_CONFIGS;
