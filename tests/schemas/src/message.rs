//! Messages in a form of neither side, to compare what one library wrote and the other one read.

use std::collections::BTreeMap;

/// A message: its content, by field number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// The fields that are set.
    pub fields: BTreeMap<u32, Content>,
}

/// The content of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// The value of a singular field.
    One(Value),
    /// The elements of a repeated field.
    Many(Vec<Value>),
    /// The entries of a map.
    Map(BTreeMap<Value, Value>),
}

/// A value. Types that differ only in their encoding have one variant, and an enum is its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// `bool`.
    Bool(bool),
    /// `int32`, `sint32`, `sfixed32`, and enums.
    I32(i32),
    /// `int64`, `sint64`, `sfixed64`.
    I64(i64),
    /// `uint32`, `fixed32`.
    U32(u32),
    /// `uint64`, `fixed64`.
    U64(u64),
    /// The bits of a `float`, so that NaN equals itself.
    F32(u32),
    /// The bits of a `double`.
    F64(u64),
    /// `string`.
    Str(String),
    /// `bytes`.
    Bytes(Vec<u8>),
    /// A nested message.
    Message(Message),
}

impl Content {
    /// Returns the value of a singular field.
    ///
    /// # Panics
    ///
    /// If the field is of another kind.
    #[must_use]
    pub fn one(&self) -> &Value {
        match self {
            Content::One(value) => value,
            other => panic!("{other:?} is not singular"),
        }
    }

    /// Returns the elements of a repeated field.
    ///
    /// # Panics
    ///
    /// If the field is of another kind.
    #[must_use]
    pub fn many(&self) -> &[Value] {
        match self {
            Content::Many(values) => values,
            other => panic!("{other:?} is not repeated"),
        }
    }

    /// Returns the entries of a map.
    ///
    /// # Panics
    ///
    /// If the field is of another kind.
    #[must_use]
    pub fn map(&self) -> &BTreeMap<Value, Value> {
        match self {
            Content::Map(entries) => entries,
            other => panic!("{other:?} is not a map"),
        }
    }
}

/// Declares the conversion of a type into a value and back.
macro_rules! typed {
    ($method:ident, $variant:ident, $type:ty, |$stored:ident| $out:expr, |$given:ident| $in:expr) => {
        impl Value {
            #[doc = concat!("The value as a `", stringify!($type), "`.")]
            ///
            /// # Panics
            ///
            /// If it has another type.
            #[must_use]
            pub fn $method(&self) -> $type {
                match self {
                    Value::$variant($stored) => $out,
                    other => panic!(concat!("{:?} is no ", stringify!($type)), other),
                }
            }
        }

        impl From<$type> for Value {
            fn from($given: $type) -> Self {
                Value::$variant($in)
            }
        }
    };
}

typed!(bool, Bool, bool, |stored| *stored, |given| given);
typed!(i32, I32, i32, |stored| *stored, |given| given);
typed!(i64, I64, i64, |stored| *stored, |given| given);
typed!(u32, U32, u32, |stored| *stored, |given| given);
typed!(u64, U64, u64, |stored| *stored, |given| given);
typed!(f32, F32, f32, |bits| f32::from_bits(*bits), |given| given
    .to_bits());
typed!(f64, F64, f64, |bits| f64::from_bits(*bits), |given| given
    .to_bits());
typed!(str, Str, &str, |text| text, |given| given.to_owned());
typed!(bytes, Bytes, &[u8], |bytes| bytes, |given| given.to_vec());

impl Value {
    /// Returns the value as a message.
    ///
    /// # Panics
    ///
    /// If it has another type.
    #[must_use]
    pub fn message(&self) -> &Message {
        match self {
            Value::Message(message) => message,
            other => panic!("{other:?} is no message"),
        }
    }
}

impl From<Message> for Value {
    fn from(message: Message) -> Self {
        Value::Message(message)
    }
}
