//! Where snapshots are asked for: by any thread, also one that panics. The keeper serves it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::error::FlightError;
use super::limiter::{Admission, Limiter};
use super::saving::{Pledge, SavingSnapshot};
use crate::error::Error;
use tracezero_core::clock;
use tracezero_core::forked_child;
use tracezero_track_event::Track;

/// Requests that the keeper has not seen, besides those that may be the last: of these, one a name.
pub(super) const WAITING_MAX: usize = 64;

/// How long whoever asks waits for others that are asking. They need next to no time, unless one of
/// them panics in the middle of it.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The name that snapshots of panics have.
pub(super) const PANIC: &str = "panic";
/// The name that snapshots at the end have.
pub(super) const EXIT: &str = "exit";

/// What a flight recorder has done so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FlightStats {
    /// Snapshots that are in files.
    pub saved: u64,
    /// Those that should be, and are not.
    pub failed: u64,
    /// Requests that another one's file holds, because it was asked for and not taken yet.
    pub joined: u64,
    /// Requests that came too soon after a snapshot of the same name.
    pub too_soon: u64,
    /// The last failure, also to remove files beyond the limit.
    pub last_failure: Option<FlightError>,
}

/// Somebody wants a snapshot.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) name: String,
    /// When it was asked for: on the trace clock, and for timers.
    pub(super) at_ns: u64,
    pub(super) at: Instant,
    /// The thread that asked.
    pub(super) track: Option<Track>,
    /// What else there is to say, and where in the source.
    pub(super) message: Option<String>,
    pub(super) location: Option<String>,
    /// How far back it goes; as far as the recorder keeps, if it does not say.
    pub(super) before: Option<Duration>,
    pub(super) after: Duration,
    /// Whether the process may end after it: it waits for a slow disk and a busy keeper, where others
    /// are refused.
    pub(super) is_last_word: bool,
    /// Where to write it, if not among the others.
    pub(super) path: Option<PathBuf>,
    pub(super) saving: Pledge,
}

impl Request {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            at_ns: clock::event_now_ns(),
            at: Instant::now(),
            track: None,
            message: None,
            location: None,
            before: None,
            after: Duration::ZERO,
            is_last_word: false,
            path: None,
            saving: Pledge::new(),
        }
    }

    /// The process or the recording ends.
    pub(super) fn at_exit() -> Self {
        Self {
            is_last_word: true,
            ..Self::new(EXIT)
        }
    }
}

/// What became of a request.
pub(super) enum Answer {
    /// It will be saved, perhaps together with another one.
    Saving(SavingSnapshot),
    /// It will not. If one of the same name came a moment before, that one may still be under way.
    Refused(FlightError, Option<SavingSnapshot>),
}

impl From<Answer> for SavingSnapshot {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Saving(saving) => saving,
            Answer::Refused(error, _) => Self::failed(error),
        }
    }
}

/// Requests, and what is known of them.
pub(super) struct Desk {
    books: Mutex<Books>,
    /// Notified when there is something to do for the keeper, and when something is done.
    changed: Condvar,
    min_interval: Duration,
}

#[derive(Default)]
struct Books {
    waiting: Vec<Request>,
    limiter: Limiter,
    /// Requests that were granted and are not over.
    unfinished: usize,
    /// Whether those that wait for their time are to be taken at once.
    is_ending: bool,
    has_stopped: bool,
    stats: FlightStats,
}

/// What the keeper is to do.
pub(super) struct Work {
    pub(super) requests: Vec<Request>,
    pub(super) is_ending: bool,
    pub(super) has_stopped: bool,
}

impl Desk {
    pub(super) fn new(min_interval: Duration) -> Arc<Self> {
        Arc::new(Self {
            books: Mutex::default(),
            changed: Condvar::new(),
            min_interval,
        })
    }

    /// Asks for a snapshot. Does no I/O and waits for no one who does.
    pub(super) fn ask(&self, request: Request) -> Answer {
        if forked_child::is_quiet() {
            return Answer::Refused(Error::ForkedChild.into(), None);
        }
        let busy = FlightError::Busy { limit: WAITING_MAX };
        let Some(mut books) = self.books.try_lock_for(LOCK_PATIENCE) else {
            return Answer::Refused(busy, None);
        };
        if books.has_stopped {
            return Answer::Refused(FlightError::Stopped, None);
        }
        if books.waiting.len() >= WAITING_MAX && !request.is_last_word {
            books.stats.note_failure(busy.clone());
            return Answer::Refused(busy, None);
        }
        if request.path.is_none() {
            let Request {
                name, at, saving, ..
            } = &request;
            match books.limiter.admit(name, *at, self.min_interval, saving) {
                Admission::Granted => {}
                Admission::Joined(saving) => {
                    books.stats.joined += 1;
                    return Answer::Saving(saving);
                }
                Admission::TooSoon(since, before) => {
                    books.stats.too_soon += 1;
                    let name = name.clone();
                    return Answer::Refused(FlightError::TooSoon { name, since }, Some(before));
                }
            }
        }
        let saving = request.saving.clone();
        books.waiting.push(request);
        books.unfinished += 1;
        drop(books);
        self.changed.notify_all();
        Answer::Saving(saving)
    }

    /// Waits until there are requests, or until then, or until the end, unless that is known. For
    /// the keeper.
    pub(super) fn work(&self, deadline: Option<Instant>, knows_end: bool) -> Work {
        let mut books = self.books.lock();
        while books.waiting.is_empty() && !books.has_stopped && books.is_ending == knows_end {
            match deadline {
                None => self.changed.wait(&mut books),
                Some(deadline) => {
                    if self.changed.wait_until(&mut books, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        Work {
            requests: std::mem::take(&mut books.waiting),
            is_ending: books.is_ending,
            has_stopped: books.has_stopped,
        }
    }

    /// The snapshot is about to be taken: another one of its name is another one.
    pub(super) fn close(&self, request: &Request) {
        self.books.lock().limiter.close(&request.saving);
    }

    /// A request is over.
    pub(super) fn finish(&self, request: &Request, outcome: Result<PathBuf, FlightError>) {
        {
            let mut books = self.books.lock();
            books.limiter.close(&request.saving);
            books.unfinished -= 1;
            match &outcome {
                Ok(_) => books.stats.saved += 1,
                Err(error) => books.stats.note_failure(error.clone()),
            }
        }
        request.saving.finish(outcome);
        self.changed.notify_all();
    }

    /// Something failed that is nobody's request.
    pub(super) fn note_failure(&self, error: FlightError) {
        self.books.lock().stats.last_failure = Some(error);
    }

    pub(super) fn stats(&self) -> FlightStats {
        self.books.lock().stats.clone()
    }

    /// From now on no request waits for its time: all are served at once.
    pub(super) fn begin_ending(&self) {
        if let Some(mut books) = self.books.try_lock_for(LOCK_PATIENCE) {
            books.is_ending = true;
            self.changed.notify_all();
        }
    }

    /// Waits until all requests are over, at most until `deadline`. Returns whether they are.
    pub(super) fn wait_for_all(&self, deadline: Instant) -> bool {
        let Some(mut books) = self.books.try_lock_until(deadline) else {
            return false;
        };
        while books.unfinished > 0 {
            if self.changed.wait_until(&mut books, deadline).timed_out() {
                return books.unfinished == 0;
            }
        }
        true
    }

    /// The keeper is gone. What it has not seen, if it panicked, nobody will serve.
    pub(super) fn keeper_is_gone(&self) {
        let unseen = {
            let mut books = self.books.lock();
            books.has_stopped = true;
            std::mem::take(&mut books.waiting)
        };
        drop(unseen);
        self.changed.notify_all();
    }

    /// Takes no more requests. Those that there are will be served at once.
    pub(super) fn stop(&self) {
        self.books.lock().has_stopped = true;
        self.changed.notify_all();
    }
}

impl FlightStats {
    fn note_failure(&mut self, error: FlightError) {
        self.failed += 1;
        self.last_failure = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_requests_than_may_wait_are_refused_and_counted() {
        let desk = Desk::new(Duration::ZERO);
        let ask = |number: usize| desk.ask(Request::new(&number.to_string()));
        for number in 0..WAITING_MAX {
            assert!(matches!(ask(number), Answer::Saving(_)));
        }
        let refused = ask(WAITING_MAX);
        let Answer::Refused(FlightError::Busy { limit }, None) = refused else {
            panic!("not refused");
        };
        assert_eq!(limit, WAITING_MAX);
        assert_eq!(desk.stats().failed, 1);
        assert_eq!(desk.work(None, false).requests.len(), WAITING_MAX);
        assert!(matches!(ask(WAITING_MAX), Answer::Saving(_)));
    }

    #[test]
    fn what_may_be_the_last_is_let_in_however_many_wait() {
        let desk = Desk::new(Duration::ZERO);
        for number in 0..=WAITING_MAX {
            desk.ask(Request::new(&number.to_string()));
        }
        let panic = || Request {
            is_last_word: true,
            ..Request::new(PANIC)
        };
        let Answer::Saving(saving) = desk.ask(panic()) else {
            panic!("refused");
        };
        // Others of its name are in its file, so that these have a limit, too.
        assert!(matches!(desk.ask(panic()), Answer::Saving(other) if other.is_same(&saving)));
        assert!(matches!(desk.ask(Request::at_exit()), Answer::Saving(_)));
        assert_eq!(desk.work(None, false).requests.len(), WAITING_MAX + 2);
    }

    #[test]
    fn nobody_waits_for_a_keeper_that_is_gone() {
        let desk = Desk::new(Duration::ZERO);
        let seen = SavingSnapshot::from(desk.ask(Request::new("seen")));
        let work = desk.work(None, false);
        let unseen = SavingSnapshot::from(desk.ask(Request::new("unseen")));
        assert!(!seen.is_over() && !unseen.is_over());
        drop(work);
        desk.keeper_is_gone();
        let later = SavingSnapshot::from(desk.ask(Request::new("later")));
        for saving in [seen, unseen, later] {
            assert!(matches!(saving.wait(), Err(FlightError::Stopped)));
        }
    }

    #[test]
    fn an_end_does_not_wait_for_ever_for_what_nobody_serves() {
        let desk = Desk::new(Duration::ZERO);
        let saving = SavingSnapshot::from(desk.ask(Request::new("name")));
        desk.begin_ending();
        assert!(!desk.wait_for_all(Instant::now() + Duration::from_millis(10)));
        assert!(!saving.is_over());
        let work = desk.work(None, false);
        assert!(work.is_ending);
        desk.finish(&work.requests[0], Ok(PathBuf::from("file")));
        assert!(desk.wait_for_all(Instant::now() + Duration::from_secs(3600)));
        assert_eq!(saving.wait().unwrap(), PathBuf::from("file"));
    }
}
