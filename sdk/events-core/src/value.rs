//! Values of arguments and counters.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The value of an argument.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value: the event has the name of the argument alone.
    None,
    /// A truth value.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    Text(&'a str),
    /// A text, by its `Display`. A recorder formats it within the call, once per session.
    Display(&'a dyn fmt::Display),
    /// A text, by its `Debug`. A recorder formats it within the call, once per session.
    Debug(&'a dyn fmt::Debug),
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Display(value) => value.fmt(f),
            Self::Debug(value) => value.fmt(f),
        }
    }
}

/// A type whose values can be arguments.
///
/// Implement the trait for a type of your own by delegating to one of these:
///
/// ```
/// use tracezero_events_core::{ToValue, Value};
///
/// struct Port(u16);
///
/// impl ToValue for Port {
///     fn to_value(&self) -> Value<'_> {
///         self.0.to_value()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` is no value of an argument",
    label = "an argument here is a `{Self}`",
    note = "write `name = ?value` for its `Debug` text, or `name = %value` for its `Display` text",
    note = "or implement `tracezero_events::ToValue` for it"
)]
pub trait ToValue {
    /// Returns the value.
    fn to_value(&self) -> Value<'_>;
}

macro_rules! to_value {
    ($($type:ty)+ => |$value:ident| $result:expr) => {
        $(impl ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value<'_> {
                let $value = self;
                $result
            }
        })+
    };
}

to_value!(bool => |value| Value::Bool(*value));
to_value!(i8 i16 i32 i64 isize => |value| Value::Int(*value as i64));
to_value!(u8 u16 u32 u64 usize => |value| Value::Uint(*value as u64));
to_value!(f32 f64 => |value| Value::Double(f64::from(*value)));
to_value!(str String Cow<'_, str> => |value| Value::Text(value));
// No variant is wide enough.
to_value!(char i128 u128 => |value| Value::Display(value));

macro_rules! to_value_by_reference {
    ($($type:ty)+) => {
        $(impl<T: ToValue + ?Sized> ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value<'_> {
                (**self).to_value()
            }
        })+
    };
}

to_value_by_reference!(&T &mut T Box<T> Rc<T> Arc<T>);

impl<T: ToValue> ToValue for Option<T> {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::None, T::to_value)
    }
}

/// The value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
}

macro_rules! number {
    ($($type:ty)+ => |$value:ident| $result:expr) => {
        $(impl From<$type> for Number {
            #[inline]
            fn from($value: $type) -> Self {
                $result
            }
        })+
    };
}

number!(i8 i16 i32 i64 u8 u16 u32 => |value| Self::Int(i64::from(value)));
number!(isize => |value| Self::Int(value as i64));
// Larger ones do not occur.
number!(u64 usize => |value| Self::Int(i64::try_from(value).unwrap_or(i64::MAX)));
number!(f32 f64 => |value| Self::Double(f64::from(value)));
