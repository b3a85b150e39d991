//! Owned values of arguments.

use std::fmt;

use crate::args::ArgValue;

/// The owned value of an argument, with all values inside it.
///
/// `{}` prints strings in quotes, dictionaries in braces and arrays in brackets. `{:#}` prints
/// `(address)` in place of each address, because addresses differ between two runs. Integers
/// compare equal whether they are [`Int`](Self::Int) or [`Uint`](Self::Uint).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// No value, or a kind of value that this reader does not know.
    None,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    Text(String),
    /// An address.
    Pointer(u64),
    /// A string in JSON.
    Json(String),
    /// A dictionary: values with names, in order.
    Dict(Vec<(String, Value)>),
    /// An array.
    Array(Vec<Value>),
    /// An encoded message.
    Message(Vec<u8>),
}

impl Value {
    fn integer(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            _ => None,
        }
    }

    /// Returns the value at `path` in a dictionary or an array. The path consists of names and
    /// positions, separated by dots.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Self> {
        match self {
            Self::Dict(entries) => find(entries, path),
            Self::Array(items) => {
                let (position, rest) = path.split_once('.').unwrap_or((path, ""));
                let item = items.get(position.parse::<usize>().ok()?)?;
                if rest.is_empty() {
                    Some(item)
                } else {
                    item.at(rest)
                }
            }
            _ => None,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(_) | Self::Uint(_), _) => self.integer() == other.integer(),
            (Self::None, Self::None) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Double(left), Self::Double(right)) => left == right,
            (Self::Text(left), Self::Text(right)) | (Self::Json(left), Self::Json(right)) => {
                left == right
            }
            (Self::Pointer(left), Self::Pointer(right)) => left == right,
            (Self::Dict(left), Self::Dict(right)) => left == right,
            (Self::Array(left), Self::Array(right)) => left == right,
            (Self::Message(left), Self::Message(right)) => left == right,
            _ => false,
        }
    }
}

/// Returns the value at `path`. The first part of the path is the name of one of the `entries`;
/// this name may contain dots.
#[must_use]
pub fn find<'v>(entries: &'v [(String, Value)], path: &str) -> Option<&'v Value> {
    entries.iter().find_map(|(name, value)| {
        let rest = path.strip_prefix(name.as_str())?;
        match rest.strip_prefix('.') {
            Some(rest) => value.at(rest),
            None => rest.is_empty().then_some(value),
        }
    })
}

impl From<ArgValue<'_>> for Value {
    fn from(value: ArgValue<'_>) -> Self {
        match value {
            ArgValue::None => Self::None,
            ArgValue::Bool(value) => Self::Bool(value),
            ArgValue::Uint(value) => Self::Uint(value),
            ArgValue::Int(value) => Self::Int(value),
            ArgValue::Double(value) => Self::Double(value),
            ArgValue::Text(text) => Self::Text(text.into_owned()),
            ArgValue::Pointer(address) => Self::Pointer(address),
            ArgValue::Json(text) => Self::Json(text.into_owned()),
            ArgValue::Dict(entries) => {
                let entry = |arg: crate::args::Arg<'_>| (arg.name.into_owned(), arg.value.into());
                Self::Dict(entries.map(entry).collect())
            }
            ArgValue::Array(items) => Self::Array(items.map(|item| item.value.into()).collect()),
            ArgValue::Message { bytes, .. } => Self::Message(bytes.to_owned()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_stable = f.alternate();
        match self {
            Self::None => f.write_str("none"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Uint(number) => write!(f, "{number}"),
            Self::Double(number) => write!(f, "{number:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Pointer(_) if is_stable => f.write_str("(address)"),
            Self::Pointer(address) => write!(f, "{address:#x}"),
            Self::Json(text) => f.write_str(text),
            Self::Dict(entries) => {
                f.write_str("{")?;
                for (index, (name, value)) in entries.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    write!(f, "{name}=")?;
                    value.fmt(f)?;
                }
                f.write_str("}")
            }
            Self::Array(items) => {
                f.write_str("[")?;
                for (index, value) in items.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    value.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Message(bytes) => write!(f, "(message of {} bytes)", bytes.len()),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

macro_rules! from_numbers {
    ($($type:ty => $kind:ident as $wide:ty),*) => {
        $(impl From<$type> for Value {
            fn from(number: $type) -> Self {
                Self::$kind(number as $wide)
            }
        })*
    };
}

from_numbers!(
    i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64, isize => Int as i64,
    u8 => Uint as u64, u16 => Uint as u64, u32 => Uint as u64, u64 => Uint as u64, usize => Uint as u64,
    f32 => Double as f64, f64 => Double as f64
);

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Value {
        Value::Dict(vec![
            ("http.path".to_owned(), "/a".into()),
            (
                "headers".to_owned(),
                Value::Array(vec![
                    1.into(),
                    Value::Dict(vec![("a".to_owned(), true.into())]),
                ]),
            ),
            ("at".to_owned(), Value::Pointer(0x10)),
        ])
    }

    #[test]
    fn values_are_found_by_their_path() {
        let request = request();
        assert_eq!(request.at("http.path"), Some(&"/a".into()));
        assert_eq!(request.at("headers.1.a"), Some(&true.into()));
        assert_eq!(request.at("headers.0"), Some(&1.into()));
        for missing in [
            "http",
            "headers.2",
            "headers.1.b",
            "headers.0.a",
            "",
            "at.0",
        ] {
            assert_eq!(request.at(missing), None, "{missing}");
        }
    }

    #[test]
    fn values_print_on_one_line() {
        let request = request();
        let printed = r#"{http.path="/a", headers=[1, {a=true}], at=0x10}"#;
        assert_eq!(request.to_string(), printed);
        assert_eq!(format!("{request:#}"), printed.replace("0x10", "(address)"));
    }

    #[test]
    fn numbers_are_equal_whatever_their_type() {
        assert_eq!(Value::from(3_u8), 3_i64.into());
        assert_eq!(Value::from(2.5), 2.5_f32.into());
        assert_ne!(Value::from(u64::MAX), (-1).into());
        assert_ne!(Value::from(3), "3".into());
        assert_ne!(Value::from("3"), 3.into());
    }
}
