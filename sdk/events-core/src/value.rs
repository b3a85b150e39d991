//! Values of arguments and counters.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The value of an argument.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value: the event carries only the name of the argument.
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
    /// A path. Parts that are not Unicode are replaced.
    Path(&'a Path),
    /// A string of the operating system. Parts that are not Unicode are replaced.
    OsStr(&'a OsStr),
    /// An address.
    Pointer(u64),
    /// Values in order.
    List(&'a dyn List),
    /// Values with names, in order.
    Dict(&'a dyn Dict),
    /// A value that is recorded as its `Display` text. A recorder formats it within the call, once
    /// per session.
    Display(&'a dyn fmt::Display),
    /// A value that is recorded as its `Debug` text. A recorder formats it within the call, once
    /// per session.
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
            Self::Path(path) => path.fmt(f),
            Self::OsStr(text) => text.fmt(f),
            Self::Pointer(address) => write!(f, "{address:#x}"),
            Self::List(list) => {
                let mut debug = f.debug_list();
                list.for_each(&mut |value| _ = debug.entry(&value));
                debug.finish()
            }
            Self::Dict(dict) => {
                let mut debug = f.debug_map();
                dict.for_each(&mut |name, value| _ = debug.entry(&name, &value));
                debug.finish()
            }
            Self::Display(value) => value.fmt(f),
            Self::Debug(value) => value.fmt(f),
        }
    }
}

/// A list of values, which are visited one at a time.
pub trait List {
    /// Passes each value to `visit`.
    fn for_each(&self, visit: &mut dyn FnMut(Value<'_>));
}

/// A list of values with names, which are visited one at a time.
pub trait Dict {
    /// Passes each name and value to `visit`.
    fn for_each(&self, visit: &mut dyn FnMut(&str, Value<'_>));
}

/// A type whose values can be arguments.
///
/// The trait is implemented for numbers, booleans, strings, paths, durations (as nanoseconds),
/// options, and for lists and maps of these. To implement it for a type of your own, delegate to
/// one of these types, or implement [`Dict`]:
///
/// ```
/// # use tracezero_events_core as tracezero_events;
/// use tracezero_events::{Dict, ToValue, Value};
///
/// struct Size {
///     width: u32,
///     height: u32,
/// }
///
/// impl Dict for Size {
///     fn for_each(&self, visit: &mut dyn FnMut(&str, Value<'_>)) {
///         visit("width", self.width.to_value());
///         visit("height", self.height.to_value());
///     }
/// }
///
/// impl ToValue for Size {
///     fn to_value(&self) -> Value<'_> {
///         Value::Dict(self)
///     }
/// }
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
    message = "`{Self}` cannot be the value of an argument",
    label = "an argument here has the type `{Self}`",
    note = "write `name = ?value` for its `Debug` text, or `name = %value` for its `Display` text",
    note = "or implement `tracezero_events::ToValue` for it"
)]
pub trait ToValue {
    /// Returns `self` as the value of an argument.
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
// Nanoseconds, up to 584 years. Users put the unit into the name: `wait_ns = duration`.
to_value!(Duration => |value| Value::Uint(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX)));
// `Value` has no variant for these types.
to_value!(char i128 u128 => |value| Value::Display(value));
to_value!(fmt::Arguments<'_> => |value| Value::Display(value));
to_value!(Path PathBuf => |value| Value::Path(value));
to_value!(OsStr OsString => |value| Value::OsStr(value));

macro_rules! list_to_value {
    ($([$($bounds:tt)*] $type:ty),+) => {
        $(impl<T: ToValue $($bounds)*> List for $type {
            fn for_each(&self, visit: &mut dyn FnMut(Value<'_>)) {
                self.iter().for_each(|value| visit(value.to_value()));
            }
        }

        impl<T: ToValue $($bounds)*> ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value<'_> {
                Value::List(self)
            }
        })+
    };
}

list_to_value!([] Vec<T>, [] &[T], [, const N: usize] [T; N]);

macro_rules! map_to_value {
    ($([$($parameters:tt)*] $type:ty),+) => {
        $(impl<K: AsRef<str>, T: ToValue $($parameters)*> Dict for $type {
            fn for_each(&self, visit: &mut dyn FnMut(&str, Value<'_>)) {
                self.iter().for_each(|(name, value)| visit(name.as_ref(), value.to_value()));
            }
        }

        impl<K: AsRef<str>, T: ToValue $($parameters)*> ToValue for $type {
            #[inline]
            fn to_value(&self) -> Value<'_> {
                Value::Dict(self)
            }
        })+
    };
}

map_to_value!([] BTreeMap<K, T>, [, S] HashMap<K, T, S>);

impl<T> ToValue for *const T {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        Value::Pointer(self.addr() as u64)
    }
}

impl<T> ToValue for *mut T {
    #[inline]
    fn to_value(&self) -> Value<'_> {
        Value::Pointer(self.addr() as u64)
    }
}

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
            /// Converts a number. A number above `i64::MAX` becomes `i64::MAX`.
            #[inline]
            fn from(value: $type) -> Self {
                Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
            }
        })+
    };
}

large_number!(u64 usize);
