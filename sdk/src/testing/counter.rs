//! The values of a counter.

use std::iter::Copied;
use std::slice;

use super::failure;
use super::trace::{Trace, TrackData};

/// A counter of a trace, with at least one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// The values with their times, in the order of the times.
    values: Vec<(u64, f64)>,
}

impl<'c> IntoIterator for &'c Counter {
    type Item = (u64, f64);
    type IntoIter = Copied<slice::Iter<'c, (u64, f64)>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter().copied()
    }
}

impl Counter {
    #[track_caller]
    pub(super) fn find(trace: &Trace, name: &str) -> Self {
        // Several counters with the same name, for instance of different threads, are merged.
        let has_name = |track: &&TrackData| track.is_counter && track.name == name;
        let tracks = trace.contents.tracks.iter().filter(has_name);
        let mut values: Vec<(u64, f64)> = tracks.flat_map(|track| &track.values).copied().collect();
        values.sort_by_key(|(timestamp_ns, _)| *timestamp_ns);
        if values.is_empty() {
            let names = trace.counter_names();
            let similar = failure::is_it(name, names.iter().copied());
            let hint = failure::attach_hint(trace);
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            match names.as_slice() {
                [] => panic!("expected counter {name:?}, but the trace has no counters{hint}"),
                _ => panic!(
                    "expected counter {name:?}{similar}{hint}{}",
                    failure::list("\ncounters of the trace", &names)
                ),
            }
        }
        Self { values }
    }

    /// Returns the values, in the order of their times.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.values.iter().map(|(_, value)| *value).collect()
    }

    /// Returns the values with their times, in nanoseconds on the trace clock.
    pub fn iter(&self) -> Copied<slice::Iter<'_, (u64, f64)>> {
        self.into_iter()
    }

    /// Returns the first value.
    #[must_use]
    pub fn first(&self) -> f64 {
        self.fold(|first, _| first)
    }

    /// Returns the last value.
    #[must_use]
    pub fn last(&self) -> f64 {
        self.fold(|_, last| last)
    }

    /// Returns the smallest value.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.fold(f64::min)
    }

    /// Returns the largest value.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.fold(f64::max)
    }

    fn fold(&self, choose: impl Fn(f64, f64) -> f64) -> f64 {
        let values = self.values.iter().map(|(_, value)| *value);
        // A counter has at least one value.
        values.reduce(choose).unwrap_or(f64::NAN)
    }
}
