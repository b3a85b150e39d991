//! The values of one counter.

use std::fmt;

use tracezero_core::counter_value::CounterValue;

/// The number of values that are printed one by one.
const SHOWN_MAX: usize = 16;

/// The first values of a counter, and the range of all values.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    first: Vec<CounterValue>,
    count: u64,
    /// The smallest and the largest value.
    range: Option<(CounterValue, CounterValue)>,
}

impl Values {
    pub(super) fn add(&mut self, value: CounterValue) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(value);
        }
        self.range = match self.range {
            None => Some((value, value)),
            Some((low, high)) => Some((
                if value.as_f64() < low.as_f64() {
                    value
                } else {
                    low
                },
                if value.as_f64() > high.as_f64() {
                    value
                } else {
                    high
                },
            )),
        };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Prints the first values. If there are more, prints their number and range too.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.first.iter().enumerate() {
            let separator = if index > 0 { " " } else { "" };
            write!(f, "{separator}{}", Shown(*value))?;
        }
        match self.range {
            Some((low, high)) if self.count > SHOWN_MAX as u64 => write!(
                f,
                " .. ({} values from {} to {})",
                self.count,
                Shown(low),
                Shown(high)
            ),
            _ => Ok(()),
        }
    }
}

struct Shown(CounterValue);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CounterValue::Int(value) => write!(f, "{value}"),
            CounterValue::Double(value) => write!(f, "{value:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_print_as_the_first_and_a_range() {
        let mut values = Values::default();
        for value in [3, -1, 3] {
            values.add(CounterValue::Int(value));
        }
        values.add(CounterValue::Double(0.5));
        assert_eq!(values.to_string(), "3 -1 3 0.5");
        for value in 0..100 {
            values.add(CounterValue::Int(value));
        }
        let expected = "3 -1 3 0.5 0 1 2 3 4 5 6 7 8 9 10 11 .. (104 values from -1 to 99)";
        assert_eq!(values.to_string(), expected);
    }
}
