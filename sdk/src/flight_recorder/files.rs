//! The files of snapshots: their names, and how many of them there may be.

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

/// How files are called, unless the builder is told.
pub(super) const DEFAULT_PATTERN: &str = "flight-{name}-{time}-{pid}-{number}.pftrace";

/// What is written goes by this name until it is complete.
const PARTIAL_SUFFIX: &str = ".partial";

/// Letters of a snapshot's name in the name of its file.
const NAME_MAX_LETTERS: usize = 64;

/// The last number that a file of this process got. One count for all recorders, so that two of
/// them in one folder do not meet.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A pattern for the names of files. What matches it was written by a recorder.
#[derive(Clone, Debug)]
pub(super) struct FileNames {
    pattern: String,
    matching: Regex,
}

/// Places in a pattern, and what stands there.
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
                "{pattern:?} is a path: name its folder as directory"
            ));
        }
        for (place, _) in &PLACES[1..] {
            if pattern.matches(place).count() != 1 {
                return invalid(format!(
                    "{pattern:?} needs {place} once, to tell its files from others"
                ));
            }
        }
        let mut matching = regex_lite::escape(pattern);
        for (place, text) in PLACES {
            matching = matching.replacen(&regex_lite::escape(place), text, 1);
        }
        if matching.contains("\\{") || matching.contains("\\}") {
            return invalid(format!(
                "{pattern:?} has a place that is none of {{name}}, {{time}}, {{pid}}, {{number}}"
            ));
        }
        let suffix = regex_lite::escape(PARTIAL_SUFFIX);
        let matching = Regex::new(&format!("^{matching}({suffix})?$"));
        Ok(Self {
            pattern: pattern.to_owned(),
            matching: matching.expect("all but the places is escaped"),
        })
    }

    /// A name that no other file of this process has.
    fn next(&self, snapshot: &str) -> String {
        // Relaxed: each gets another one, whatever the order.
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        // Last, so that a snapshot's name is not taken for a place.
        self.pattern
            .replace("{time}", &utc_now())
            .replace("{pid}", &process::id().to_string())
            .replace("{number}", &number.to_string())
            .replace("{name}", &letters_of(snapshot))
    }

    /// By what the files of this pattern are older and newer than others; `None` for other files.
    fn age_of(&self, file_name: &str) -> Option<(String, u64)> {
        let found = self.matching.captures(file_name)?;
        Some((found["time"].to_owned(), found["number"].parse().ok()?))
    }
}

/// Where snapshots go.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) names: FileNames,
    /// Files that there may be.
    pub(super) limit: usize,
}

impl Folder {
    /// Writes a file. It has its name only when it is complete.
    pub(super) fn write(
        &self,
        snapshot: &str,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<PathBuf, FlightError> {
        write_whole(&self.path.join(self.names.next(snapshot)), write)
    }

    /// Removes the oldest files, until there are no more than there may be. The `newest` one stays,
    /// whatever the clocks of others said that wrote into this folder.
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
                // Another process with the same folder was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome.map_err(|source| file_error(&path, source))?,
            }
        }
        Ok(())
    }
}

/// Writes the file at `path`, which is created, or replaced if it exists. A pipe, a device or what
/// a link leads to is written into.
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
            // A session that writes into it would go on in a file without a name.
            let _replaced =
                TraceFile::to_replace(path).map_err(|error| begin_error(path, error))?;
            write_whole(path, write)
        }
    }
}

/// Writes a file. It has its name only when it is complete.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<PathBuf, FlightError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(PARTIAL_SUFFIX);
    let partial = PathBuf::from(partial);
    // Nobody else's until it has its name, or is gone.
    let file = TraceFile::create(&partial).map_err(|error| begin_error(path, error))?;
    match write_into(&file, write).and_then(|()| fs::rename(&partial, path)) {
        Ok(()) => Ok(path.to_owned()),
        Err(source) => {
            // What is incomplete is of no use. That it cannot be removed changes nothing.
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

/// Why a file could not be begun.
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

/// A snapshot's name as a part of a file's.
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

/// The time of day in the whole world, such as `20260131T235959Z`.
fn utc_now() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since_1970.map_or(0, |time| time.as_secs()))
}

fn utc(seconds: u64) -> String {
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March end with the leap day, so that months have the same lengths in each;
    // 400 of them have the same number of days. Counted from March of the year 0.
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
    fn times_are_dates_of_the_calendar() {
        // As `date -u -d @SECONDS` prints them.
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
    fn names_of_files_match_their_pattern_and_others_do_not() {
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
    fn the_newer_file_is_that_of_the_later_time_and_the_higher_number() {
        let names = FileNames::new(DEFAULT_PATTERN).unwrap();
        let age = |time: &str, number: u64| {
            let file = format!("flight-name-{time}-77-{number}.pftrace");
            names.age_of(&file).unwrap()
        };
        assert!(age("20260101T000000Z", 10) > age("20260101T000000Z", 9));
        assert!(age("20260102T000000Z", 1) > age("20260101T000000Z", 9));
    }

    #[test]
    fn a_pattern_that_could_match_files_of_others_is_refused() {
        for (pattern, culprit) in [
            ("crash.pftrace", "{time}"),
            ("{time}-{number}", "{pid}"),
            ("{time}-{pid}-{number}-{number}", "{number}"),
            ("sub/{time}-{pid}-{number}", "directory"),
            ("{host}-{time}-{pid}-{number}", "none of"),
        ] {
            let error = FileNames::new(pattern).unwrap_err().to_string();
            assert!(error.contains(culprit), "{error}");
            assert!(error.contains(&format!("{pattern:?}")), "{error}");
        }
    }
}
