//! Reads the arguments of an event for a page: annotations, and its other fields.

use tracezero_reader::{Arg, ArgValue, Args, Correlation, Event};

use super::args::{ArgsId, ArgsTable, ArgsWriter, ListKind, Scalar};
use super::strings::StringTable;

/// Adds arguments to the tables of a page.
#[derive(Debug, Default)]
pub(crate) struct ArgsReader {
    writer: ArgsWriter,
}

impl ArgsReader {
    /// Adds everything in an event except its name, categories and flows.
    pub(crate) fn read(
        &mut self,
        event: &Event<'_>,
        strings: &mut StringTable,
        table: &mut ArgsTable,
    ) -> ArgsId {
        self.writer.clear();
        self.list(event.args(), strings);
        if let Some(location) = event.location() {
            let place = match location.line {
                0 => location.file.to_owned(),
                line => format!("{}:{line}", location.file),
            };
            self.text("source", &place, strings);
            self.text("function", location.function, strings);
        }
        if let Some(line) = event.log_line() {
            self.text("log", line.body, strings);
        }
        match event.correlation() {
            Some(Correlation::Id(id)) => self.scalar("correlation", Scalar::Unsigned(id), strings),
            Some(Correlation::Text(id)) => self.text("correlation", id, strings),
            None => {}
        }
        for field in event.extension_fields() {
            self.field(field, strings);
        }
        table.add(&self.writer)
    }

    /// Adds every argument. No argument may be left out, because the length of a list is written
    /// before its arguments.
    fn list(&mut self, args: Args<'_>, strings: &mut StringTable) {
        for Arg { name, value, .. } in args {
            match value {
                ArgValue::None => self.put_text(&name, "", strings),
                ArgValue::Bool(value) => self.scalar(&name, Scalar::Bool(value), strings),
                ArgValue::Uint(value) => self.scalar(&name, Scalar::Unsigned(value), strings),
                ArgValue::Int(value) => self.scalar(&name, Scalar::Signed(value), strings),
                ArgValue::Double(value) => self.scalar(&name, Scalar::Floating(value), strings),
                ArgValue::Pointer(value) => self.scalar(&name, Scalar::Pointer(value), strings),
                ArgValue::Text(text) | ArgValue::Json(text) => {
                    self.put_text(&name, &text, strings);
                }
                ArgValue::Dict(entries) => {
                    self.nested(&name, ListKind::Dictionary, entries, strings);
                }
                ArgValue::Array(items) => self.nested(&name, ListKind::Array, items, strings),
                ArgValue::Message { type_name, bytes } => {
                    let text = format!("{type_name}, {} bytes", bytes.len());
                    self.put_text(&name, &text, strings);
                }
                // Kinds added to the reader later.
                _ => self.put_text(&name, "(unknown kind)", strings),
            }
        }
    }

    fn nested(&mut self, name: &str, kind: ListKind, args: Args<'_>, strings: &mut StringTable) {
        let key = strings.add(name);
        self.writer.list(key, kind, args.clone().count());
        self.list(args, strings);
    }

    /// Adds a field of a producer's own schema. The name of the field is not known here.
    fn field(&mut self, field: protozero::Field<'_>, strings: &mut StringTable) {
        let name = format!("field {}", field.number);
        match field.value {
            protozero::Value::Varint(value) => self.scalar(&name, Scalar::Unsigned(value), strings),
            protozero::Value::Fixed32(value) => {
                self.scalar(&name, Scalar::Unsigned(value.into()), strings);
            }
            protozero::Value::Fixed64(value) => {
                self.scalar(&name, Scalar::Unsigned(value), strings);
            }
            protozero::Value::Bytes(bytes) => match str::from_utf8(bytes) {
                Ok(text) if !text.chars().any(char::is_control) => {
                    self.put_text(&name, text, strings);
                }
                _ => self.text(&name, &format!("{} bytes", bytes.len()), strings),
            },
        }
    }

    fn scalar(&mut self, name: &str, value: Scalar, strings: &mut StringTable) {
        let key = strings.add(name);
        self.writer.scalar(key, value);
    }

    /// Adds a text, unless it is empty.
    fn text(&mut self, name: &str, text: &str, strings: &mut StringTable) {
        if !text.is_empty() {
            self.put_text(name, text, strings);
        }
    }

    fn put_text(&mut self, name: &str, text: &str, strings: &mut StringTable) {
        let text = strings.add(text);
        self.scalar(name, Scalar::String(text), strings);
    }
}
