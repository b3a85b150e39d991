//! Student's t distribution and the functions that moderated variances need. Accurate to about nine
//! digits, which is more than any test here depends on.

use std::f64::consts::{LN_2, PI};

/// The number of degrees of freedom from which the t distribution counts as normal.
const NORMAL_FROM: f64 = 1e5;
/// The argument from which asymptotic series are exact enough.
const SERIES_FROM: f64 = 12.0;
/// The maximum number of terms of a continued fraction or a series.
const MAX_TERMS: usize = 2000;
/// The number of halvings that find a root to the last digit.
const HALVINGS: usize = 100;

/// Returns the probability that a variable of Student's t distribution is larger than `t`.
pub(super) fn t_tail(t: f64, degrees: f64) -> f64 {
    if degrees >= NORMAL_FROM {
        return normal_tail(t);
    }
    let upper = 0.5 * incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5);
    match t > 0.0 {
        true => upper,
        false => 1.0 - upper,
    }
}

/// Returns the value that a variable of Student's t distribution exceeds with this probability, which
/// is less than one half.
pub(super) fn t_quantile(tail: f64, degrees: f64) -> f64 {
    let mut high = 1.0;
    while t_tail(high, degrees) > tail && high < 1e12 {
        high *= 4.0;
    }
    falling_root(0.0, high, |t| t_tail(t, degrees) - tail)
}

fn normal_tail(z: f64) -> f64 {
    let magnitude = z.abs();
    let upper = if magnitude < 3.0 {
        // The sum of z^(2k+1) / (1 * 3 * 5 .. (2k+1)), times the density.
        let (mut term, mut sum) = (magnitude, magnitude);
        for k in 1..MAX_TERMS {
            term *= magnitude * magnitude / (2 * k + 1) as f64;
            sum += term;
            if term < sum * f64::EPSILON {
                break;
            }
        }
        0.5 - sum * normal_density(magnitude)
    } else {
        // The continued fraction z + 1/(z + 2/(z + 3/..)) of the density over the tail.
        let fraction = (1..=100)
            .rev()
            .fold(magnitude, |below, k| magnitude + f64::from(k) / below);
        normal_density(magnitude) / fraction
    };
    match z > 0.0 {
        true => upper,
        false => 1.0 - upper,
    }
}

fn normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// Returns the regularized incomplete beta function.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast on the near side of the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let scale = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    let front = (scale + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    front / beta_fraction(x, a, b)
}

/// Returns the continued fraction 1 + d1/(1 + d2/(1 + ..)) of the incomplete beta function, from the
/// front by ratios of successive convergents (Lentz).
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |value: f64| match value.abs() < 1e-300 {
        true => 1e-300,
        false => value,
    };
    let (mut value, mut upper, mut lower) = (1.0, 1.0, 0.0);
    for index in 1..MAX_TERMS {
        let m = (index / 2) as f64;
        let coefficient = match index % 2 {
            0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        upper = away_from_zero(1.0 + coefficient / upper);
        lower = 1.0 / away_from_zero(1.0 + coefficient * lower);
        let step = upper * lower;
        value *= step;
        if (step - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 1.0);
    while x < SERIES_FROM {
        below *= x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (LN_2 + PI.ln()) + series - below.ln()
}

/// Returns the derivative of the logarithm of the gamma function.
pub(super) fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < SERIES_FROM {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)));
    sum + x.ln() - 0.5 / x - series
}

/// Returns the second derivative of the logarithm of the gamma function.
pub(super) fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < SERIES_FROM {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = y * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)));
    sum + (1.0 + 0.5 / x + series) / x
}

/// Returns the argument for which [`trigamma`] has this value.
pub(super) fn inverse_trigamma(value: f64) -> f64 {
    // Search by the logarithm: the values span many powers of ten.
    falling_root(-30.0, 30.0, |ln_x| trigamma(ln_x.exp()) - value).exp()
}

/// Finds a root of a function that falls between `low` and `high`.
fn falling_root(mut low: f64, mut high: f64, function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        match function(middle) > 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_near(value: f64, expected: f64) {
        let error = (value - expected).abs();
        assert!(error <= 2e-5 * expected.abs(), "{value} is not {expected}");
    }

    #[test]
    fn tails_agree_with_published_tables() {
        for (tail, degrees, t) in [
            (0.025, 1.0, 12.7062),
            (0.025, 2.0, 4.30265),
            (0.005, 4.0, 4.60409),
            (0.025, 18.0, 2.10092),
            (0.0005, 18.0, 3.92165),
            (0.05, 120.0, 1.65765),
            (0.025, 1e9, 1.95996),
            (0.0005, 1e9, 3.29053),
        ] {
            assert_near(t_quantile(tail, degrees), t);
            assert_near(t_tail(t, degrees), tail);
            assert_near(t_tail(-t, degrees), 1.0 - tail);
        }
        assert_near(normal_tail(6.0), 9.865_876e-10);
        assert_near(t_tail(1e4, 2.0), 5e-9);
        assert_near(t_tail(0.0, 7.0), 0.5);
    }

    #[test]
    fn the_normal_tail_is_continuous_between_its_formulas() {
        let [below, above] = [2.999_999_9, 3.000_000_1].map(normal_tail);
        assert_near(below, above);
    }

    #[test]
    fn large_degrees_of_freedom_are_nearly_normal() {
        let [t, normal] = [NORMAL_FROM * 0.999, NORMAL_FROM].map(|degrees| t_tail(3.5, degrees));
        assert!((t / normal - 1.0).abs() < 1e-3, "{t} {normal}");
    }

    #[test]
    fn derivatives_of_the_gamma_function_are_known_at_one() {
        assert_near(digamma(1.0), -0.577_215_664_9);
        assert_near(trigamma(1.0), PI * PI / 6.0);
        assert_near(ln_gamma(0.5), PI.sqrt().ln());
        assert_near(ln_gamma(10.0), 362_880_f64.ln());
        for x in [0.01, 0.5, 9.0, 1e6] {
            assert_near(inverse_trigamma(trigamma(x)), x);
        }
    }
}
