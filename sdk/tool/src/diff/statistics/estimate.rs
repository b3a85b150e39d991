//! Differences of rows, with their uncertainty.

use super::common_factor::median;
use super::distributions::{t_quantile, t_tail};
use super::fit::Fit;
use super::moderation::{MIN_VARIANCE, Moderated, Prior};
use super::{CONFIDENCE, Point, Side, is_single};

/// The minimum number of rows that tell how much single traces vary beyond their calls.
const MIN_ROWS_FOR_SPREAD: usize = 5;
/// The number of rows that tell as much of a spread, by their median, as one degree of freedom.
const ROWS_PER_DEGREE: f64 = 3.0;
/// So many degrees of freedom that t is normal.
const MANY_DEGREES: f64 = 1e9;
/// The median of the squares of a standard normal variable.
const MEDIAN_OF_SQUARES: f64 = 0.4549;

/// A difference of logarithms between the sides, with its uncertainty.
#[derive(Clone, Copy, Debug)]
pub(in crate::diff) struct Estimate {
    pub(in crate::diff) difference: f64,
    /// The standard error of the difference.
    pub(in crate::diff) error: f64,
    pub(in crate::diff) degrees: f64,
}

impl Estimate {
    /// Returns the probability of a difference at least this far upwards if there is none.
    pub(in crate::diff) fn p_slower(&self) -> f64 {
        t_tail(self.difference / self.error, self.degrees)
    }

    /// Returns the probability of a difference at least this far downwards if there is none.
    pub(in crate::diff) fn p_faster(&self) -> f64 {
        t_tail(-self.difference / self.error, self.degrees)
    }

    /// Returns the interval around the difference that contains the true one with [`CONFIDENCE`].
    pub(in crate::diff) fn interval(&self) -> (f64, f64) {
        let reach = t_quantile((1.0 - CONFIDENCE) / 2.0, self.degrees) * self.error;
        (self.difference - reach, self.difference + reach)
    }
}

/// Returns the difference of each row; `None` for rows that only one side has, and for those of which
/// nothing tells how far they vary.
pub(super) fn compare(
    rows: &[Vec<Point>],
    sides: &[Side],
    factors: &[f64],
) -> Vec<Option<Estimate>> {
    let fits: Vec<Option<Fit>> = rows
        .iter()
        .map(|row| Fit::of(row, sides, factors))
        .collect();
    let known: Vec<_> = fits.iter().flatten().map(|fit| fit.observed).collect();
    let is_single = is_single(sides);
    let prior = Prior::of(&known);
    let spread = spread_beyond_calls(&fits);
    let moderate = |fit: &Fit| match &prior {
        Some(prior) => Some(prior.moderate(fit.observed)),
        None if fit.observed.degrees > 0.0 => Some(Moderated {
            variance: fit.observed.variance.max(MIN_VARIANCE),
            degrees: fit.observed.degrees,
        }),
        None if is_single => Some(Moderated {
            variance: (fit.observed.of_calls * spread.variance).max(MIN_VARIANCE),
            degrees: spread.degrees,
        }),
        None => None,
    };
    let estimate = |fit: &Option<Fit>| {
        let fit = fit.as_ref()?;
        let Moderated { variance, degrees } = moderate(fit)?;
        Some(Estimate {
            difference: fit.difference,
            error: (variance * fit.scale).sqrt(),
            degrees,
        })
    };
    fits.iter().map(estimate).collect()
}

/// Returns the difference of each row, without what other rows tell of variances. `None` also if there is
/// one trace on each side.
pub(super) fn compare_alone(
    rows: &[Vec<Point>],
    sides: &[Side],
    factors: &[f64],
) -> Vec<Option<Estimate>> {
    let estimate = |row: &Vec<Point>| {
        let fit = Fit::of(row, sides, factors)?;
        let variance = fit.observed.variance.max(MIN_VARIANCE);
        (fit.observed.degrees > 0.0).then(|| Estimate {
            difference: fit.difference,
            error: (variance * fit.scale).sqrt(),
            degrees: fit.observed.degrees,
        })
    };
    rows.iter().map(estimate).collect()
}

/// Returns how many times larger the variance of differences between two single traces is than calls
/// explain, if most rows did not change; at least 1.
fn spread_beyond_calls(fits: &[Option<Fit>]) -> Moderated {
    let squares: Vec<f64> = fits
        .iter()
        .flatten()
        .map(|fit| {
            let variance = fit.observed.of_calls * fit.scale;
            fit.difference.powi(2) / variance.max(MIN_VARIANCE)
        })
        .collect();
    let spread = median(&squares) / MEDIAN_OF_SQUARES;
    match squares.len() >= MIN_ROWS_FOR_SPREAD && spread > 1.0 {
        true => Moderated {
            variance: spread,
            degrees: squares.len() as f64 / ROWS_PER_DEGREE,
        },
        false => Moderated {
            variance: 1.0,
            degrees: MANY_DEGREES,
        },
    }
}
