//! Resolves the interned ids of events to texts.

use perfetto_protos::debug_annotation::DebugAnnotation;
use perfetto_protos::debug_annotation::debug_annotation::{
    Name_field as ArgumentName, Value as ArgumentValue,
};
use perfetto_protos::source_location::SourceLocation;

use crate::Value;
use crate::sequence::Sequence;

/// The interned texts of a sequence. Ids without a definition were reported before.
pub(crate) struct Texts<'a> {
    pub(crate) sequence: &'a Sequence,
}

impl Texts<'_> {
    pub(crate) fn of(&self, table: &str, iid: u64) -> Option<String> {
        let entry = self.sequence.state.as_ref()?.interned(table, iid)?;
        let text = ["name", "str", "body"]
            .into_iter()
            .find_map(|field| entry.get(field))?;
        Some(text.as_str()?.to_owned())
    }

    pub(crate) fn location(&self, iid: u64) -> Option<SourceLocation> {
        let entry = self
            .sequence
            .state
            .as_ref()?
            .interned("source_locations", iid)?;
        let text = |field| entry.get(field).and_then(Value::as_str).map(str::to_owned);
        let line = entry.get("line_number").and_then(Value::as_u64);
        let mut location = SourceLocation::new();
        location.iid = Some(iid);
        location.file_name = text("file_name");
        location.function_name = text("function_name");
        location.line_number = line.and_then(|line| u32::try_from(line).ok());
        Some(location)
    }

    pub(crate) fn argument(&self, argument: &DebugAnnotation) -> (String, Value) {
        let name = match &argument.name_field {
            Some(ArgumentName::Name(name)) => Some(name.clone()),
            Some(ArgumentName::NameIid(iid)) => self.of("debug_annotation_names", *iid),
            _ => None,
        };
        (name.unwrap_or_default(), self.argument_value(argument))
    }

    fn argument_value(&self, argument: &DebugAnnotation) -> Value {
        match &argument.value {
            Some(ArgumentValue::BoolValue(value)) => Value::Bool(*value),
            Some(ArgumentValue::UintValue(value) | ArgumentValue::PointerValue(value)) => {
                Value::Uint(*value)
            }
            Some(ArgumentValue::IntValue(value)) => Value::Int(*value),
            Some(ArgumentValue::DoubleValue(value)) => Value::Double(*value),
            Some(ArgumentValue::StringValue(text) | ArgumentValue::LegacyJsonValue(text)) => {
                Value::Text(text.clone())
            }
            Some(ArgumentValue::StringValueIid(iid)) => Value::Text(
                self.of("debug_annotation_string_values", *iid)
                    .unwrap_or_default(),
            ),
            Some(ArgumentValue::NestedValue(nested)) => Value::of_message(nested),
            _ if !argument.array_values.is_empty() => {
                let items = argument.array_values.iter();
                Value::Array(items.map(|item| self.argument_value(item)).collect())
            }
            _ => match &argument.proto_value {
                Some(bytes) => Value::Bytes(bytes.clone()),
                None => Value::Dict(
                    argument
                        .dict_entries
                        .iter()
                        .map(|entry| self.argument(entry))
                        .collect(),
                ),
            },
        }
    }
}
