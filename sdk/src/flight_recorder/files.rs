//! The files of snapshots: their names, and the limit on their number.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use regex_lite::Regex;

use super::error::FlightError;
use tracezero_service::TraceFile;

/// The default pattern for names of files.
pub(super) const DEFAULT_PATTERN: &str = "flight-{name}-{time}-{pid}-{number}.pftrace";

/// The suffix of a file's name until the file is complete.
const PARTIAL_SUFFIX: &str = ".partial";

/// The number of characters of a snapshot's name that the file's name contains at most.
const NAME_MAX_LETTERS: usize = 64;

/// The last number that a file of this process got. All recorders share it, so that two of them in
/// one directory never use the same name.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A pattern for the names of files. A file whose name matches was written by a recorder.
#[derive(Clone, Debug)]
pub(super) struct FileNames {
    pattern: String,
    matching: Regex,
}

/// The placeholders of a pattern, and the regular expressions for their values.
const PLACES: [(&str, &str); 4] = [
    ("{name}", "(?<name>[A-Za-z0-9_.]+)"),
    ("{time}", "(?<time>[0-9]{8}T[0-9]{6}Z)"),
    ("{pid}", "(?<pid>[0-9]+)"),
    ("{number}", "(?<number>[0-9]+)"),
];

impl FileNames {
    pub(super) fn new(pattern: &str) -> Result<Self, FlightError> {
        let invalid = |reason: String| Err(FlightError::invalid("file_name", reason));
        if pattern.contains('/') {
            return invalid(format!(
                "{pattern:?} contains '/'; set the directory with directory()"
            ));
        }
        for (place, _) in &PLACES[1..] {
            if pattern.matches(place).count() != 1 {
                return invalid(format!(
                    "{pattern:?} does not contain {place} exactly once; write it once"
                ));
            }
        }
        let mut matching = regex_lite::escape(pattern);
        for (place, text) in PLACES {
            matching = matching.replacen(&regex_lite::escape(place), text, 1);
        }
        if matching.contains("\\{") || matching.contains("\\}") {
            return invalid(format!(
                "{pattern:?} has an unknown placeholder; the known ones are {{name}}, {{time}}, {{pid}}, \
                 {{number}}"
            ));
        }
        let suffix = regex_lite::escape(PARTIAL_SUFFIX);
        let matching = Regex::new(&format!("^{matching}({suffix})?$"));
        Ok(Self {
            pattern: pattern.to_owned(),
            matching: matching.expect("all but the places is escaped"),
        })
    }

    /// Returns a name that no other file of this process has.
    fn next(&self, snapshot: &str) -> String {
        // Relaxed: the numbers only have to differ.
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        self.pattern
            .replace("{time}", &utc_now())
            .replace("{pid}", &process::id().to_string())
            .replace("{number}", &number.to_string())
            // Replaced last, so that text in the snapshot's name is not taken for a placeholder.
            .replace("{name}", &letters_of(snapshot))
    }

    /// Returns the key by which files of this pattern are sorted by age, or `None` for other files.
    fn age_of(&self, file_name: &str) -> Option<(String, u64)> {
        let found = self.matching.captures(file_name)?;
        Some((found["time"].to_owned(), found["number"].parse().ok()?))
    }
}

/// The directory that snapshots are written to.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) names: FileNames,
    /// The number of files that the directory may contain.
    pub(super) limit: usize,
}

impl Folder {
    /// Writes a file, which gets its name only when it is complete.
    pub(super) fn write(
        &self,
        snapshot: &str,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<PathBuf, FlightError> {
        write_whole(&self.path.join(self.names.next(snapshot)), write)
    }

    /// Creates a file by a recovery, and removes old ones.
    #[cfg(feature = "recovery")]
    pub(super) fn recover<T>(
        &self,
        snapshot: &str,
        recover: impl FnOnce(&Path) -> Result<T, FlightError>,
    ) -> Result<PathBuf, FlightError> {
        let path = self.path.join(self.names.next(snapshot));
        recover(&path)?;
        self.remove_surplus(&path)?;
        Ok(path)
    }

    /// Removes the oldest files until the limit is met. The file `newest` stays, even if the clocks
    /// of other writers to this directory were ahead.
    pub(super) fn remove_surplus(&self, newest: &Path) -> Result<(), FlightError> {
        let directory_error = |source| FlightError::Directory {
            path: self.path.clone(),
            source: Arc::new(source),
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(directory_error)? {
            let path = entry.map_err(directory_error)?.path();
            let name = path.file_name().and_then(OsStr::to_str);
            if path != newest
                && let Some(age) = name.and_then(|name| self.names.age_of(name))
            {
                files.push((age, path));
            }
        }
        files.sort();
        let surplus = (files.len() + 1).saturating_sub(self.limit);
        for (_, path) in files.drain(..surplus) {
            match fs::remove_file(&path) {
                // Another process that uses this directory has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome.map_err(|source| file_error(&path, source))?,
            }
        }
        Ok(())
    }
}

/// Writes the file at `path`, which is created, or replaced if it exists. A pipe, a device or the
/// target of a link is written to instead of replaced.
pub(super) fn write_to(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<PathBuf, FlightError> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let file = TraceFile::create(path).map_err(|error| begin_error(path, error))?;
            write_into(&file, write).map_err(|source| file_error(path, source))?;
            Ok(path.to_owned())
        }
        _ => {
            // Fails if a session writes to the file: replacing it would leave that session with a
            // file without a name.
            let _replaced =
                TraceFile::to_replace(path).map_err(|error| begin_error(path, error))?;
            write_whole(path, write)
        }
    }
}

/// Writes a file, which gets its name only when it is complete.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<PathBuf, FlightError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(PARTIAL_SUFFIX);
    let partial = PathBuf::from(partial);
    // The lock on the partial file keeps other writers away until it is renamed or removed.
    let file = TraceFile::create(&partial).map_err(|error| begin_error(path, error))?;
    match write_into(&file, write).and_then(|()| fs::rename(&partial, path)) {
        Ok(()) => Ok(path.to_owned()),
        Err(source) => {
            // An incomplete file is of no use. If it cannot be removed, there is nothing more to
            // do.
            let _ = fs::remove_file(&partial);
            Err(file_error(path, source))
        }
    }
}

fn write_into(
    file: &File,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

/// Creates the error for a file that could not be created or locked.
fn begin_error(path: &Path, error: TryLockError) -> FlightError {
    match error {
        TryLockError::WouldBlock => FlightError::FileInUse {
            path: path.to_owned(),
        },
        TryLockError::Error(source) => file_error(path, source),
    }
}

fn file_error(path: &Path, source: io::Error) -> FlightError {
    FlightError::File {
        path: path.to_owned(),
        source: Arc::new(source),
    }
}

/// Converts a snapshot's name into a part of a file's name.
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

/// Returns the current time in UTC, such as `20260131T235959Z`.
fn utc_now() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since_1970.map_or(0, |time| time.as_secs()))
}

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

#[cfg(test)]
mod tests {
    use super::*;

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
        }
    }

    #[test]
    fn only_names_of_recorders_match_the_pattern() {
        let names = FileNames::new(DEFAULT_PATTERN).unwrap();
        for snapshot in ["slow request", "", "../..", "a-b-c", "{time}", "änderung"] {
            let file = names.next(snapshot);
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
        let names = FileNames::new(DEFAULT_PATTERN).unwrap();
        let age = |time: &str, number: u64| {
            let file = format!("flight-name-{time}-77-{number}.pftrace");
            names.age_of(&file).unwrap()
        };
        assert!(age("20260101T000000Z", 10) > age("20260101T000000Z", 9));
        assert!(age("20260102T000000Z", 1) > age("20260101T000000Z", 9));
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
            let error = FileNames::new(pattern).unwrap_err().to_string();
            assert!(error.contains(culprit), "{error}");
            assert!(error.contains(&format!("{pattern:?}")), "{error}");
        }
    }
}
