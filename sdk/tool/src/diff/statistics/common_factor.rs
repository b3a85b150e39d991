//! Finds the factor that all names of a trace share: a slow machine, a busy neighbour, a change that
//! makes everything slower.

use super::fit::{Fit, weights};
use super::{Point, Side};

/// The minimum number of names from which a factor of all of them is told apart from changes of some.
pub(super) const MIN_ROWS: usize = 5;
/// The number of times that means of rows and factors of traces are found from each other.
const ROUNDS: usize = 4;
/// The number of standard deviations from which a name pulls at the factor no stronger than others.
/// Usual for estimates after Huber: they lose 4 % against a mean if nothing changed.
const CLIPPED_FROM: f64 = 1.5;
/// The standard deviation of a normal distribution whose median distance from its centre is 1.
const DEVIATION_OF_MEDIAN: f64 = 1.4826;
/// The number of steps from the median to the centre. Each halves the rest of the way or better.
const STEPS: usize = 5;

/// A value that counts with a weight.
#[derive(Clone, Copy, Debug)]
struct Weighted {
    value: f64,
    weight: f64,
}

/// Returns the logarithm of each trace's factor. Returns `None` if too few rows have values on both
/// sides.
pub(super) fn common_factors(rows: &[Vec<Point>], sides: &[Side]) -> Option<Vec<f64>> {
    let mut factors = vec![0.0; sides.len()];
    let is_on_both = |row: &&Vec<Point>| {
        let is_on = |side| row.iter().any(|point| sides[point.trace as usize] == side);
        is_on(Side::Before) && is_on(Side::After)
    };
    let rows: Vec<(&Vec<Point>, Vec<f64>)> = rows
        .iter()
        .filter(is_on_both)
        .map(|row| (row, weights(row)))
        .collect();
    if rows.len() < MIN_ROWS {
        return None;
    }
    let mut variances = vec![0.0; rows.len()];
    for round in 0..ROUNDS {
        let mut deviations = vec![Vec::new(); sides.len()];
        for ((row, weights), variance) in rows.iter().zip(&variances) {
            let points = || row.iter().zip(weights);
            let sum: f64 = points()
                .map(|(it, weight)| weight * (it.value - factors[it.trace as usize]))
                .sum();
            let mean = sum / weights.iter().sum::<f64>();
            for (point, weight) in points() {
                deviations[point.trace as usize].push(Weighted {
                    value: point.value - mean,
                    // Rows that vary more count less. The first round does not know them.
                    weight: match round {
                        0 => *weight,
                        _ => 1.0 / (variance / weight + 1.0),
                    },
                });
            }
        }
        for (factor, deviations) in factors.iter_mut().zip(&mut deviations) {
            *factor = centre(deviations);
        }
        for ((row, _), variance) in rows.iter().zip(&mut variances) {
            let fit = Fit::of(row, sides, &factors);
            *variance = fit.map_or(0.0, |fit| match fit.observed.degrees > 0.0 {
                true => fit.observed.variance,
                false => fit.observed.of_calls,
            });
        }
        // Count in units of a usual variance, so that no row is more than twice as important.
        let usual = median(&variances);
        if usual > 0.0 {
            variances.iter_mut().for_each(|variance| *variance /= usual);
        }
    }
    Some(factors)
}

/// Returns the centre of values, most of which are equal but for noise. The others do not matter much,
/// however far they are.
fn centre(values: &mut [Weighted]) -> f64 {
    let mut centre = weighted_median(values);
    let distances = values.iter().map(|it| Weighted {
        value: (it.value - centre).abs(),
        weight: it.weight,
    });
    let mut distances: Vec<Weighted> = distances.collect();
    let reach = CLIPPED_FROM * DEVIATION_OF_MEDIAN * weighted_median(&mut distances);
    let all: f64 = values.iter().map(|it| it.weight).sum();
    for _ in 0..STEPS {
        let pulls = values
            .iter()
            .map(|it| it.weight * (it.value - centre).clamp(-reach, reach));
        centre += pulls.sum::<f64>() / all;
    }
    centre
}

/// Returns the value that half of the weight does not exceed; 0 if there are no values.
fn weighted_median(values: &mut [Weighted]) -> f64 {
    values.sort_unstable_by(|a, b| a.value.total_cmp(&b.value));
    let half = values.iter().map(|it| it.weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (index, it) in values.iter().enumerate() {
        below += it.weight;
        if below > half {
            return it.value;
        }
        // Exactly half is below: the middle of the gap.
        if below == half {
            let next = values.get(index + 1).unwrap_or(it);
            return 0.5 * (it.value + next.value);
        }
    }
    values.last().map_or(0.0, |it| it.value)
}

/// Returns the median; 0 if there are no values.
pub(super) fn median(values: &[f64]) -> f64 {
    let values = values.iter().map(|value| Weighted {
        value: *value,
        weight: 1.0,
    });
    weighted_median(&mut values.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: [Side; 4] = [Side::Before, Side::Before, Side::After, Side::After];

    /// Makes a row of four traces.
    fn row(values: [f64; 4]) -> Vec<Point> {
        let points = values.into_iter().zip(0..).map(|(value, trace)| Point {
            trace,
            value,
            noise: 1e-6,
        });
        points.collect()
    }

    #[test]
    fn most_rows_decide_what_is_common() {
        let mut rows: Vec<_> = (0..7)
            .map(|number| row([0.0, 0.1, 0.02, 0.03].map(|factor| factor + f64::from(number))))
            .collect();
        rows.push(row([0.0, 0.1, 1.02, 1.03]));
        rows.push(row([0.0, 0.1, 2.02, 2.03]));
        let factors = common_factors(&rows, &SIDES).unwrap();
        for (factor, expected) in factors.iter().zip([0.0, 0.1, 0.02, 0.03]) {
            let difference = factor - factors[0] - expected;
            assert!(difference.abs() < 1e-6, "{factors:?}");
        }
    }

    #[test]
    fn few_rows_have_nothing_in_common() {
        let rows = vec![row([0.0, 0.1, 0.2, 0.3]); MIN_ROWS];
        assert!(common_factors(&rows, &SIDES).is_some());
        assert!(common_factors(&rows[1..], &SIDES).is_none());
        // Rows of one side tell nothing of the other.
        let one_sided = vec![row([0.0; 4])[..2].to_vec(); MIN_ROWS];
        assert!(common_factors(&one_sided, &SIDES).is_none());
    }

    #[test]
    fn the_median_counts_weights() {
        let weighted = |values: &[(f64, f64)]| {
            let values = values.iter().map(|(value, weight)| Weighted {
                value: *value,
                weight: *weight,
            });
            weighted_median(&mut values.collect::<Vec<_>>())
        };
        assert_eq!(weighted(&[(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), 2.0);
        assert_eq!(weighted(&[(1.0, 1.0), (2.0, 1.0)]), 1.5);
        assert_eq!(weighted(&[(1.0, 5.0), (2.0, 1.0), (3.0, 1.0)]), 1.0);
        assert_eq!(weighted(&[]), 0.0);
    }
}
