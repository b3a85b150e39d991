//! The value of a counter.

/// The value of a counter, as the trace has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// `counter_value`.
    Int(i64),
    /// `double_counter_value`.
    Double(f64),
}

impl CounterValue {
    /// Returns the value as a float, rounded if need be.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Double(value) => value,
        }
    }
}
