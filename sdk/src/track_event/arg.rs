//! Arguments of events: debug annotations with interned names.

use std::borrow::Cow;
use std::fmt;

use crate::protos::{DebugAnnotation, TrackEvent};

/// A value that an event can carry.
///
/// Implement it for a type of your own by delegating to one of the types here, or by nesting.
pub trait ArgValue {
    /// Sets the value of the annotation.
    fn write(&self, annotation: &mut DebugAnnotation<'_>);
}

macro_rules! arg_value {
    ($($type:ty)+ => |$value:ident, $annotation:ident| $write:expr) => {
        $(impl ArgValue for $type {
            #[inline]
            fn write(&self, $annotation: &mut DebugAnnotation<'_>) {
                let $value = self;
                $write;
            }
        })+
    };
}

arg_value!(i8 i16 i32 => |value, annotation| annotation.set_int_value(i64::from(*value)));
arg_value!(i64 => |value, annotation| annotation.set_int_value(*value));
arg_value!(isize => |value, annotation| annotation.set_int_value(*value as i64));
arg_value!(u8 u16 u32 => |value, annotation| annotation.set_uint_value(u64::from(*value)));
arg_value!(u64 => |value, annotation| annotation.set_uint_value(*value));
arg_value!(usize => |value, annotation| annotation.set_uint_value(*value as u64));
arg_value!(f32 => |value, annotation| annotation.set_double_value(f64::from(*value)));
arg_value!(f64 => |value, annotation| annotation.set_double_value(*value));
arg_value!(bool => |value, annotation| annotation.set_bool_value(*value));
arg_value!(str => |value, annotation| annotation.set_string_value(value));
arg_value!(String Cow<'_, str> => |value, annotation| annotation.set_string_value(value));

impl<T: ArgValue + ?Sized> ArgValue for &T {
    #[inline]
    fn write(&self, annotation: &mut DebugAnnotation<'_>) {
        (**self).write(annotation);
    }
}

/// The arguments of an event that is being written.
pub struct Args<'e, 'w> {
    event: &'e mut TrackEvent<'w>,
    /// Interned ids of the names of the arguments that are still to come.
    name_iids: &'e [u32],
}

impl<'e, 'w> Args<'e, 'w> {
    #[inline]
    pub(super) fn new(event: &'e mut TrackEvent<'w>, name_iids: &'e [u32]) -> Self {
        Self { event, name_iids }
    }

    /// Adds the next argument. One more than the call site has names is ignored.
    #[inline]
    pub fn add(&mut self, value: &(impl ArgValue + ?Sized)) {
        if let Some((name_iid, rest)) = self.name_iids.split_first() {
            self.name_iids = rest;
            self.event.add_debug_annotations(|annotation| {
                annotation.set_name_iid(u64::from(*name_iid));
                value.write(annotation);
            });
        }
    }
}

impl fmt::Debug for Args<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Args")
            .field("name_iids", &self.name_iids)
            .finish_non_exhaustive()
    }
}

/// The value of a counter: an integer or a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// `counter_value`.
    Int(i64),
    /// `double_counter_value`.
    Double(f64),
}

macro_rules! counter_value {
    ($($type:ty)+ => |$value:ident| $convert:expr) => {
        $(impl From<$type> for CounterValue {
            #[inline]
            fn from($value: $type) -> Self {
                $convert
            }
        })+
    };
}

counter_value!(i8 i16 i32 u8 u16 u32 => |value| Self::Int(i64::from(value)));
counter_value!(i64 => |value| Self::Int(value));
// Counters are signed 64-bit integers in a trace: larger values stay at the end of the range.
counter_value!(u64 usize => |value| Self::Int(i64::try_from(value).unwrap_or(i64::MAX)));
counter_value!(isize => |value| Self::Int(value as i64));
counter_value!(f32 => |value| Self::Double(f64::from(value)));
counter_value!(f64 => |value| Self::Double(value));
