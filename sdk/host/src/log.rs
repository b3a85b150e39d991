//! The log of a daemon.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The number of lines with one subject in each minute. Further ones are counted.
const LINES_PER_MINUTE_MAX: u64 = 60;

const MINUTE: Duration = Duration::from_secs(60);

/// What a daemon tells whoever runs it, line by line. Nobody can flood the log: of many lines with one
/// subject, only the number is told.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    write: Box<dyn Fn(&str) + Send + Sync>,
    minutes: [Mutex<Minute>; Subject::COUNT],
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A connection that is not taken.
    Refused,
    /// The end of a connection.
    Ended,
    /// A producer: what it gets and what it may not do.
    Producer,
    /// A session, or its configuration.
    Session,
}

impl Subject {
    const COUNT: usize = 4;
}

/// The lines with one subject in the present minute.
#[derive(Default)]
struct Minute {
    began: Option<Instant>,
    lines: u64,
}

impl Minute {
    /// Counts a line. Returns whether it is told, and how many were not told in the minute before.
    fn count(&mut self, now: Instant) -> (bool, u64) {
        let mut untold = 0;
        if self.began.is_none_or(|began| now - began >= MINUTE) {
            untold = self.lines.saturating_sub(LINES_PER_MINUTE_MAX);
            *self = Self {
                began: Some(now),
                lines: 0,
            };
        }
        self.lines += 1;
        (self.lines <= LINES_PER_MINUTE_MAX, untold)
    }
}

impl Log {
    /// Creates a log that passes its lines to `write`, without a line end.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            write: Box::new(write),
            minutes: Default::default(),
        }))
    }

    pub(crate) fn line(&self, subject: Subject, line: fmt::Arguments<'_>) {
        let shared = &*self.0;
        let (is_told, untold) = shared.minutes[subject as usize]
            .lock()
            .count(Instant::now());
        if untold > 0 {
            (shared.write)(&format!("{untold} more lines of this kind were left out:"));
        }
        if is_told {
            (shared.write)(&line.to_string());
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_and_told_a_minute_later() {
        let mut minute = Minute::default();
        let begin = Instant::now();
        let told = (0..100).filter(|_| minute.count(begin).0).count() as u64;
        assert_eq!(told, LINES_PER_MINUTE_MAX);
        let later = begin + MINUTE;
        assert_eq!(minute.count(later), (true, 100 - LINES_PER_MINUTE_MAX));
        assert_eq!(minute.count(later), (true, 0));
        assert_eq!(minute.count(later + MINUTE), (true, 0));
    }

    #[test]
    fn each_subject_has_lines_of_its_own() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lines);
        let log = Log::new(move |line| to.lock().push(line.to_owned()));
        for number in 0..100 {
            log.line(Subject::Refused, format_args!("refused {number}"));
        }
        log.line(Subject::Session, format_args!("a session"));
        let lines = lines.lock();
        assert_eq!(lines.len() as u64, LINES_PER_MINUTE_MAX + 1);
        assert_eq!(lines.last().unwrap(), "a session");
    }
}
