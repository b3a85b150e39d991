//! The log of a daemon.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The number of lines with one subject in each minute. Further ones are counted.
const LINES_PER_MINUTE_MAX: u64 = 60;

/// The maximum size of a line, in bytes. Longer ones are cut.
const LINE_MAX_BYTES: usize = 2048;

const MINUTE: Duration = Duration::from_secs(60);

/// The log of a daemon. It writes at most 60 lines a minute of each kind (refused connections,
/// ended ones, producers, sessions), each of at most 2 KiB, and counts the others. So no peer can
/// flood it.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    write: Box<dyn Fn(&str) + Send + Sync>,
    minutes: [Mutex<Minute>; Subject::COUNT],
}

/// The subject of a line.
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

/// The result of counting a line.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    /// The number of lines that were left out in the minute before.
    untold: u64,
    is_told: bool,
    /// True if further lines of this minute are left out.
    is_last: bool,
}

impl Minute {
    /// Counts a line.
    fn count(&mut self, now: Instant) -> Counted {
        let mut untold = 0;
        if self.began.is_none_or(|began| now - began >= MINUTE) {
            untold = self.lines.saturating_sub(LINES_PER_MINUTE_MAX);
            *self = Self {
                began: Some(now),
                lines: 0,
            };
        }
        self.lines += 1;
        Counted {
            untold,
            is_told: self.lines <= LINES_PER_MINUTE_MAX,
            is_last: self.lines == LINES_PER_MINUTE_MAX,
        }
    }
}

impl Log {
    /// Creates a log that passes its lines to `write`, without a line end. The thread that serves all
    /// connections calls it, so it must not block.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            write: Box::new(write),
            minutes: Default::default(),
        }))
    }

    pub(crate) fn line(&self, subject: Subject, line: fmt::Arguments<'_>) {
        let shared = &*self.0;
        let counted = shared.minutes[subject as usize]
            .lock()
            .count(Instant::now());
        if counted.untold > 0 {
            let untold = counted.untold;
            (shared.write)(&format!(
                "{untold} lines of the next one's kind were left out"
            ));
        }
        if counted.is_told {
            let line = line.to_string();
            (shared.write)(&line[..line.floor_char_boundary(LINE_MAX_BYTES)]);
        }
        if counted.is_last {
            (shared.write)("further lines of the last one's kind are left out for a minute");
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
        let counted = (0..100).map(|_| minute.count(begin));
        let (told, _): (Vec<_>, Vec<_>) = counted.partition(|it| it.is_told);
        assert_eq!(told.len() as u64, LINES_PER_MINUTE_MAX);
        let last = told.iter().position(|it| it.is_last);
        assert_eq!(last, Some(told.len() - 1));
        let later = begin + MINUTE;
        let untold =
            [later, later, later + MINUTE].map(|now| (minute.count(now).untold, minute.lines));
        assert_eq!(untold, [(100 - LINES_PER_MINUTE_MAX, 1), (0, 2), (0, 1)]);
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
        // The additional line says that no more lines of the first kind follow.
        assert_eq!(lines.len() as u64, LINES_PER_MINUTE_MAX + 2);
        assert_eq!(lines.last().unwrap(), "a session");
    }

    #[test]
    fn long_lines_are_cut() {
        let lengths = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lengths);
        let log = Log::new(move |line| to.lock().push(line.len()));
        let long = "é".repeat(LINE_MAX_BYTES);
        log.line(Subject::Producer, format_args!("1{long}"));
        assert_eq!(*lengths.lock(), [LINE_MAX_BYTES - 1]);
    }
}
