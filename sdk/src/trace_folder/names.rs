//! The names of trace files in a folder. A file whose name matches a pattern was written by the SDK,
//! whichever process it was, and may be removed by it.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regex_lite::Regex;

/// The suffix of a file's name until the file is complete.
pub(super) const PARTIAL_SUFFIX: &str = ".partial";

/// The number of characters of a snapshot's name that the file's name contains at most.
const NAME_MAX_LETTERS: usize = 64;

/// The last number that a file of this process got. All writers share it, so that two of them in
/// one directory never use the same name.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A pattern for the names of files.
#[derive(Clone, Debug)]
pub(crate) struct FileNames {
    pattern: String,
    matching: Regex,
    /// The number of digits that a file's number has at least.
    digits: usize,
}

/// The age of a file by its name: the time in UTC, and the number of the file in its process.
pub(super) type NameAge = (String, u64);

/// The placeholders of a pattern, and the regular expressions for their values.
const PLACES: [(&str, &str); 4] = [
    ("{name}", "(?<name>[A-Za-z0-9_.]+)"),
    ("{time}", "(?<time>[0-9]{8}T[0-9]{6}Z)"),
    ("{pid}", "(?<pid>[0-9]+)"),
    ("{number}", "(?<number>[0-9]+)"),
];

impl FileNames {
    /// Creates a pattern.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the pattern if it could match files of others.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.contains('/') {
            return Err(format!(
                "{pattern:?} contains '/'; set the directory with directory()"
            ));
        }
        for (place, _) in &PLACES[1..] {
            if pattern.matches(place).count() != 1 {
                return Err(format!(
                    "{pattern:?} does not contain {place} exactly once; write it once"
                ));
            }
        }
        let mut matching = regex_lite::escape(pattern);
        for (place, text) in PLACES {
            matching = matching.replacen(&regex_lite::escape(place), text, 1);
        }
        if matching.contains("\\{") || matching.contains("\\}") {
            return Err(format!(
                "{pattern:?} has an unknown placeholder; the known ones are {{name}}, {{time}}, {{pid}}, \
                 {{number}}"
            ));
        }
        let suffix = regex_lite::escape(PARTIAL_SUFFIX);
        let matching = Regex::new(&format!("^{matching}({suffix})?$"));
        Ok(Self {
            pattern: pattern.to_owned(),
            matching: matching.expect("all but the places is escaped"),
            digits: 1,
        })
    }

    /// Gives numbers at least this many digits, so that names sort like numbers.
    pub(crate) fn with_digits(self, digits: usize) -> Self {
        Self { digits, ..self }
    }

    /// Returns a name that no other file of this process has, for a file of this time.
    pub(crate) fn next(&self, name: &str, time: SystemTime) -> String {
        // Relaxed: the numbers only have to differ.
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        let digits = self.digits;
        self.pattern
            .replace("{time}", &utc(seconds_since_1970(time)))
            .replace("{pid}", &process::id().to_string())
            .replace("{number}", &format!("{number:0digits$}"))
            // Replaced last, so that text in the name is not taken for a placeholder.
            .replace("{name}", &letters_of(name))
    }

    /// Returns the key by which files of this pattern are sorted by age, or `None` for other files.
    pub(super) fn age_of(&self, file_name: &str) -> Option<NameAge> {
        let found = self.matching.captures(file_name)?;
        Some((found["time"].to_owned(), found["number"].parse().ok()?))
    }
}

/// Converts a name into a part of a file's name.
fn letters_of(name: &str) -> String {
    let fitting = |letter: char| match letter {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' => letter,
        _ => '_',
    };
    let letters: String = name.chars().take(NAME_MAX_LETTERS).map(fitting).collect();
    if letters.is_empty() {
        return "snapshot".to_owned();
    }
    letters
}

fn seconds_since_1970(time: SystemTime) -> u64 {
    let since_1970 = time.duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |time| time.as_secs())
}

/// Returns a time in UTC, such as `20260131T235959Z`.
fn utc(seconds: u64) -> String {
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    // Count from March of the year 0. A year that begins in March ends with the leap day, so months
    // have the same lengths in every year. 400 years always have the same number of days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Returns the time that [`utc`] has written. A text that is no time is a time close to it.
pub(super) fn time_of(utc: &str) -> SystemTime {
    let digits: Vec<u64> = utc
        .bytes()
        .filter(u8::is_ascii_digit)
        .map(|digit| u64::from(digit - b'0'))
        .collect();
    let number = |from: usize, len: usize| {
        let digits = digits.iter().skip(from).take(len);
        digits.fold(0, |number, digit| 10 * number + digit)
    };
    let (year, month, day) = (number(0, 4), number(4, 2).clamp(1, 12), number(6, 2).max(1));
    // Years begin in March here, as in `utc`.
    let month_from_march = (month + 9) % 12;
    let year = if month <= 2 {
        year.saturating_sub(1)
    } else {
        year
    };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (146_097 * era + day_of_era).saturating_sub(719_468);
    let second_of_day = 3600 * number(8, 2) + 60 * number(10, 2) + number(12, 2);
    UNIX_EPOCH + Duration::from_secs(86_400 * days + second_of_day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: &str = "flight-{name}-{time}-{pid}-{number}.pftrace";

    #[test]
    fn seconds_are_converted_to_calendar_dates() {
        // The dates are those that `date -u -d @SECONDS` prints.
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_767_225_599, "20251231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc(seconds), text);
            assert_eq!(seconds_since_1970(time_of(text)), seconds);
        }
    }

    #[test]
    fn only_names_of_recorders_match_the_pattern() {
        let names = FileNames::new(PATTERN).unwrap();
        for snapshot in ["slow request", "", "../..", "a-b-c", "{time}", "änderung"] {
            let file = names.next(snapshot, SystemTime::now());
            assert!(names.age_of(&file).is_some(), "{file}");
            assert!(names.age_of(&(file.clone() + PARTIAL_SUFFIX)).is_some());
            assert!(!file.contains('/'), "{file}");
            assert_eq!(names.age_of(&file.replace("flight", "other")), None);
            assert_eq!(names.age_of(&(file + ".bak")), None);
        }
        assert_eq!(names.age_of("flight-notes.pftrace"), None);
    }

    #[test]
    fn later_time_then_higher_number_is_newer() {
        let names = FileNames::new(PATTERN).unwrap();
        let age = |time: &str, number: u64| {
            let file = format!("flight-name-{time}-77-{number}.pftrace");
            names.age_of(&file).unwrap()
        };
        assert!(age("20260101T000000Z", 10) > age("20260101T000000Z", 9));
        assert!(age("20260102T000000Z", 1) > age("20260101T000000Z", 9));
    }

    #[test]
    fn numbers_have_the_digits_that_make_names_sort() {
        let names = FileNames::new(PATTERN).unwrap().with_digits(6);
        let file = names.next("x", UNIX_EPOCH);
        let (_, number) = names.age_of(&file).unwrap();
        assert!(file.ends_with(&format!("-{number:06}.pftrace")), "{file}");
    }

    #[test]
    fn text_that_is_no_time_is_taken_without_panic() {
        for text in ["99999999T999999Z", "00000000T000000Z", "", "x"] {
            let _ = time_of(text);
        }
    }

    #[test]
    fn pattern_that_could_match_other_files_is_rejected() {
        for (pattern, culprit) in [
            ("crash.pftrace", "{time}"),
            ("{time}-{number}", "{pid}"),
            ("{time}-{pid}-{number}-{number}", "{number}"),
            ("sub/{time}-{pid}-{number}", "directory"),
            ("{host}-{time}-{pid}-{number}", "unknown placeholder"),
        ] {
            let error = FileNames::new(pattern).unwrap_err();
            assert!(error.contains(culprit), "{error}");
            assert!(error.contains(&format!("{pattern:?}")), "{error}");
        }
    }
}
