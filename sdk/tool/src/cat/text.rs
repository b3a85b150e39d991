//! Prints a message in protobuf's text format.

use std::io::{self, Write};

use protozero::{Decoder, Value, split_varint};

use crate::schema::{FieldType, Kind, MessageId, Schema, UNKNOWN};

/// The maximum depth of nested messages. Deeper ones are printed as strings of bytes.
const MAX_DEPTH: usize = 64;

/// Writes messages as text.
#[derive(Debug)]
pub(super) struct TextWriter<'s> {
    pub(super) schema: &'s Schema,
    /// True to print field numbers instead of names, and values as encoded.
    pub(super) raw: bool,
}

impl TextWriter<'_> {
    /// Writes all fields of a message, one per line. If the message is malformed, ends with a
    /// comment.
    pub(super) fn message(
        &self,
        bytes: &[u8],
        message: MessageId,
        depth: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let mut fields = Decoder::new(bytes).fields();
        loop {
            match fields.next() {
                None => return Ok(()),
                Some(Err(error)) => {
                    indent(depth, out)?;
                    return writeln!(out, "# malformed: {error}");
                }
                Some(Ok(field)) => {
                    let field_type = match self.raw {
                        true => None,
                        false => self.schema.field(message, field.number),
                    };
                    match field_type {
                        Some(field_type) => self.known(field_type, field.value, depth, out)?,
                        None => self.unknown(field.number, field.value, depth, out)?,
                    }
                }
            }
        }
    }

    fn known(
        &self,
        field: &FieldType,
        value: Value<'_>,
        depth: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let name = &field.name;
        match (field.kind, value) {
            (Kind::Message(message), Value::Bytes(bytes)) if depth < MAX_DEPTH => {
                indent(depth, out)?;
                writeln!(out, "{name} {{")?;
                self.message(bytes, message, depth + 1, out)?;
                indent(depth, out)?;
                writeln!(out, "}}")
            }
            (Kind::String | Kind::Bytes | Kind::Message(_), Value::Bytes(bytes)) => {
                indent(depth, out)?;
                write!(out, "{name}: ")?;
                quoted(bytes, out)?;
                writeln!(out)
            }
            (kind, Value::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    let Some(value) = take_packed(kind, &mut packed) else {
                        indent(depth, out)?;
                        return writeln!(out, "# malformed: {name}");
                    };
                    self.scalar(field, value, depth, out)?;
                }
                Ok(())
            }
            (_, value) => self.scalar(field, value, depth, out),
        }
    }

    /// Writes a value that is a number or a boolean.
    fn scalar(
        &self,
        field: &FieldType,
        value: Value<'_>,
        depth: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        indent(depth, out)?;
        write!(out, "{}: ", field.name)?;
        match (field.kind, value) {
            (Kind::Bool, Value::Varint(value)) => write!(out, "{}", value != 0),
            (Kind::Int32 | Kind::Int64, Value::Varint(value)) => write!(out, "{}", value as i64),
            (Kind::Uint32 | Kind::Uint64, Value::Varint(value)) => write!(out, "{value}"),
            (Kind::Sint32 | Kind::Sint64, Value::Varint(value)) => {
                write!(out, "{}", (value >> 1) as i64 ^ -((value & 1) as i64))
            }
            (Kind::Enum(of), Value::Varint(value)) => {
                let number = value as i32;
                match self.schema.value(of, number) {
                    Some(name) => write!(out, "{name}"),
                    None => write!(out, "{number}"),
                }
            }
            (Kind::Double, Value::Fixed64(bits)) => float(f64::from_bits(bits), out),
            (Kind::Float, Value::Fixed32(bits)) => float(f32::from_bits(bits), out),
            (Kind::Sfixed64, Value::Fixed64(value)) => write!(out, "{}", value as i64),
            (Kind::Sfixed32, Value::Fixed32(value)) => write!(out, "{}", value as i32),
            (Kind::Fixed64, Value::Fixed64(value)) => write!(out, "{value}"),
            (Kind::Fixed32, Value::Fixed32(value)) => write!(out, "{value}"),
            // The value does not have the schema's type.
            (_, value) => wire_value(value, out),
        }?;
        writeln!(out)
    }

    fn unknown(
        &self,
        number: u32,
        value: Value<'_>,
        depth: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        indent(depth, out)?;
        match value {
            Value::Bytes(bytes) if depth < MAX_DEPTH && looks_like_message(bytes) => {
                writeln!(out, "{number} {{")?;
                self.message(bytes, UNKNOWN, depth + 1, out)?;
                indent(depth, out)?;
                writeln!(out, "}}")
            }
            value => {
                write!(out, "{number}: ")?;
                wire_value(value, out)?;
                writeln!(out)
            }
        }
    }
}

/// Returns true if bytes without a schema should be printed as a message and not as a string: they
/// parse as a message, and are not plain text.
fn looks_like_message(bytes: &[u8]) -> bool {
    let is_text = std::str::from_utf8(bytes).is_ok_and(|text| {
        !text
            .chars()
            .any(|c| c.is_control() && !c.is_ascii_whitespace())
    });
    !bytes.is_empty() && !is_text && Decoder::new(bytes).fields().all(|field| field.is_ok())
}

/// Removes and returns the first value of a packed field.
fn take_packed<'p>(kind: Kind, packed: &mut &'p [u8]) -> Option<Value<'p>> {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => {
            let (value, rest) = packed.split_first_chunk()?;
            *packed = rest;
            Some(Value::Fixed64(u64::from_le_bytes(*value)))
        }
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => {
            let (value, rest) = packed.split_first_chunk()?;
            *packed = rest;
            Some(Value::Fixed32(u32::from_le_bytes(*value)))
        }
        _ => {
            let (value, rest) = split_varint(packed)?;
            *packed = rest;
            Some(Value::Varint(value))
        }
    }
}

fn wire_value(value: Value<'_>, out: &mut impl Write) -> io::Result<()> {
    match value {
        Value::Varint(value) => write!(out, "{value}"),
        Value::Fixed64(value) => write!(out, "{value:#018x}"),
        Value::Fixed32(value) => write!(out, "{value:#010x}"),
        Value::Bytes(bytes) => quoted(bytes, out),
    }
}

/// Writes a float so that it reads back as the same number. Infinities and NaN have the text
/// format's names.
fn float<F: Into<f64> + std::fmt::Debug + Copy>(value: F, out: &mut impl Write) -> io::Result<()> {
    let wide: f64 = value.into();
    if wide.is_nan() {
        write!(out, "nan")
    } else if wide.is_infinite() {
        write!(out, "{}", if wide > 0.0 { "inf" } else { "-inf" })
    } else {
        write!(out, "{value:?}")
    }
}

/// Writes a string. Escapes bytes that are not UTF-8, and characters that a terminal could take for
/// a command.
fn quoted(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    write!(out, "\"")?;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => write!(out, "\\\"")?,
                '\\' => write!(out, "\\\\")?,
                '\n' => write!(out, "\\n")?,
                '\r' => write!(out, "\\r")?,
                '\t' => write!(out, "\\t")?,
                character if character.is_control() => {
                    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                        write!(out, "\\{byte:03o}")?;
                    }
                }
                character => write!(out, "{character}")?,
            }
        }
        for byte in chunk.invalid() {
            write!(out, "\\{byte:03o}")?;
        }
    }
    write!(out, "\"")
}

fn indent(depth: usize, out: &mut impl Write) -> io::Result<()> {
    const SPACES: &[u8; 64] = &[b' '; 64];
    let mut rest = depth * 2;
    while rest > 0 {
        let now = rest.min(SPACES.len());
        out.write_all(&SPACES[..now])?;
        rest -= now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], raw: bool) -> String {
        let schema = Schema::of_sdk();
        let mut out = Vec::new();
        let writer = TextWriter {
            schema: &schema,
            raw,
        };
        writer.message(bytes, schema.packet(), 0, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_have_the_names_and_types_of_the_schema() {
        // timestamp, track_event { type }, sequence_flags, trusted_uid: -1
        let packet =
            b"\x40\x05\x5a\x02\x48\x01\x68\x03\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(
            text(packet, false),
            "timestamp: 5\ntrack_event {\n  type: TYPE_SLICE_BEGIN\n}\nsequence_flags: 3\ntrusted_uid: -1\n"
        );
        assert_eq!(
            text(packet, true),
            "8: 5\n11 {\n  9: 1\n}\n13: 3\n3: 18446744073709551615\n"
        );
    }

    #[test]
    fn unknown_fields_print_by_the_look_of_their_bytes() {
        // Field 7 as varint, as fixed32, as text, as a message, and as other bytes.
        let packet = b"\x38\x01\x3d\x02\x00\x00\x00\x3a\x02hi\x3a\x02\x08\x05\x3a\x02\xff\x1b";
        assert_eq!(
            text(packet, false),
            "7: 1\n7: 0x00000002\n7: \"hi\"\n7 {\n  1: 5\n}\n7: \"\\377\\033\"\n"
        );
    }

    #[test]
    fn value_of_wrong_type_is_printed_as_encoded() {
        // `timestamp` is encoded as bytes that are not packed numbers, and `track_event` as a
        // number.
        assert_eq!(text(b"\x42\x01\x80", false), "# malformed: timestamp\n");
        assert_eq!(text(b"\x58\x07", false), "track_event: 7\n");
    }

    #[test]
    fn a_malformed_message_says_from_where() {
        assert_eq!(
            text(b"\x40\x05\x5a\x7f", false),
            "timestamp: 5\n# malformed: the message ends inside the field at offset 2\n"
        );
    }

    #[test]
    fn strings_hold_nothing_that_a_terminal_would_obey() {
        let mut out = Vec::new();
        quoted("a\"\\\u{9b}é\x1b[31m\n".as_bytes(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "\"a\\\"\\\\\\302\\233é\\033[31m\\n\"");
    }

    #[test]
    fn messages_nest_to_a_limit() {
        let mut packet = vec![0xff];
        for _ in 0..30 {
            let mut outer = vec![0x0a, packet.len() as u8];
            outer.append(&mut packet);
            packet = outer;
        }
        assert!(text(&packet, false).len() < 10_000);
        let mut deep = b"\x08\x01".to_vec();
        while deep.len() < 4000 {
            let mut outer = Vec::new();
            outer.push(0x0a);
            protozero::append_varint(deep.len() as u64, &mut outer);
            outer.append(&mut deep);
            deep = outer;
        }
        assert!(text(&deep, false).lines().count() <= 2 * MAX_DEPTH + 1);
    }
}
