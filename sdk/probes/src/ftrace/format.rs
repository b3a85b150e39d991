//! How this kernel lays out the records of an event, from the event's file `format`.
//!
//! The layout differs between kernels and the ids between boots, so that both are read anew. The
//! text comes from the kernel, or from a file that only claims to: each number in it is untrusted.

use std::error::Error;
use std::fmt;

/// The longest declaration that a line may have.
const DECLARATION_MAX_BYTES: usize = 127;
/// Fields with this prefix are in the records of all events.
const COMMON_PREFIX: &str = "common_";

/// The layout of one event's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventFormat {
    /// The name of the event, without its group.
    pub(crate) name: String,
    /// The number at the begin of each record of this event.
    pub(crate) id: u16,
    /// The fields that all events have.
    pub(crate) common: Vec<Field>,
    /// The fields of this event, in the order of the file.
    pub(crate) fields: Vec<Field>,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The name in the declaration, or an empty text if the declaration has none.
    pub(crate) name: String,
    /// The declaration in C, with type and name.
    pub(crate) declaration: String,
    /// Where the field begins, from the begin of the record.
    pub(crate) offset: u32,
    /// The size in bytes; 0 if the field takes the rest of the record. `offset + size` does not
    /// overflow.
    pub(crate) size: u32,
    pub(crate) is_signed: bool,
}

impl EventFormat {
    /// Reads the text of a file `format`.
    ///
    /// A line of a field that is malformed ends the list of fields: the fields before it are kept.
    pub(crate) fn parse(text: &str) -> Result<Self, FormatError> {
        let mut name = None;
        let mut id = None;
        let (mut common, mut fields) = (Vec::new(), Vec::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.trim().is_empty() {
                continue;
            }
            if line == "format:" {
                (common, fields) = fields_of(lines).partition(Field::is_common);
                break;
            }
            if let Some(rest) = line.strip_prefix("name:").filter(|_| name.is_none()) {
                name = rest.split_whitespace().next().map(str::to_owned);
            } else if let Some(rest) = line.strip_prefix("ID:").filter(|_| id.is_none()) {
                id = Some(id_of(rest.trim())?);
            } else {
                return Err(FormatError::UnexpectedLine(line.to_owned()));
            }
        }
        let name = name.ok_or(FormatError::NoName)?;
        let id = id.ok_or(FormatError::NoId)?;
        if common.is_empty() {
            return Err(FormatError::NoCommonField);
        }
        Ok(Self {
            name,
            id,
            common,
            fields,
        })
    }

    /// Returns the format of `ftrace/print`, which may be assumed where its file is unreadable: it
    /// has been the same in all kernels.
    pub(crate) fn of_print() -> Self {
        let field = |name: &str, declaration: &str, offset, size, is_signed| Field {
            name: name.to_owned(),
            declaration: declaration.to_owned(),
            offset,
            size,
            is_signed,
        };
        Self {
            name: "print".to_owned(),
            id: 5,
            common: vec![field("common_pid", "int common_pid", 4, 4, true)],
            fields: vec![field("buf", "char buf", 16, 0, false)],
        }
    }

    /// Returns the field with this name, be it common or the event's own.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let mut all = self.fields.iter().chain(&self.common);
        all.find(|field| field.name == name)
    }
}

impl Field {
    /// Returns the offset behind the field's last byte.
    pub(crate) fn end(&self) -> u32 {
        self.offset + self.size
    }

    fn is_common(&self) -> bool {
        self.name.starts_with(COMMON_PREFIX)
    }

    /// Reads a line such as `\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?.trim_start();
        let mut number =
            |key| -> Option<u32> { parts.next()?.strip_prefix(key)?.trim_start().parse().ok() };
        let (offset, size) = (number("offset:")?, number("size:")?);
        let signed = number("signed:")?;
        offset.checked_add(size)?;
        if !(1..=DECLARATION_MAX_BYTES).contains(&declaration.len()) || signed > 1 {
            return None;
        }
        Some(Self {
            name: name_in(declaration).to_owned(),
            declaration: declaration.to_owned(),
            offset,
            size,
            is_signed: signed == 1,
        })
    }
}

/// Returns the fields that `text` lists, which is all that the file `header_page` has. A malformed
/// line ends the list.
pub(crate) fn parse_fields(text: &str) -> Vec<Field> {
    fields_of(text.lines()).collect()
}

fn fields_of<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Field> {
    // What is printed of a record, `print fmt:`, comes behind the fields; it is no field either.
    lines
        .filter(|line| !line.trim().is_empty())
        .map_while(Field::parse)
}

fn id_of(text: &str) -> Result<u16, FormatError> {
    text.parse()
        .map_err(|_| FormatError::InvalidId(text.to_owned()))
}

/// Returns the name in a declaration: its last word, without the brackets of an array.
fn name_in(declaration: &str) -> &str {
    let before_array = match declaration.rsplit_once('[') {
        Some((before, _)) if declaration.ends_with(']') => before,
        _ => declaration,
    };
    match before_array.rsplit_once(' ') {
        Some((_, name)) if is_identifier(name) => name,
        _ => "",
    }
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let mut bytes = text.bytes();
    bytes.next().is_some_and(is_letter)
        && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

/// The reason why a text is not the format of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormatError {
    NoName,
    NoId,
    /// The id is no number of 16 bits, the width of the id in a record.
    InvalidId(String),
    NoCommonField,
    /// A line before the fields is neither the name nor the id.
    UnexpectedLine(String),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => f.write_str("the format has no line `name:`"),
            Self::NoId => f.write_str("the format has no line `ID:`"),
            Self::InvalidId(id) => write!(f, "the format's id `{id}` is not one of 0 to 65535"),
            Self::NoCommonField => {
                f.write_str("the format has none of the fields that all events have")
            }
            Self::UnexpectedLine(line) => {
                write!(f, "the format has the line `{line}` before its fields")
            }
        }
    }
}

impl Error for FormatError {}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "\
name: sched_switch
ID: 47
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;

print fmt: \"prev_comm=%s\", REC->prev_comm
";

    #[test]
    fn name_id_and_fields_are_read() {
        let format = EventFormat::parse(SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 47));
        let common: Vec<&str> = format.common.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(common, ["common_type", "common_pid"]);
        let prev_comm = Field {
            name: "prev_comm".to_owned(),
            declaration: "char prev_comm[16]".to_owned(),
            offset: 8,
            size: 16,
            is_signed: false,
        };
        assert_eq!(format.fields.len(), 2);
        assert_eq!(format.fields[0], prev_comm);
        assert!(format.fields[1].is_signed);
        assert_eq!(format.field("prev_comm"), Some(&prev_comm));
        assert_eq!(format.field("common_pid").map(|f| f.offset), Some(4));
        assert_eq!(format.field("next_comm"), None);
    }

    #[test]
    fn missing_parts_are_named() {
        let without = |part: &str| EventFormat::parse(&SWITCH.replace(part, "")).unwrap_err();
        assert_eq!(without("name: sched_switch\n"), FormatError::NoName);
        assert_eq!(without("ID: 47\n"), FormatError::NoId);
        assert_eq!(without("common_"), FormatError::NoCommonField);
        assert_eq!(EventFormat::parse(""), Err(FormatError::NoName));
        assert_eq!(
            EventFormat::parse("name: a\nID: 1\n").unwrap_err(),
            FormatError::NoCommonField
        );
    }

    #[test]
    fn id_beyond_16_bits_is_an_error() {
        for id in ["65536", "-1", "4294967296", "x", ""] {
            let error = EventFormat::parse(&SWITCH.replace("47", id)).unwrap_err();
            assert_eq!(error, FormatError::InvalidId(id.to_owned()));
        }
        let largest = EventFormat::parse(&SWITCH.replace("47", "65535")).unwrap();
        assert_eq!(largest.id, u16::MAX);
    }

    #[test]
    fn unexpected_line_before_the_fields_is_an_error() {
        for line in ["flags: 1", "ID: 48", "\tname: x"] {
            let text = format!("name: a\nID: 1\n{line}\n");
            let error = FormatError::UnexpectedLine(line.to_owned());
            assert_eq!(EventFormat::parse(&text), Err(error));
        }
    }

    #[test]
    fn malformed_field_ends_the_list() {
        for bad in [
            "offset:-24",
            "offset:4294967296",
            "offset:",
            "size:24",
            "offsets:24",
        ] {
            let format = EventFormat::parse(&SWITCH.replace("offset:24", bad)).unwrap();
            assert_eq!(format.fields.len(), 1, "{bad}");
        }
        let format = EventFormat::parse(&SWITCH.replace("signed:1", "signed:2"));
        assert_eq!(format.unwrap().common.len(), 1);
    }

    #[test]
    fn declaration_has_a_largest_length() {
        let with_pad = |bytes: usize| {
            let declaration = format!("pid_t {}", "p".repeat(bytes - "pid_t ".len()));
            EventFormat::parse(&SWITCH.replace("pid_t prev_pid", &declaration)).unwrap()
        };
        assert_eq!(with_pad(DECLARATION_MAX_BYTES).fields.len(), 2);
        assert_eq!(with_pad(DECLARATION_MAX_BYTES + 1).fields.len(), 1);
    }

    #[test]
    fn blanks_after_colons_are_skipped() {
        let fields = parse_fields(
            "\tfield: u64 timestamp;\toffset: 0;\tsize: 8;\tsigned: 0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n",
        );
        let names: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["timestamp", "commit"]);
        assert_eq!(fields[0].declaration, "u64 timestamp");
    }

    #[test]
    fn field_that_ends_beyond_32_bits_is_malformed() {
        let line = |size| format!("field:int x;offset:4294967290;size:{size};signed:0;");
        assert_eq!(parse_fields(&line(5))[0].end(), u32::MAX);
        assert_eq!(parse_fields(&line(6)), []);
    }

    #[test]
    fn names_are_the_last_word_without_array() {
        let cases = [
            ("int foo", "foo"),
            ("u8 foo[(int)sizeof(struct blah)]", "foo"),
            ("char[] foo[16]", "foo"),
            ("__data_loc char[] name", "name"),
            ("char * msg", "msg"),
            ("char *", ""),
            ("char 42", ""),
            ("something_went_wrong", ""),
            ("int x]", ""),
            ("", ""),
        ];
        for (declaration, name) in cases {
            assert_eq!(name_in(declaration), name, "{declaration}");
        }
    }

    /// Deletes up to 9 bytes at each position, and cuts at each position.
    #[test]
    fn damaged_texts_do_not_panic() {
        for start in 0..SWITCH.len() {
            _ = EventFormat::parse(&SWITCH[..start]);
            for len in 1..=9 {
                let end = (start + len).min(SWITCH.len());
                let text = [&SWITCH[..start], &SWITCH[end..]].concat();
                if let Ok(format) = EventFormat::parse(&text) {
                    assert!(!format.common.is_empty());
                }
            }
        }
    }

    #[test]
    fn errors_name_the_culprit() {
        let error = EventFormat::parse("name: a\nID: 70000\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the format's id `70000` is not one of 0 to 65535"
        );
    }
}
