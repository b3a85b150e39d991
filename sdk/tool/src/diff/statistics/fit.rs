//! The difference of one row between the sides, and how far its values vary within a side.

use super::moderation::Observed;
use super::{Point, Side};

/// A row of which both sides have values.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// The mean of the traces after, minus the mean of the traces before.
    pub(super) difference: f64,
    /// The variance of one trace of weight 1.
    pub(super) observed: Observed,
    /// The variance of the difference, as a multiple of that of a trace.
    pub(super) scale: f64,
}

/// The weighted mean of one side.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    weight: f64,
    squared_weight: f64,
    value: f64,
}

impl Fit {
    /// Compares the sides. `factors` are subtracted from the values of each trace.
    pub(super) fn of(row: &[Point], sides: &[Side], factors: &[f64]) -> Option<Self> {
        let weights = weights(row);
        let points = || {
            row.iter().zip(&weights).map(|(point, weight)| {
                let trace = point.trace as usize;
                (sides[trace], point.value - factors[trace], *weight)
            })
        };
        let mut means = [Mean::default(); 2];
        for (side, value, weight) in points() {
            means[side as usize].add(value, weight);
        }
        let [before, after] = means;
        if before.weight <= 0.0 || after.weight <= 0.0 {
            return None;
        }
        let squares = points()
            .map(|(side, value, weight)| weight * (value - means[side as usize].value).powi(2));
        // A trace with few calls has a small weight. It hardly adds to the squares, so it must hardly
        // add to the degrees of freedom.
        let degrees = before.effective_count() + after.effective_count() - 2.0;
        let degrees = if degrees < 0.5 { 0.0 } else { degrees };
        let of_calls = row
            .iter()
            .zip(&weights)
            .map(|(it, weight)| it.noise * weight);
        Some(Self {
            difference: after.value - before.value,
            observed: Observed {
                variance: match degrees > 0.0 {
                    true => squares.sum::<f64>() / degrees,
                    false => 0.0,
                },
                degrees,
                of_calls: of_calls.sum::<f64>() / row.len() as f64,
            },
            scale: 1.0 / before.weight + 1.0 / after.weight,
        })
    }
}

impl Mean {
    fn add(&mut self, value: f64, weight: f64) {
        self.weight += weight;
        self.squared_weight += weight * weight;
        self.value += (value - self.value) * weight / self.weight;
    }

    /// Returns the number of traces of equal weight that would be as good.
    fn effective_count(&self) -> f64 {
        self.weight * self.weight / self.squared_weight
    }
}

/// Returns the weight of each value. A value of few calls counts less. A value of very many calls
/// counts at most twice as much as usual: calls of one trace share its conditions, so the traces must
/// stay the sample.
pub(super) fn weights(row: &[Point]) -> Vec<f64> {
    // The harmonic mean: that of most values, also if one of them is very noisy.
    let usual = row.len() as f64 / row.iter().map(|point| 1.0 / point.noise).sum::<f64>();
    let weight = |point: &Point| match usual > 0.0 {
        true => 2.0 * usual / (usual + point.noise),
        false => 1.0,
    };
    row.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(trace: u32, value: f64, noise: f64) -> Point {
        Point {
            trace,
            value,
            noise,
        }
    }

    const SIDES: [Side; 5] = [
        Side::Before,
        Side::Before,
        Side::Before,
        Side::After,
        Side::After,
    ];

    #[test]
    fn equal_weights_give_the_pooled_variance() {
        let row = [1.0, 2.0, 3.0, 5.0, 7.0];
        let row = (0..)
            .zip(row)
            .map(|(trace, value)| point(trace, value, 0.1));
        let fit = Fit::of(&row.collect::<Vec<_>>(), &SIDES, &[0.0; 5]).unwrap();
        assert!((fit.difference - 4.0).abs() < 1e-12);
        assert!((fit.observed.variance - 4.0 / 3.0).abs() < 1e-12);
        assert!((fit.observed.degrees - 3.0).abs() < 1e-12);
        assert!((fit.scale - 5.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn a_trace_of_few_calls_hardly_counts() {
        let row = [
            point(0, 1.0, 0.001),
            point(1, 1.0, 0.001),
            point(2, 9.0, 1000.0),
            point(3, 2.0, 0.001),
            point(4, 2.0, 0.001),
        ];
        let fit = Fit::of(&row, &SIDES, &[0.0; 5]).unwrap();
        assert!((fit.difference - 1.0).abs() < 1e-4, "{fit:?}");
        assert!((fit.observed.degrees - 2.0).abs() < 1e-4, "{fit:?}");
    }

    #[test]
    fn a_row_of_one_side_has_no_difference() {
        let row = [point(0, 1.0, 0.1), point(1, 1.0, 0.1)];
        assert!(Fit::of(&row, &SIDES, &[0.0; 5]).is_none());
        assert!(Fit::of(&[], &SIDES, &[0.0; 5]).is_none());
    }
}
