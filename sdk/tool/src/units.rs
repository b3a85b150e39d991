//! Formats numbers with units, for people.

/// Formats a duration with three digits.
pub(crate) fn duration(nanoseconds: u64) -> String {
    let scaled = |unit_ns: f64, unit| {
        let value = nanoseconds as f64 / unit_ns;
        let digits = match value {
            ..9.995 => 2,
            ..99.95 => 1,
            _ => 0,
        };
        format!("{value:.digits$} {unit}")
    };
    match nanoseconds {
        ..1_000 => format!("{nanoseconds} ns"),
        1_000..999_500 => scaled(1e3, "µs"),
        999_500..999_500_000 => scaled(1e6, "ms"),
        _ => scaled(1e9, "s"),
    }
}

/// Formats a number of seconds exactly, as options of the command take it.
pub(crate) fn seconds(nanoseconds: u64) -> String {
    let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a number of bytes with two or three digits.
pub(crate) fn bytes(count: u64) -> String {
    let scaled = |unit_bytes: f64, unit| {
        let value = count as f64 / unit_bytes;
        let digits = if value < 99.95 { 1 } else { 0 };
        format!("{value:.digits$} {unit}")
    };
    match count {
        ..1_000 => format!("{count} B"),
        1_000..999_500 => scaled(1e3, "kB"),
        999_500..999_500_000 => scaled(1e6, "MB"),
        _ => scaled(1e9, "GB"),
    }
}

/// Formats a number of things, such as `1 packet` or `2 packets`.
pub(crate) fn plural(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

/// Formats a number of processes.
pub(crate) fn processes(count: u64) -> String {
    match count {
        1 => "1 process".to_owned(),
        _ => format!("{count} processes"),
    }
}

/// Formats the numbers of events and of packets of other data sources.
pub(crate) fn events_and_packets(events: u64, packets: u64) -> String {
    match (events, packets) {
        (_, 0) => plural(events, "event"),
        (0, _) => plural(packets, "packet"),
        _ => format!(
            "{} and {}",
            plural(events, "event"),
            plural(packets, "packet")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_the_unit_that_fits() {
        let durations = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_996, "10.0 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (12_345_678, "12.3 ms"),
            (61_000_000_000, "61.0 s"),
            (86_400_000_000_000, "86400 s"),
        ];
        for (nanoseconds, text) in durations {
            assert_eq!(duration(nanoseconds), text);
        }
    }

    #[test]
    fn seconds_are_exact() {
        let texts = [
            (0, "0"),
            (1, "0.000000001"),
            (2_500_000_000, "2.5"),
            (10_000_000_000, "10"),
        ];
        for (nanoseconds, text) in texts {
            assert_eq!(seconds(nanoseconds), text);
        }
    }

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let sizes = [(0, "0 B"), (1500, "1.5 kB"), (20_679_733, "20.7 MB")];
        for (count, text) in sizes {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(plural(1, "packet"), "1 packet");
        assert_eq!(plural(0, "packet"), "0 packets");
    }
}
