//! Compares the rows of tables between two sides of traces.
//!
//! The sample is the trace, not the call: calls of one trace share its machine, its minute and its
//! input, so they are no independent witnesses. A trace has one value per row, such as the mean
//! logarithm of the durations of a name. Logarithms, because noise multiplies durations, and a few very
//! long calls must not decide.
//!
//! 1. `common_factor.rs` finds what all rows of a trace share, and subtracts it.
//! 2. `fit.rs` takes the difference of the means of the sides, and the variance within them.
//! 3. `moderation.rs` lets rows learn from each other how large variances are.
//! 4. `estimate.rs` puts both together; `levels.rs` says what that allows to claim, at two levels.

mod common_factor; // what all rows of a trace share
mod distributions; // Student's t and relatives
mod estimate; // differences with their uncertainty
mod fit; // the difference of one row
mod levels; // what differences allow to claim
mod moderation; // variances of few values
#[cfg(test)]
mod random; // random numbers for tests
#[cfg(test)]
mod trials; // how often changes are found, and alarms are false

use self::common_factor::common_factors;
use self::estimate::{compare, compare_alone};
use self::levels::{Levels, judge};

pub(super) use self::estimate::Estimate;
pub(super) use self::levels::{Verdict, candidate_level};

/// The probability with which an interval contains the true value.
pub(super) const CONFIDENCE: f64 = 0.95;
/// The probabilities that chance alone makes a name, its mean, a stack, or all together slower with
/// certainty. Their sum is the probability of a false alarm, half of the promised 1 %: real noise is less
/// well-behaved than that of the model. Names have most of it, since they are what a reader looks at
/// first. The others lose little: a seventh of a level takes half a standard error.
const LEVEL_OF_NAMES: f64 = 0.0035;
const LEVEL_OF_MEANS: f64 = 0.0005;
const LEVEL_OF_STACKS: f64 = 0.0005;
const LEVEL_OF_COMMON: f64 = 0.0005;
/// The probability that chance alone makes counts of calls differ with certainty, up or down. They raise
/// no alarm.
const LEVEL_OF_COUNTS: f64 = 0.01;
/// The smallest difference of logarithms of numbers of calls that counts, for any threshold. Programs that
/// always do the same differ by a call at the end of a recording.
const MIN_DIFFERENCE_OF_COUNTS: f64 = 0.01;

/// The side of a comparison that a trace is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// The value of a row in one trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) trace: u32,
    /// A logarithm.
    pub(super) value: f64,
    /// The variance that the value would have if calls were independent.
    pub(super) noise: f64,
}

/// What a comparison is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Keeps what all names share in their differences.
    pub(super) absolute: bool,
    /// The smallest difference of logarithms that counts, if it is given.
    pub(super) threshold: Option<f64>,
}

/// A row that was compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    /// `None` for rows that only one side has, and if nothing tells how far a row varies.
    pub(super) estimate: Option<Estimate>,
    pub(super) verdict: Verdict,
}

/// What all names share.
#[derive(Clone, Debug)]
pub(super) struct Common {
    /// The logarithm of the factor of each trace.
    pub(super) of_traces: Vec<f64>,
    /// The difference between the sides.
    pub(super) difference: f64,
    /// `None` if there is one trace on each side.
    pub(super) estimate: Option<Estimate>,
    pub(super) verdict: Verdict,
}

/// What became slower and faster.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// `None` if there are too few names on both sides to tell what they share.
    pub(super) common: Option<Common>,
    pub(super) names: Vec<Compared>,
    /// By name, too.
    pub(super) means: Vec<Compared>,
    pub(super) stacks: Vec<Compared>,
}

impl Comparison {
    /// Compares the typical and the mean times of names, and the typical times of stacks.
    pub(super) fn of(
        names: &[Vec<Point>],
        means: &[Vec<Point>],
        stacks: &[Vec<Point>],
        sides: &[Side],
        asked: Asked,
    ) -> Self {
        let common = Common::of(names, sides, asked);
        let kept = vec![0.0; sides.len()];
        let factors = match &common {
            Some(common) if !asked.absolute => &common.of_traces,
            _ => &kept,
        };
        let judged = |rows: &[Vec<Point>], certain| {
            let estimates = compare(rows, sides, factors);
            compared(estimates, asked.levels(certain, sides))
        };
        // Means of few long calls vary in other ways than those of many, so rows do not learn from others.
        let of_means = compare_alone(means, sides, factors);
        Self {
            names: judged(names, LEVEL_OF_NAMES),
            means: compared(of_means, asked.levels(LEVEL_OF_MEANS, sides)),
            stacks: judged(stacks, LEVEL_OF_STACKS),
            common,
        }
    }

    /// Returns true if anything became slower with certainty.
    pub(super) fn is_alarm(&self) -> bool {
        let rows = self.names.iter().chain(&self.means).chain(&self.stacks);
        let common = self.common.iter().map(|common| common.verdict);
        rows.map(|row| row.verdict)
            .chain(common)
            .any(|verdict| verdict == Verdict::Slower)
    }
}

/// Compares numbers of calls; "slower" stands for more. What the traces of a side have more of everything,
/// as they are longer, does not count.
pub(super) fn compare_counts(rows: &[Vec<Point>], sides: &[Side], asked: Asked) -> Vec<Compared> {
    let factors = common_factors(rows, sides);
    let factors = factors.unwrap_or_else(|| vec![0.0; sides.len()]);
    let estimates = compare(rows, sides, &factors);
    // With the same input, many programs always make the same calls. So a difference can be certain
    // even if there is only one trace on each side.
    let levels = asked.levels(LEVEL_OF_COUNTS, sides);
    let levels = Levels {
        min_difference: levels.min_difference.max(MIN_DIFFERENCE_OF_COUNTS),
        is_certain_possible: true,
        ..levels
    };
    compared(estimates, levels)
}

/// Returns true if there is one trace on each side, so that nothing tells how far traces vary.
pub(super) fn is_single(sides: &[Side]) -> bool {
    sides.len() == 2
}

impl Common {
    fn of(names: &[Vec<Point>], sides: &[Side], asked: Asked) -> Option<Self> {
        let of_traces = common_factors(names, sides)?;
        let points = of_traces.iter().zip(0..).map(|(value, trace)| Point {
            trace,
            value: *value,
            noise: 0.0,
        });
        let points: Vec<Point> = points.collect();
        let estimates = compare_alone(&[points], sides, &vec![0.0; sides.len()]);
        let judged = compared(estimates, asked.levels(LEVEL_OF_COMMON, sides));
        let Compared { estimate, verdict } = *judged.first()?;
        let mean = |side: Side| {
            let traces = sides.iter().zip(&of_traces).filter(|(of, _)| **of == side);
            let values = traces.clone().map(|(_, value)| value).sum::<f64>();
            values / traces.count() as f64
        };
        Some(Self {
            difference: mean(Side::After) - mean(Side::Before),
            estimate,
            verdict,
            of_traces,
        })
    }
}

impl Asked {
    fn levels(self, certain: f64, sides: &[Side]) -> Levels {
        Levels {
            certain,
            min_difference: self.threshold.unwrap_or_default(),
            // One trace on each side differs from the other for many reasons. Nothing is certain then,
            // unless the user tells how much two equal traces differ.
            is_certain_possible: !is_single(sides) || self.threshold.is_some(),
        }
    }
}

fn compared(estimates: Vec<Option<Estimate>>, levels: Levels) -> Vec<Compared> {
    let verdicts = judge(&estimates, levels);
    let rows = estimates.into_iter().zip(verdicts);
    rows.map(|(estimate, verdict)| Compared { estimate, verdict })
        .collect()
}
