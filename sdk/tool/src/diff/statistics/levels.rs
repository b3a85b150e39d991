//! What differences of many rows allow to claim, at two levels.
//!
//! A list of candidates should miss little, and an alarm should hardly ever be false. No test can do
//! both for small changes, so these are two levels:
//!
//! - A row is a candidate if its own interval of 95 % excludes zero. Of many equal rows, chance makes
//!   some candidates. The level falls with the number of rows, so that these are two on average at most.
//! - A row is certain if it would be, with the probability of the level, not even one of all rows that
//!   chance picks (Holm's procedure, for slower and faster rows apart).

use super::Estimate;

/// The average number of rows that chance may make candidates.
const CANDIDATES_BY_CHANCE: f64 = 2.0;

/// The limits of a comparison of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    /// The probability that any row becomes certain by chance in one direction.
    pub(super) certain: f64,
    /// The smallest difference of logarithms that counts.
    pub(super) min_difference: f64,
    pub(super) is_certain_possible: bool,
}

/// What is claimed about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::diff) enum Verdict {
    Slower,
    PerhapsSlower,
    Faster,
    PerhapsFaster,
    Equal,
}

impl Verdict {
    pub(in crate::diff) const fn as_str(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::PerhapsSlower => "perhaps slower",
            Self::Faster => "faster",
            Self::PerhapsFaster => "perhaps faster",
            Self::Equal => "equal",
        }
    }
}

/// Returns the probability with which chance alone makes a row a candidate, slower or faster.
pub(in crate::diff) fn candidate_level(rows: usize) -> f64 {
    (1.0 - super::CONFIDENCE).min(CANDIDATES_BY_CHANCE / rows.max(1) as f64)
}

/// Judges rows. Rows without an estimate count as equal.
pub(super) fn judge(rows: &[Option<Estimate>], levels: Levels) -> Vec<Verdict> {
    let tested = rows.iter().flatten().count();
    let candidate = candidate_level(tested) / 2.0;
    let certain_slower = holm(rows, Estimate::p_slower, levels.certain);
    let certain_faster = holm(rows, Estimate::p_faster, levels.certain);
    let judge = |(index, row): (usize, &Option<Estimate>)| {
        let Some(row) = row else {
            return Verdict::Equal;
        };
        if row.difference.abs() < levels.min_difference {
            return Verdict::Equal;
        }
        match row {
            _ if levels.is_certain_possible && certain_slower[index] => Verdict::Slower,
            _ if levels.is_certain_possible && certain_faster[index] => Verdict::Faster,
            row if row.p_slower() <= candidate => Verdict::PerhapsSlower,
            row if row.p_faster() <= candidate => Verdict::PerhapsFaster,
            _ => Verdict::Equal,
        }
    };
    rows.iter().enumerate().map(judge).collect()
}

/// Marks the rows that differ with certainty: the smallest probability against the level divided by
/// the number of rows, the next against the level divided by one row less, until one is too large.
fn holm(rows: &[Option<Estimate>], p: impl Fn(&Estimate) -> f64, level: f64) -> Vec<bool> {
    let tested = rows.iter().enumerate();
    let mut tested: Vec<(usize, f64)> = tested
        .filter_map(|(index, row)| Some((index, p(row.as_ref()?))))
        .collect();
    tested.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut marks = vec![false; rows.len()];
    let count = tested.len();
    for (rank, (index, p)) in tested.into_iter().enumerate() {
        if p * (count - rank) as f64 > level {
            break;
        }
        marks[index] = true;
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(errors_away: &[f64]) -> Vec<Option<Estimate>> {
        let row = |difference: &f64| Estimate {
            difference: *difference,
            error: 1.0,
            degrees: 1e9,
        };
        errors_away.iter().map(|it| Some(row(it))).collect()
    }

    const LEVELS: Levels = Levels {
        certain: 0.01,
        min_difference: 0.0,
        is_certain_possible: true,
    };

    #[test]
    fn both_levels_are_told_apart_in_both_directions() {
        let verdicts = judge(&rows(&[5.0, 2.1, 0.0, -2.1, -5.0]), LEVELS);
        let expected = [
            Verdict::Slower,
            Verdict::PerhapsSlower,
            Verdict::Equal,
            Verdict::PerhapsFaster,
            Verdict::Faster,
        ];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn a_certain_row_makes_room_for_the_next() {
        // 2.7 errors have a probability of 0.0035: too much for one of three, enough for one of two.
        let alone = judge(&rows(&[2.7, 0.0, 0.0]), LEVELS);
        assert_eq!(alone[0], Verdict::PerhapsSlower);
        let beside_another = judge(&rows(&[2.7, 9.0, 0.0]), LEVELS);
        assert_eq!(beside_another[0], Verdict::Slower);
    }

    #[test]
    fn differences_below_the_smallest_do_not_count() {
        let levels = Levels {
            min_difference: 6.0,
            ..LEVELS
        };
        let verdicts = judge(&rows(&[5.0, 7.0]), levels);
        assert_eq!(verdicts, [Verdict::Equal, Verdict::Slower]);
    }

    #[test]
    fn chance_makes_two_candidates_at_most() {
        for rows in [1, 40, 41, 10_000] {
            assert!(candidate_level(rows) * rows as f64 <= 2.0 + 1e-9, "{rows}");
        }
        assert_eq!(candidate_level(3), 1.0 - super::super::CONFIDENCE);
    }
}
