//! Arguments of events, as the rows of a lake's table `args`.

use perfetto_protos::debug_annotation::DebugAnnotation;
use perfetto_protos::debug_annotation::debug_annotation::Value as ArgumentValue;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::{
    Correlation_id_field as Correlation, Source_location_field,
};

use crate::texts::Texts;

/// An argument that is neither a dictionary nor an array.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArgRow {
    /// The names of the argument and of the dictionaries around it, without indexes.
    pub(crate) flat_key: String,
    pub(crate) key: String,
    pub(crate) value_type: &'static str,
    pub(crate) int: Option<i64>,
    /// The bits of a floating-point number.
    pub(crate) real: Option<u64>,
    pub(crate) text: Option<String>,
}

/// Returns the arguments of an event: annotations, the place in the source code, and the id of a
/// correlation. Messages are left out, since the names of their fields are not in the trace.
pub(crate) fn arg_rows(event: &TrackEvent, texts: &Texts<'_>) -> Vec<ArgRow> {
    let mut rows = ArgRows {
        texts,
        rows: Vec::new(),
    };
    for annotation in &event.debug_annotations {
        let name = texts.argument(annotation).0;
        if !name.is_empty() {
            let key = format!("debug.{}", escaped(&name));
            rows.add(&key, &key, annotation);
        }
    }
    let location = match &event.source_location_field {
        Some(Source_location_field::SourceLocation(location)) => Some(location.clone()),
        Some(Source_location_field::SourceLocationIid(iid)) => texts.location(*iid),
        _ => None,
    };
    if let Some(location) = location {
        rows.push_text("source.file_name", location.file_name());
        rows.push_text("source.function_name", location.function_name());
        let line = Some(location.line_number().into());
        rows.push("source.line_number", "int", line);
    }
    match &event.correlation_id_field {
        Some(Correlation::CorrelationId(id)) => {
            rows.push("correlation_id", "uint", Some(id.cast_signed()));
        }
        Some(Correlation::CorrelationIdStr(text)) => rows.push_text("correlation_id", text),
        Some(Correlation::CorrelationIdStrIid(iid)) => {
            let text = texts.of("correlation_id_str", *iid);
            rows.push_text("correlation_id", &text.unwrap_or_default());
        }
        _ => {}
    }
    rows.rows
}

struct ArgRows<'a> {
    texts: &'a Texts<'a>,
    rows: Vec<ArgRow>,
}

impl ArgRows<'_> {
    fn add(&mut self, flat_key: &str, key: &str, annotation: &DebugAnnotation) {
        for entry in &annotation.dict_entries {
            let name = escaped(&self.texts.argument(entry).0);
            self.add(
                &format!("{flat_key}.{name}"),
                &format!("{key}.{name}"),
                entry,
            );
        }
        for (index, item) in annotation.array_values.iter().enumerate() {
            self.add(flat_key, &format!("{key}[{index}]"), item);
        }
        let int = |value: &u64| Some(value.cast_signed());
        let (value_type, int, real, text) = match &annotation.value {
            Some(ArgumentValue::BoolValue(value)) => ("bool", Some((*value).into()), None, None),
            Some(ArgumentValue::UintValue(value)) => ("uint", int(value), None, None),
            Some(ArgumentValue::PointerValue(value)) => ("pointer", int(value), None, None),
            Some(ArgumentValue::IntValue(value)) => ("int", Some(*value), None, None),
            Some(ArgumentValue::DoubleValue(value)) => ("real", None, Some(value.to_bits()), None),
            Some(ArgumentValue::StringValue(text)) => ("string", None, None, Some(text.clone())),
            Some(ArgumentValue::StringValueIid(iid)) => {
                let text = self.texts.of("debug_annotation_string_values", *iid);
                ("string", None, None, Some(text.unwrap_or_default()))
            }
            Some(ArgumentValue::LegacyJsonValue(text)) => ("json", None, None, Some(text.clone())),
            _ => return,
        };
        self.rows.push(ArgRow {
            flat_key: flat_key.to_owned(),
            key: key.to_owned(),
            value_type,
            int,
            real,
            text,
        });
    }

    fn push_text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.push(key, "string", None);
            let row = self.rows.last_mut().expect("the row that was pushed");
            row.text = Some(text.to_owned());
        }
    }

    fn push(&mut self, key: &str, value_type: &'static str, int: Option<i64>) {
        self.rows.push(ArgRow {
            flat_key: key.to_owned(),
            key: key.to_owned(),
            value_type,
            int,
            real: None,
            text: None,
        });
    }
}

/// Replaces what would make a name look like a nested argument.
fn escaped(name: &str) -> String {
    name.replace(['.', '[', ']'], "_")
}
