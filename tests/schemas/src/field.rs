//! Fields and extensions of a message type, as the foreign library describes them.

use std::collections::BTreeMap;

use prost_reflect::{
    DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor, Value,
};

/// A field or extension of a message type.
#[derive(Debug, Clone)]
pub(crate) enum Field {
    Own(FieldDescriptor),
    Extension(ExtensionDescriptor),
}

/// Returns all fields and extensions of a message type.
pub(crate) fn all(of: &MessageDescriptor) -> Vec<Field> {
    let extensions: Vec<Field> = of.extensions().map(Field::Extension).collect();
    of.fields().map(Field::Own).chain(extensions).collect()
}

/// Returns the fields outside of oneofs, and the members of each oneof.
pub(crate) fn by_oneof(of: &MessageDescriptor) -> (Vec<Field>, Vec<Vec<Field>>) {
    let mut oneofs: BTreeMap<String, Vec<Field>> = BTreeMap::new();
    let mut singles = Vec::new();
    for field in all(of) {
        match field.oneof() {
            Some(oneof) => oneofs.entry(oneof).or_default().push(field),
            None => singles.push(field),
        }
    }
    (singles, oneofs.into_values().collect())
}

/// Evaluates an expression for either kind of field.
macro_rules! either {
    ($field:expr, $of:ident => $result:expr) => {
        match $field {
            Field::Own($of) => $result,
            Field::Extension($of) => $result,
        }
    };
}

impl Field {
    pub(crate) fn number(&self) -> u32 {
        either!(self, of => of.number())
    }

    pub(crate) fn kind(&self) -> Kind {
        either!(self, of => of.kind())
    }

    pub(crate) fn is_list(&self) -> bool {
        either!(self, of => of.is_list())
    }

    pub(crate) fn has_presence(&self) -> bool {
        either!(self, of => of.supports_presence())
    }

    /// Returns true if the field is repeated and may be packed.
    pub(crate) fn is_packable(&self) -> bool {
        self.is_list() && !matches!(self.kind(), Kind::Message(_) | Kind::String | Kind::Bytes)
    }

    /// Returns the key and value fields of a map's entries.
    pub(crate) fn entry(&self) -> Option<[Field; 2]> {
        let Kind::Message(entry) = self.kind() else {
            return None;
        };
        entry
            .is_map_entry()
            .then(|| [entry.map_entry_key_field(), entry.map_entry_value_field()].map(Field::Own))
    }

    /// Returns the full name of the oneof that the field is a member of.
    pub(crate) fn oneof(&self) -> Option<String> {
        let Field::Own(field) = self else {
            return None;
        };
        let oneof = field.containing_oneof()?;
        (!oneof.is_synthetic()).then(|| oneof.full_name().to_owned())
    }

    pub(crate) fn set(&self, message: &mut DynamicMessage, value: Value) {
        match self {
            Field::Own(field) => message.set_field(field, value),
            Field::Extension(field) => message.set_extension(field, value),
        }
    }

    /// Returns the value of this field in a message, if it is set.
    pub(crate) fn get(&self, message: &DynamicMessage) -> Option<Value> {
        match self {
            Field::Own(field) => message
                .has_field(field)
                .then(|| message.get_field(field).into_owned()),
            Field::Extension(field) => message
                .has_extension(field)
                .then(|| message.get_extension(field).into_owned()),
        }
    }
}
