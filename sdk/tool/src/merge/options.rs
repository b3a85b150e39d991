//! Parses options that give a value for one of the files.

use std::path::PathBuf;

use super::machines::OfFile;

const NANOSECONDS: i128 = 1_000_000_000;

/// Parses `FILE=NAME`.
pub(super) fn machine(text: &str) -> Result<OfFile<String>, String> {
    let (path, name) = of_file(text)?;
    match name {
        "" => Err("give the machine a name, such as server.pftrace=server".to_owned()),
        name => Ok(OfFile {
            path,
            value: name.to_owned(),
        }),
    }
}

/// Parses `FILE=DURATION`, a duration with a sign.
pub(super) fn clock_offset(text: &str) -> Result<OfFile<i64>, String> {
    let (path, offset) = of_file(text)?;
    let value = offset_ns(offset).ok_or_else(|| {
        format!("{offset:?} is no duration: give one with ns, us, ms or s, such as -1.5ms")
    })?;
    Ok(OfFile { path, value })
}

fn of_file(text: &str) -> Result<(PathBuf, &str), String> {
    // The path may have equals signs.
    match text.rsplit_once('=') {
        Some((path, value)) if !path.is_empty() => Ok((path.into(), value)),
        _ => Err("name a trace, an equals sign and a value".to_owned()),
    }
}

/// Parses a duration exactly. A number alone is in seconds.
fn offset_ns(text: &str) -> Option<i64> {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let unit_at = text.find(|digit: char| !digit.is_ascii_digit() && digit != '.');
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let unit_ns = match unit.trim() {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => NANOSECONDS,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_digits = number.contains(|digit: char| digit.is_ascii_digit());
    if !has_digits || number.len() > 20 || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let digits = format!("{whole}{fraction:0<9}").parse::<i128>().ok()?;
    let ns = digits * unit_ns / NANOSECONDS;
    i64::try_from(if is_negative { -ns } else { ns }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_exact_and_have_a_sign_and_a_unit() {
        let offsets = [
            ("0", Some(0)),
            ("+1.234567891 s", Some(1_234_567_891)),
            ("-1.5ms", Some(-1_500_000)),
            ("35us", Some(35_000)),
            ("7ns", Some(7)),
            ("100", Some(100_000_000_000)),
            ("", None),
            ("-", None),
            (".", None),
            ("1.2.3s", None),
            ("1h", None),
            ("99999999999999999999s", None),
        ];
        for (text, ns) in offsets {
            assert_eq!(offset_ns(text), ns, "{text}");
        }
    }

    #[test]
    fn paths_may_have_equals_signs() {
        let parsed = machine("a=b.pftrace=server").map(|it| (it.path, it.value));
        assert_eq!(parsed, Ok(("a=b.pftrace".into(), "server".to_owned())));
        assert!(machine("server").is_err());
        assert!(machine("a.pftrace=").is_err());
        assert!(clock_offset("=1s").is_err());
    }
}
