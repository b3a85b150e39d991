//! Values of counters, as the macros take them and as readers find them in a trace.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of values that were rounded to a float.
static ROUNDED: AtomicU64 = AtomicU64::new(0);

/// The value of a counter: an integer or a float.
///
/// An unsigned integer above `i64::MAX` becomes a float. If no float has exactly this value, the
/// value is rounded to the nearest float, and the report of the session has a
/// `Warning::RoundedCounters`.
///
/// ```
/// use tracezero::CounterValue;
///
/// assert_eq!(CounterValue::from(3_u64), CounterValue::Int(3));
/// assert_eq!(CounterValue::from(0.5_f32), CounterValue::Double(0.5));
/// assert_eq!(CounterValue::from(-7_i32).as_f64(), -7.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// An integer, in the trace's field `counter_value`.
    Int(i64),
    /// A float, in the trace's field `double_counter_value`.
    Double(f64),
}

impl CounterValue {
    /// Returns the value as a float. Rounds large integers.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Double(value) => value,
        }
    }
}

impl fmt::Display for CounterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
        }
    }
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
counter_value!(u64 usize => |value| i64::try_from(value).map_or_else(
    |_| beyond_i64(value as u64),
    Self::Int
));
counter_value!(isize => |value| Self::Int(value as i64));
counter_value!(f32 => |value| Self::Double(f64::from(value)));
counter_value!(f64 => |value| Self::Double(value));

/// Converts an integer above `i64::MAX` to a float, since integer values in a trace are signed.
/// Little is lost: readers convert all counter values to floats anyway.
#[cold]
fn beyond_i64(value: u64) -> CounterValue {
    let float = value as f64;
    if float as u128 != u128::from(value) {
        // Relaxed: as in `rounded_count`.
        ROUNDED.fetch_add(1, Ordering::Relaxed);
    }
    CounterValue::Double(float)
}

/// Returns how many values were rounded since the process started.
#[must_use]
pub fn rounded_count() -> u64 {
    // Relaxed: a statistic, on which no other memory access depends.
    ROUNDED.load(Ordering::Relaxed)
}
