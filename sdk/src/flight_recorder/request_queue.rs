//! The queue of requests for snapshots. Any thread can submit a request, even while it panics. The
//! collector takes the requests out.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::error::FlightError;
use super::limiter::{Admission, Limiter};
use super::saving::{SavingGuard, SavingSnapshot};
use crate::error::Error;
use tracezero_core::clock;
use tracezero_core::forked_child;
use tracezero_track_event::Track;

/// The number of requests that may wait for the collector. Requests with `may_be_last` are not
/// limited by it; of these, at most one per name waits.
pub(super) const WAITING_MAX: usize = 64;

/// How long a thread waits for the lock of the queue. Other threads hold it only for a moment,
/// unless one of them panics meanwhile.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The name of snapshots of panics.
pub(super) const PANIC: &str = "panic";
/// The name of snapshots at the end of a recorder or of the process.
pub(super) const EXIT: &str = "exit";

/// Statistics of a flight recorder.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FlightStats {
    /// The number of snapshots that were saved.
    pub saved: u64,
    /// The number of snapshots that could not be saved.
    pub failed: u64,
    /// The number of requests that share the file of an earlier request, because its snapshot was
    /// not taken yet.
    pub joined: u64,
    /// The number of requests that came too soon after a snapshot of the same name.
    pub too_soon: u64,
    /// The last failure. Failures to remove old files are included.
    pub last_failure: Option<FlightError>,
}

/// A request for a snapshot.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) name: String,
    /// The time of the request on the trace clock.
    pub(super) at_ns: u64,
    pub(super) at: Instant,
    /// The track of the thread that made the request.
    pub(super) track: Option<Track>,
    /// The message of a panic and its location in the source.
    pub(super) message: Option<String>,
    pub(super) location: Option<String>,
    /// How far back the snapshot goes; `None` for the recorder's default.
    pub(super) before: Option<Duration>,
    pub(super) after: Duration,
    /// True if the process may end after this request. It then waits for a slow disk or a busy
    /// collector where other requests fail.
    pub(super) may_be_last: bool,
    /// The path of the file; `None` for a file in the recorder's directory.
    pub(super) path: Option<PathBuf>,
    pub(super) saving: SavingGuard,
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
            may_be_last: false,
            path: None,
            saving: SavingGuard::new(),
        }
    }

    /// Creates the request for the end of the process or of the recording.
    pub(super) fn at_exit() -> Self {
        Self {
            may_be_last: true,
            ..Self::new(EXIT)
        }
    }
}

/// The reply to a request.
pub(super) enum Answer {
    /// The snapshot will be saved, perhaps together with an earlier one.
    Saving(SavingSnapshot),
    /// The snapshot will not be saved. The second field is a recent snapshot of the same name, if
    /// there was one. It may not be saved yet.
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

/// The queue of requests.
pub(super) struct RequestQueue {
    state: Mutex<QueueState>,
    /// Notified when the collector has something to do, and when a request is finished.
    changed: Condvar,
    min_interval: Duration,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<Request>,
    limiter: Limiter,
    /// The number of requests that were accepted and are not finished.
    unfinished: usize,
    /// True if all requests are to be served at once, even if their snapshots should be taken
    /// later.
    is_ending: bool,
    has_stopped: bool,
    stats: FlightStats,
}

/// The work that the collector takes out of the queue.
pub(super) struct Work {
    pub(super) requests: Vec<Request>,
    pub(super) is_ending: bool,
    pub(super) has_stopped: bool,
}

impl RequestQueue {
    pub(super) fn new(min_interval: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            min_interval,
        })
    }

    /// Submits a request. This does no I/O, and waits for no thread that does.
    pub(super) fn submit(&self, request: Request) -> Answer {
        if forked_child::is_disabled() {
            return Answer::Refused(Error::ForkedChild.into(), None);
        }
        let busy = FlightError::Busy { limit: WAITING_MAX };
        let Some(mut state) = self.state.try_lock_for(LOCK_TIMEOUT) else {
            return Answer::Refused(busy, None);
        };
        if state.has_stopped {
            return Answer::Refused(FlightError::Stopped, None);
        }
        if state.waiting.len() >= WAITING_MAX && !request.may_be_last {
            state.stats.note_failure(busy.clone());
            return Answer::Refused(busy, None);
        }
        if request.path.is_none() {
            let Request {
                name, at, saving, ..
            } = &request;
            match state.limiter.admit(name, *at, self.min_interval, saving) {
                Admission::Granted => {}
                Admission::Joined(saving) => {
                    state.stats.joined += 1;
                    return Answer::Saving(saving);
                }
                Admission::TooSoon(since, before) => {
                    state.stats.too_soon += 1;
                    let name = name.clone();
                    return Answer::Refused(FlightError::TooSoon { name, since }, Some(before));
                }
            }
        }
        let saving = request.saving.clone();
        state.waiting.push(request);
        state.unfinished += 1;
        drop(state);
        self.changed.notify_all();
        Answer::Saving(saving)
    }

    /// Waits until there are requests, until `deadline`, or until the recorder ends. `knows_end` is
    /// true if the collector has already seen `is_ending`. Called by the collector.
    pub(super) fn work(&self, deadline: Option<Instant>, knows_end: bool) -> Work {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && !state.has_stopped && state.is_ending == knows_end {
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) => {
                    if self.changed.wait_until(&mut state, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        Work {
            requests: std::mem::take(&mut state.waiting),
            is_ending: state.is_ending,
            has_stopped: state.has_stopped,
        }
    }

    /// Notes that the snapshot of this request is about to be taken. Later requests with its name
    /// get a snapshot of their own.
    pub(super) fn close(&self, request: &Request) {
        self.state.lock().limiter.close(&request.saving);
    }

    /// Finishes a request.
    pub(super) fn finish(&self, request: &Request, outcome: Result<PathBuf, FlightError>) {
        {
            let mut state = self.state.lock();
            state.limiter.close(&request.saving);
            state.unfinished -= 1;
            match &outcome {
                Ok(_) => state.stats.saved += 1,
                Err(error) => state.stats.note_failure(error.clone()),
            }
        }
        request.saving.finish(outcome);
        self.changed.notify_all();
    }

    /// Notes a failure that belongs to no request.
    pub(super) fn note_failure(&self, error: FlightError) {
        self.state.lock().stats.last_failure = Some(error);
    }

    pub(super) fn stats(&self) -> FlightStats {
        self.state.lock().stats.clone()
    }

    /// Notes that the process ends: all requests are served at once, even if their snapshots should
    /// be taken later.
    pub(super) fn begin_ending(&self) {
        if let Some(mut state) = self.state.try_lock_for(LOCK_TIMEOUT) {
            state.is_ending = true;
            self.changed.notify_all();
        }
    }

    /// Waits until all requests are finished, at most until `deadline`. Returns whether all are
    /// finished.
    pub(super) fn wait_for_all(&self, deadline: Instant) -> bool {
        let Some(mut state) = self.state.try_lock_until(deadline) else {
            return false;
        };
        while state.unfinished > 0 {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return state.unfinished == 0;
            }
        }
        true
    }

    /// Notes that the collector has ended. If the collector panicked, this fails the requests that
    /// it has not taken out of the queue.
    pub(super) fn collector_has_ended(&self) {
        let unseen = {
            let mut state = self.state.lock();
            state.has_stopped = true;
            std::mem::take(&mut state.waiting)
        };
        drop(unseen);
        self.changed.notify_all();
    }

    /// Stops accepting requests. Those in the queue are served at once.
    pub(super) fn stop(&self) {
        self.state.lock().has_stopped = true;
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
    fn requests_beyond_the_limit_are_refused_and_counted() {
        let queue = RequestQueue::new(Duration::ZERO);
        let ask = |number: usize| queue.submit(Request::new(&number.to_string()));
        for number in 0..WAITING_MAX {
            assert!(matches!(ask(number), Answer::Saving(_)));
        }
        let refused = ask(WAITING_MAX);
        let Answer::Refused(FlightError::Busy { limit }, None) = refused else {
            panic!("not refused");
        };
        assert_eq!(limit, WAITING_MAX);
        assert_eq!(queue.stats().failed, 1);
        assert_eq!(queue.work(None, false).requests.len(), WAITING_MAX);
        assert!(matches!(ask(WAITING_MAX), Answer::Saving(_)));
    }

    #[test]
    fn requests_that_may_be_last_are_always_accepted() {
        let queue = RequestQueue::new(Duration::ZERO);
        for number in 0..=WAITING_MAX {
            queue.submit(Request::new(&number.to_string()));
        }
        let panic = || Request {
            may_be_last: true,
            ..Request::new(PANIC)
        };
        let Answer::Saving(saving) = queue.submit(panic()) else {
            panic!("refused");
        };
        // Further requests with this name join the first one, so there is a limit for these, too.
        assert!(matches!(queue.submit(panic()), Answer::Saving(other) if other.is_same(&saving)));
        assert!(matches!(
            queue.submit(Request::at_exit()),
            Answer::Saving(_)
        ));
        assert_eq!(queue.work(None, false).requests.len(), WAITING_MAX + 2);
    }

    #[test]
    fn requests_fail_when_the_collector_has_ended() {
        let queue = RequestQueue::new(Duration::ZERO);
        let seen = SavingSnapshot::from(queue.submit(Request::new("seen")));
        let work = queue.work(None, false);
        let unseen = SavingSnapshot::from(queue.submit(Request::new("unseen")));
        assert!(!seen.is_finished() && !unseen.is_finished());
        drop(work);
        queue.collector_has_ended();
        let later = SavingSnapshot::from(queue.submit(Request::new("later")));
        for saving in [seen, unseen, later] {
            assert!(matches!(saving.wait(), Err(FlightError::Stopped)));
        }
    }

    #[test]
    fn wait_for_all_stops_at_the_deadline() {
        let queue = RequestQueue::new(Duration::ZERO);
        let saving = SavingSnapshot::from(queue.submit(Request::new("name")));
        queue.begin_ending();
        assert!(!queue.wait_for_all(Instant::now() + Duration::from_millis(10)));
        assert!(!saving.is_finished());
        let work = queue.work(None, false);
        assert!(work.is_ending);
        queue.finish(&work.requests[0], Ok(PathBuf::from("file")));
        assert!(queue.wait_for_all(Instant::now() + Duration::from_secs(3600)));
        assert_eq!(saving.wait().unwrap(), PathBuf::from("file"));
    }
}
