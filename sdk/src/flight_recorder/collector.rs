//! The thread that serves requests: it takes parts out of the buffers when they are due, and hands
//! them to the saver. It does no I/O, so a snapshot is taken at the time of its request. It waits
//! for I/O of the saver only for requests after which the process may end.
//!
//! A snapshot never stops a trace writer: this thread reads the buffers batch by batch, like any
//! reader, and the saver writes files on another thread.

use std::sync::Arc;
use std::sync::mpsc::{SendError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use super::cut::Part;
use super::error::FlightError;
use super::history::{History, long_before};
use super::request_queue::{Request, RequestQueue};
use crate::instant;
use tracezero_track_event::Track;

/// The number of snapshots that may wait for the time after their request. Each keeps the parts
/// before its request in memory.
const WINDOWS_MAX: usize = 16;

/// The number of snapshots that may wait to be written. Their parts stay in memory meanwhile.
pub(super) const SAVES_WAITING_MAX: usize = 4;

/// How often to check whether parts can be dropped, while there are any.
const FORGET_PERIOD: Duration = Duration::from_secs(1);

/// A snapshot that is to be written.
pub(super) struct SaveJob {
    pub(super) request: Request,
    pub(super) parts: Vec<Arc<Part>>,
    /// The time at which the snapshot begins, on the trace clock.
    pub(super) from_ns: Option<u64>,
}

pub(super) struct Collector {
    pub(super) queue: Arc<RequestQueue>,
    pub(super) history: History,
    /// Requests whose snapshots are taken some time after the request. That time has not come yet.
    pub(super) windows: Vec<Request>,
    pub(super) saves: SyncSender<SaveJob>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.queue.collector_has_ended();
    }
}

impl Collector {
    /// Serves requests until the queue stops.
    pub(super) fn run(mut self) {
        let mut is_ending = false;
        loop {
            let work = self.queue.work(self.next_deadline(), is_ending);
            is_ending = work.is_ending;
            // Drop parts before serving, because a snapshot must not contain parts that the ring
            // has replaced. Drop parts again after serving, because the snapshot may have been the
            // last that needed a part.
            self.forget();
            self.serve(work.requests, is_ending || work.has_stopped);
            self.forget();
            if work.has_stopped {
                return;
            }
        }
    }

    /// Drops parts that neither a waiting request nor a later snapshot needs.
    fn forget(&mut self) {
        let wanted_ns = self.windows.iter().map(|it| self.begin_ns(it).unwrap_or(0));
        self.history.forget(wanted_ns.min());
    }

    /// Returns the time of the next work if no request arrives.
    fn next_deadline(&self) -> Option<Instant> {
        let windows = self.windows.iter().map(due_at);
        let forgets = (!self.history.is_empty()).then(|| Instant::now() + FORGET_PERIOD);
        windows.chain(forgets).min()
    }

    /// Accepts requests, and saves those that are due, or all of them.
    fn serve(&mut self, requests: Vec<Request>, all_at_once: bool) {
        let now = Instant::now();
        requests.iter().for_each(mark);
        let is_due = |request: &Request| all_at_once || due_at(request) <= now;
        let mut due: Vec<_> = self.windows.extract_if(.., |it| is_due(it)).collect();
        let (due_at_once, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_due);
        due.extend(due_at_once);
        if due.is_empty() && others.is_empty() {
            return;
        }
        // Close the requests before anything is read, so that a later request with the same name
        // gets a snapshot of its own: it may ask for events that this snapshot does not contain.
        due.iter().for_each(|request| self.queue.close(request));
        // Take a part even if all requests still wait. Later events then cannot overwrite the
        // events before the requests.
        self.history.take();
        for request in others {
            if self.windows.len() < WINDOWS_MAX {
                self.windows.push(request);
            } else {
                let limit = WINDOWS_MAX;
                self.queue
                    .finish(&request, Err(FlightError::Busy { limit }));
            }
        }
        for request in due {
            self.save(request, all_at_once);
        }
    }

    /// Hands a snapshot to the saver. A request after which the process may end waits for a place
    /// in the saver's queue.
    fn save(&self, request: Request, is_ending: bool) {
        let from_ns = self.begin_ns(&request);
        let save = SaveJob {
            parts: self.history.parts_from(from_ns),
            from_ns,
            request,
        };
        let handed_over = if is_ending || save.request.may_be_last {
            let sent = self.saves.send(save);
            sent.map_err(|SendError(save)| TrySendError::Disconnected(save))
        } else {
            self.saves.try_send(save)
        };
        match handed_over {
            Ok(()) => {}
            Err(TrySendError::Full(save)) => {
                let limit = SAVES_WAITING_MAX;
                self.queue
                    .finish(&save.request, Err(FlightError::Busy { limit }));
            }
            Err(TrySendError::Disconnected(save)) => {
                self.queue.finish(&save.request, Err(FlightError::Stopped));
            }
        }
    }

    /// Returns the time at which a snapshot begins, on the trace clock.
    fn begin_ns(&self, request: &Request) -> Option<u64> {
        match request.before {
            Some(before) => Some(long_before(request.at_ns, before)),
            None => self.history.kept_from_ns(request.at_ns),
        }
    }
}

fn due_at(request: &Request) -> Instant {
    // If `after` is too long for an `Instant`, the request is due one day later.
    let a_day = Duration::from_secs(24 * 60 * 60);
    let after = request.at.checked_add(request.after);
    after.unwrap_or_else(|| request.at + a_day)
}

/// Records an event for the request, with its time and thread. The thread that made the request
/// does not record this event, because that thread may be in the middle of another event.
fn mark(request: &Request) {
    let own_track = Track::current_thread;
    let track = request.track.clone().unwrap_or_else(own_track);
    let name = request.name.as_str();
    let at_ns = request.at_ns;
    match (&request.message, &request.location) {
        (Some(message), Some(location)) => {
            instant!("flight_recorder", name, track: &track, at: at_ns, message, location);
        }
        _ => instant!("flight_recorder", name, track: &track, at: at_ns),
    }
}
