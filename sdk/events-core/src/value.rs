//! Values of arguments and counters.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

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

macro_rules! number_to_value {
    ($($type:ty)+ => $Variant:ident as $Wide:ty) => {
        to_value!($($type)+ => |value| Value::$Variant(*value as $Wide));
    };
}

macro_rules! non_zero_to_value {
    ($($type:ty)+ => $Variant:ident as $Wide:ty) => {
        to_value!($(NonZero<$type>)+ => |value| Value::$Variant(value.get() as $Wide));
    };
}

to_value!(bool => |value| Value::Bool(*value));
to_value!(str String Cow<'_, str> => |value| Value::Text(value));
number_to_value!(i8 i16 i32 i64 isize => Int as i64);
number_to_value!(u8 u16 u32 u64 usize => Uint as u64);
number_to_value!(f32 f64 => Double as f64);
non_zero_to_value!(i8 i16 i32 i64 isize => Int as i64);
non_zero_to_value!(u8 u16 u32 u64 usize => Uint as u64);
// Nanoseconds, up to 584 years: `wait_ns = duration` says so.
to_value!(Duration => |value| Value::Uint(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX)));
// No variant is wide enough.
to_value!(char i128 u128 => |value| Value::Display(value));
to_value!(fmt::Arguments<'_> => |value| Value::Display(value));

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
    ($($type:ty)+ => $Variant:ident as $Wide:ty) => {
        $(impl From<$type> for Number {
            #[inline]
            fn from(value: $type) -> Self {
                Self::$Variant(value as $Wide)
            }
        })+
    };
}

number!(i8 i16 i32 i64 isize u8 u16 u32 => Int as i64);
number!(f32 f64 => Double as f64);

macro_rules! large_number {
    ($($type:ty)+) => {
        $(impl From<$type> for Number {
            /// Numbers beyond the range of `i64` become its last one.
            #[inline]
            fn from(value: $type) -> Self {
                Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
            }
        })+
    };
}

large_number!(u64 usize);
