//! Units of counters.

use std::borrow::Cow;

use tracezero_core::protos::{CounterDescriptor, counter_descriptor};

/// The unit of a counter, and a factor.
#[derive(Clone, Debug)]
pub(super) struct Quantity {
    pub(super) unit: Unit,
    /// The number of units that a value of 1 stands for.
    pub(super) multiplier: i64,
}

/// The unit of a counter's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// A plain number of things.
    #[default]
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Another unit, with the name that viewers show.
    Named(Cow<'static, str>),
}

impl Default for Quantity {
    fn default() -> Self {
        Self {
            unit: Unit::Count,
            multiplier: 1,
        }
    }
}

impl Quantity {
    pub(super) fn describe(&self, out: &mut CounterDescriptor<'_>) {
        use counter_descriptor::Unit as Known;
        match &self.unit {
            Unit::Count => out.set_unit(Known::COUNT),
            Unit::Bytes => out.set_unit(Known::SIZE_BYTES),
            Unit::Nanoseconds => out.set_unit(Known::TIME_NS),
            Unit::Named(name) => out.set_unit_name(name),
        };
        if self.multiplier != 1 {
            out.set_unit_multiplier(self.multiplier);
        }
    }
}
