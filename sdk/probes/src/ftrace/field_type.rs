//! What a field of a record contains, by its declaration in C.

use super::encoding::Tag;
use super::format::Field;

/// The words of the array of a system call's arguments.
pub(crate) const ARGUMENTS_COUNT: usize = 6;
/// The size of a location: an offset of 16 bits, and behind it a length of 16 bits.
pub(crate) const LOCATION_BYTES: u32 = 4;

/// What a field contains, and how wide it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    /// The id of a thread, in the initial namespace.
    Pid,
    /// The number of a device as the kernel keeps it. Programs know it in another form.
    Device32,
    Device64,
    /// The address of a function of the kernel, which must not leave the machine.
    Symbol32,
    Symbol64,
    /// A text in the record, up to its NUL or the end of the field.
    FixedText,
    /// A text in the record, up to its NUL or the end of the record.
    OpenText,
    /// A text or bytes elsewhere in the record. The location has the offset from the begin of the
    /// record.
    TextAt,
    BytesAt,
    /// As `TextAt` and `BytesAt`, but the offset counts from the end of the location.
    TextBehind,
    BytesBehind,
    /// The address of a text that the kernel lists in `printk_formats`.
    TextPointer32,
    TextPointer64,
    /// The arguments of a system call: [`ARGUMENTS_COUNT`] words.
    Arguments32,
    Arguments64,
}

/// What the values of a [`FieldType`] are in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    Signed,
    Unsigned,
    Text,
    Bytes,
    /// Several unsigned values.
    List,
}

impl FieldType {
    /// Returns what `field` contains, or `None` if that is not known: an array of numbers, for
    /// example.
    pub(crate) fn of(field: &Field) -> Option<Self> {
        let (declaration, size) = (field.declaration.as_str(), field.size);
        if is_char_array(declaration) {
            return Some(Self::FixedText);
        }
        if let Some((_, element)) = declaration.split_once("__data_loc ") {
            return located(element, size, Self::TextAt, Self::BytesAt);
        }
        if let Some((_, element)) = declaration.split_once("__rel_loc ") {
            return located(element, size, Self::TextBehind, Self::BytesBehind);
        }
        if declaration == "unsigned long args[6]" {
            return by_size(
                size / ARGUMENTS_COUNT as u32,
                Self::Arguments32,
                Self::Arguments64,
            )
            .filter(|_| size.is_multiple_of(ARGUMENTS_COUNT as u32));
        }
        if declaration.contains("char[] ") || declaration.contains("char * ") {
            return by_size(size, Self::TextPointer32, Self::TextPointer64);
        }
        // No other type will do: a number would disclose the address.
        if declaration.starts_with("void*") || declaration.starts_with("void *") {
            return Self::symbol(size);
        }
        if declaration.starts_with("char ") && size == 0 {
            return Some(Self::OpenText);
        }
        if declaration.starts_with("dev_t ") {
            return by_size(size, Self::Device32, Self::Device64);
        }
        if declaration.starts_with("pid_t ") && size == 4 {
            return Some(Self::Pid);
        }
        let is_signed = field.is_signed && !declaration.starts_with("bool ");
        integer(size, is_signed)
    }

    /// Returns the type of the address of a kernel function.
    pub(crate) fn symbol(size: u32) -> Option<Self> {
        by_size(size, Self::Symbol32, Self::Symbol64)
    }

    /// Returns what the values of this type are in the trace.
    pub(crate) fn value_type(self) -> ValueType {
        match self {
            Self::Uint8 | Self::Uint16 | Self::Uint32 | Self::Uint64 => ValueType::Unsigned,
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 | Self::Pid => ValueType::Signed,
            Self::Device32 | Self::Device64 | Self::Symbol32 | Self::Symbol64 => {
                ValueType::Unsigned
            }
            Self::FixedText | Self::OpenText | Self::TextAt | Self::TextBehind => ValueType::Text,
            Self::TextPointer32 | Self::TextPointer64 => ValueType::Text,
            Self::BytesAt | Self::BytesBehind => ValueType::Bytes,
            Self::Arguments32 | Self::Arguments64 => ValueType::List,
        }
    }
}

impl ValueType {
    /// Returns the tag of a field with such values.
    pub(crate) fn tag(self, number: u32) -> Tag {
        match self {
            Self::Signed | Self::Unsigned | Self::List => Tag::number(number),
            Self::Text | Self::Bytes => Tag::delimited(number),
        }
    }
}

/// Returns true if a part of `declaration` reads `char NAME[INDEX]`. An `unsigned char` counts as
/// well: the published events have texts for arrays of these.
fn is_char_array(declaration: &str) -> bool {
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    declaration.split("char ").skip(1).any(|rest| {
        let Some((name, rest)) = rest.split_once('[') else {
            return false;
        };
        let index = rest.split_once(']').map_or("", |(index, _)| index);
        is_word(name) && !name.starts_with(|c: char| c.is_ascii_digit()) && is_word(index)
    })
}

/// Returns the type of a location. The bytes of an array whose elements are not characters are
/// passed on as they are.
fn located(element: &str, size: u32, text: FieldType, bytes: FieldType) -> Option<FieldType> {
    let is_text = element.starts_with("char[] ");
    (size == LOCATION_BYTES).then_some(if is_text { text } else { bytes })
}

fn by_size(size: u32, narrow: FieldType, wide: FieldType) -> Option<FieldType> {
    match size {
        4 => Some(narrow),
        8 => Some(wide),
        _ => None,
    }
}

fn integer(size: u32, is_signed: bool) -> Option<FieldType> {
    Some(match (size, is_signed) {
        (1, false) => FieldType::Uint8,
        (2, false) => FieldType::Uint16,
        (4, false) => FieldType::Uint32,
        (8, false) => FieldType::Uint64,
        (1, true) => FieldType::Int8,
        (2, true) => FieldType::Int16,
        (4, true) => FieldType::Int32,
        (8, true) => FieldType::Int64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(declaration: &str, size: u32, is_signed: bool, expected: Option<FieldType>) {
        let field = Field {
            name: String::new(),
            declaration: declaration.to_owned(),
            offset: 0,
            size,
            is_signed,
        };
        assert_eq!(FieldType::of(&field), expected, "{declaration} {size}");
    }

    #[test]
    fn char_arrays_are_texts() {
        check("char foo[16]", 16, false, Some(FieldType::FixedText));
        check(
            "char foo[TASK_COMM_LEN]",
            16,
            false,
            Some(FieldType::FixedText),
        );
        check(
            "char identifier22[16]",
            16,
            false,
            Some(FieldType::FixedText),
        );
        check("unsigned char mac[6]", 6, false, Some(FieldType::FixedText));
        check("char 2invalid[16]", 16, false, None);
        check("char foo[(int)sizeof(x)]", 16, false, None);
    }

    #[test]
    fn char_of_no_size_takes_the_rest() {
        check("char foo", 0, false, Some(FieldType::OpenText));
        check("char buf[]", 0, false, Some(FieldType::OpenText));
        check("char foo", 1, false, Some(FieldType::Uint8));
    }

    #[test]
    fn locations_have_four_bytes() {
        check("__data_loc char[] foo", 4, false, Some(FieldType::TextAt));
        check("__data_loc char[] foo", 8, false, None);
        check("__data_loc u8[] foo", 4, false, Some(FieldType::BytesAt));
        check("__data_loc __u8[] foo", 4, false, Some(FieldType::BytesAt));
        check(
            "__data_loc unsigned char[] foo",
            4,
            false,
            Some(FieldType::BytesAt),
        );
        check("__data_loc u32[] foo", 4, false, Some(FieldType::BytesAt));
        check(
            "__rel_loc char[] foo",
            4,
            false,
            Some(FieldType::TextBehind),
        );
        check("__rel_loc u8[] foo", 4, false, Some(FieldType::BytesBehind));
        check("__rel_loc char[] foo", 2, false, None);
    }

    #[test]
    fn pointers_are_texts_or_symbols() {
        check("char[] foo", 8, false, Some(FieldType::TextPointer64));
        check("const char * foo", 8, false, Some(FieldType::TextPointer64));
        check("char * foo", 4, false, Some(FieldType::TextPointer32));
        check("void * function", 8, false, Some(FieldType::Symbol64));
        check("void*function", 4, false, Some(FieldType::Symbol32));
        check("const void * ptr", 8, false, Some(FieldType::Uint64));
    }

    #[test]
    fn pointer_of_odd_size_is_no_number() {
        check("void * function", 2, false, None);
        check("char * foo", 1, false, None);
    }

    #[test]
    fn arguments_of_system_calls_are_six_words() {
        check(
            "unsigned long args[6]",
            48,
            false,
            Some(FieldType::Arguments64),
        );
        check(
            "unsigned long args[6]",
            24,
            false,
            Some(FieldType::Arguments32),
        );
        check("unsigned long args[6]", 96, false, None);
        check("unsigned long args[6]", 25, false, None);
    }

    #[test]
    fn kinds_of_numbers_are_told_apart() {
        check("pid_t pid", 4, true, Some(FieldType::Pid));
        check("pid_t pid", 8, true, Some(FieldType::Int64));
        check("dev_t dev", 4, false, Some(FieldType::Device32));
        check("dev_t dev", 8, false, Some(FieldType::Device64));
        check("ino_t ino", 8, false, Some(FieldType::Uint64));
        check("bool ok", 1, true, Some(FieldType::Uint8));
        check("int common_pid", 4, true, Some(FieldType::Int32));
        check("enum a b", 4, false, Some(FieldType::Uint32));
        for (size, unsigned, signed) in [
            (1, FieldType::Uint8, FieldType::Int8),
            (2, FieldType::Uint16, FieldType::Int16),
            (4, FieldType::Uint32, FieldType::Int32),
            (8, FieldType::Uint64, FieldType::Int64),
        ] {
            check("foo", size, false, Some(unsigned));
            check("foo", size, true, Some(signed));
        }
    }

    #[test]
    fn arrays_of_numbers_are_not_known() {
        check("foo", 64, false, None);
        check("u8 saddr_v6[16]", 16, false, None);
        check("unsigned long x[8]", 64, false, None);
    }
}
