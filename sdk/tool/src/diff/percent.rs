//! Differences of logarithms as percentages, and back.

/// Returns a difference of logarithms in percent.
pub(super) fn of_difference(difference: f64) -> f64 {
    100.0 * difference.exp_m1()
}

/// Formats a change, such as `+2.1 %`.
pub(super) fn change(difference: f64) -> String {
    format!("{} %", signed(difference))
}

/// Formats an interval, such as `+1.1 to +3.1 %`.
pub(super) fn interval((low, high): (f64, f64)) -> String {
    format!("{} to {} %", signed(low), signed(high))
}

fn signed(difference: f64) -> String {
    let percent = of_difference(difference);
    // Few traces make intervals beyond all measure.
    if percent >= 1e6 {
        return "∞".to_owned();
    }
    let digits = match percent.abs() {
        ..0.095 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{percent:+.digits$}")
}

/// Parses a threshold, such as `1%` or `0.5`, to a difference of logarithms.
pub(super) fn parse_threshold(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok((percent / 100.0).ln_1p()),
        _ => Err("give a percentage, such as 1%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_signed_percentages() {
        for (ratio, text) in [
            (1.021_f64, "+2.1 %"),
            (0.5, "-50.0 %"),
            (3.0, "+200 %"),
            (1.000_4, "+0.04 %"),
            (1e9, "∞ %"),
        ] {
            assert_eq!(change(ratio.ln()), text);
        }
        assert_eq!(interval((0.99_f64.ln(), 1.03_f64.ln())), "-1.0 to +3.0 %");
    }

    #[test]
    fn thresholds_are_percentages() {
        for text in ["2%", "2", "2.0 %"] {
            let threshold = parse_threshold(text).unwrap();
            assert!((threshold - 1.02_f64.ln()).abs() < 1e-12, "{text}");
        }
        for text in ["", "%", "-1%", "NaN", "inf", "1x"] {
            assert!(parse_threshold(text).is_err(), "{text}");
        }
    }
}
