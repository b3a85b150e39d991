//! Moderates variances: shrinks the variance that each row shows in few traces towards what is usual
//! for rows like it.
//!
//! A variance of a handful of values is itself a bad guess, and a row whose variance is small by chance
//! looks certain. All rows together tell how far true variances spread. The usual one is a line through
//! the logarithms of variances, over the variance that calls alone explain. The spread around it tells
//! how many degrees of freedom it is worth (Smyth 2004, `limma`).

use super::distributions::{digamma, inverse_trigamma, trigamma};

/// The smallest variance of a logarithm, which stands for a standard deviation of one millionth. Clocks
/// are not more exact, and equal values have no variance at all.
pub(super) const MIN_VARIANCE: f64 = 1e-12;
/// The minimum number of rows that tell what is usual. Fewer rows keep their own variances.
const MIN_ROWS: usize = 3;
/// The minimum number of rows for a line with a slope.
const MIN_ROWS_FOR_SLOPE: usize = 10;

/// The variance of a row between traces, as it is observed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed {
    pub(super) variance: f64,
    /// 0 if there is only one trace on each side; the variance then says nothing.
    pub(super) degrees: f64,
    /// The variance that independent calls would have.
    pub(super) of_calls: f64,
}

/// A variance with the number of degrees of freedom that it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moderated {
    pub(super) variance: f64,
    pub(super) degrees: f64,
}

/// What is usual for a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prior {
    intercept: f64,
    slope: f64,
    /// The number of degrees of freedom that the usual variance is worth.
    degrees: f64,
    /// The sum of the degrees of freedom of all rows. No row can be worth more.
    degrees_max: f64,
}

impl Prior {
    /// Finds what is usual. Returns `None` if there are too few rows to tell.
    pub(super) fn of(rows: &[Observed]) -> Option<Self> {
        let rows = rows.iter().filter(|row| row.degrees > 0.0);
        // Unbiased logarithms of variances, the variance of each by chance, and the logarithm of the
        // variance of calls.
        let points: Vec<(f64, f64, f64)> = rows
            .clone()
            .map(|row| {
                let half = row.degrees / 2.0;
                let log = row.variance.max(MIN_VARIANCE).ln() - digamma(half) + half.ln();
                (log, trigamma(half), row.of_calls.max(MIN_VARIANCE).ln())
            })
            .collect();
        if points.len() < MIN_ROWS {
            return None;
        }
        let count = points.len() as f64;
        let mean =
            |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (log, by_chance, calls) = (mean(&|it| it.0), mean(&|it| it.1), mean(&|it| it.2));
        let joint = mean(&|it| (it.0 - log) * (it.2 - calls));
        let spread = mean(&|it| (it.2 - calls).powi(2));
        // With a slope of 1, variances grow as those of calls, and with 0 calls explain nothing.
        let slope = match points.len() >= MIN_ROWS_FOR_SLOPE && spread > 0.0 {
            true => (joint / spread).clamp(0.0, 1.0),
            false => 0.0,
        };
        let line = |of_calls: f64| log + slope * (of_calls - calls);
        let around = mean(&|it| (it.0 - line(it.2)).powi(2)) * count / (count - 1.0);
        let degrees = match around - by_chance {
            true_spread if true_spread > 0.0 => 2.0 * inverse_trigamma(true_spread),
            _ => f64::INFINITY,
        };
        let half = degrees / 2.0;
        let bias = match half.is_finite() {
            true => digamma(half) - half.ln(),
            false => 0.0,
        };
        Some(Self {
            intercept: log - slope * calls + bias,
            slope,
            degrees,
            degrees_max: rows.map(|row| row.degrees).sum(),
        })
    }

    /// Returns the variance of a row, between the observed and the usual one.
    pub(super) fn moderate(&self, row: Observed) -> Moderated {
        let usual = (self.intercept + self.slope * row.of_calls.max(MIN_VARIANCE).ln()).exp();
        let variance = match self.degrees.is_finite() {
            true => {
                let own = row.degrees * row.variance.max(MIN_VARIANCE);
                (self.degrees * usual + own) / (self.degrees + row.degrees)
            }
            false => usual,
        };
        Moderated {
            variance: variance.max(MIN_VARIANCE),
            degrees: (self.degrees + row.degrees).min(self.degrees_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    /// Draws variances of values of which each row has `degrees` more than one.
    fn observed(rows: usize, degrees: u32, spread: f64) -> Vec<Observed> {
        let mut random = Random::new(1);
        let mut row = || {
            let truth = (spread * random.normal()).exp();
            let squares = (0..degrees).map(|_| random.normal().powi(2));
            Observed {
                variance: truth * squares.sum::<f64>() / f64::from(degrees),
                degrees: degrees.into(),
                of_calls: 1.0,
            }
        };
        (0..rows).map(|_| row()).collect()
    }

    #[test]
    fn equal_variances_are_worth_those_of_many_rows() {
        let rows = observed(200, 4, 0.0);
        let prior = Prior::of(&rows).unwrap();
        let moderated = prior.moderate(rows[0]);
        assert!(moderated.degrees > 40.0, "{moderated:?}");
        assert!((moderated.variance - 1.0).abs() < 0.15, "{moderated:?}");
    }

    #[test]
    fn variances_that_differ_are_kept() {
        let rows = observed(200, 50, 2.0);
        let prior = Prior::of(&rows).unwrap();
        let moderated = prior.moderate(rows[0]);
        assert!(moderated.degrees < 53.0, "{moderated:?}");
        assert!((moderated.variance / rows[0].variance - 1.0).abs() < 0.2);
    }

    #[test]
    fn usual_variances_follow_those_of_calls() {
        let mut rows = observed(200, 10, 0.0);
        for (index, row) in rows.iter_mut().enumerate() {
            row.of_calls = 1.0 + index as f64;
            row.variance *= row.of_calls;
        }
        let moderated = Prior::of(&rows).unwrap().moderate(rows[99]);
        assert!(
            (moderated.variance / 100.0 - 1.0).abs() < 0.15,
            "{moderated:?}"
        );
        assert!(moderated.degrees > 40.0, "{moderated:?}");
    }

    #[test]
    fn few_rows_tell_nothing() {
        assert!(Prior::of(&observed(2, 4, 0.0)).is_none());
        let alone = Observed {
            variance: 0.0,
            degrees: 0.0,
            of_calls: 1.0,
        };
        assert!(Prior::of(&[alone; 100]).is_none());
    }
}
