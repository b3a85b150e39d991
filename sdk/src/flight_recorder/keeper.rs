//! The thread that serves requests: takes parts when they are due, and hands them to the saver. It
//! does no I/O and waits for none, but for what may be the last that is saved; so a snapshot is of the
//! moment at which it was asked for.
//!
//! A snapshot never stops a writer: it takes what is in the buffers, batch by batch as any reading does, and
//! the saver writes files on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{SendError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use super::cut::Part;
use super::desk::{Desk, Request};
use super::error::FlightError;
use super::history::{History, long_before};
use crate::instant;
use tracezero_track_event::Track;

/// Snapshots that wait for the rest of their time. Each holds on to what came before its event.
const WINDOWS_MAX: usize = 16;

/// Snapshots that wait to be written. Their parts stay in memory meanwhile.
pub(super) const SAVES_WAITING_MAX: usize = 4;

/// How often it is looked whether parts can be forgotten, while there are any.
const FORGET_PERIOD: Duration = Duration::from_secs(1);

/// A snapshot that is to be written.
pub(super) struct Save {
    pub(super) request: Request,
    pub(super) parts: Vec<Arc<Part>>,
    /// Where it begins, on the trace clock.
    pub(super) from_ns: Option<u64>,
}

pub(super) struct Keeper {
    pub(super) desk: Arc<Desk>,
    pub(super) history: History,
    /// Requests whose time after the event is not over.
    pub(super) windows: Vec<Request>,
    pub(super) saves: SyncSender<Save>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.desk.keeper_is_gone();
    }
}

impl Keeper {
    /// Works until the desk stops.
    pub(super) fn run(mut self) {
        let mut is_ending = false;
        loop {
            let work = self.desk.work(self.next_deadline(), is_ending);
            is_ending = work.is_ending;
            // So that a snapshot has no part that the ring has replaced, and that it is the last to
            // need a part.
            self.forget();
            self.serve(work.requests, is_ending || work.has_stopped);
            self.forget();
            if work.has_stopped {
                return;
            }
        }
    }

    /// Forgets what neither a window nor a snapshot to come needs.
    fn forget(&mut self) {
        let wanted_ns = self.windows.iter().map(|it| self.begin_ns(it).unwrap_or(0));
        self.history.forget(wanted_ns.min());
    }

    /// When there is something to do, if nobody asks for anything.
    fn next_deadline(&self) -> Option<Instant> {
        let windows = self.windows.iter().map(due_at);
        let forgets = (!self.history.is_empty()).then(|| Instant::now() + FORGET_PERIOD);
        windows.chain(forgets).min()
    }

    /// Takes in requests, and saves those whose time has come, or all of them.
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
        // First of all: what comes before a request from now on may not be in them.
        due.iter().for_each(|request| self.desk.close(request));
        // Also for those that go on: what came before them is safe then.
        self.history.take();
        for request in others {
            if self.windows.len() < WINDOWS_MAX {
                self.windows.push(request);
            } else {
                let limit = WINDOWS_MAX;
                self.desk.finish(&request, Err(FlightError::Busy { limit }));
            }
        }
        for request in due {
            self.save(request, all_at_once);
        }
    }

    /// Hands a snapshot to the saver. What is the last that may be saved waits for its turn.
    fn save(&self, request: Request, is_ending: bool) {
        let from_ns = self.begin_ns(&request);
        let save = Save {
            parts: self.history.parts_from(from_ns),
            from_ns,
            request,
        };
        let handed_over = if is_ending || save.request.is_last_word {
            let sent = self.saves.send(save);
            sent.map_err(|SendError(save)| TrySendError::Disconnected(save))
        } else {
            self.saves.try_send(save)
        };
        match handed_over {
            Ok(()) => {}
            Err(TrySendError::Full(save)) => {
                let limit = SAVES_WAITING_MAX;
                self.desk
                    .finish(&save.request, Err(FlightError::Busy { limit }));
            }
            Err(TrySendError::Disconnected(save)) => {
                self.desk.finish(&save.request, Err(FlightError::Stopped));
            }
        }
    }

    /// Where a snapshot begins, on the trace clock.
    fn begin_ns(&self, request: &Request) -> Option<u64> {
        match request.before {
            Some(before) => Some(long_before(request.at_ns, before)),
            None => self.history.kept_from_ns(request.at_ns),
        }
    }
}

fn due_at(request: &Request) -> Instant {
    // What is beyond all times is as far away as a day.
    let a_day = Duration::from_secs(24 * 60 * 60);
    let after = request.at.checked_add(request.after);
    after.unwrap_or_else(|| request.at + a_day)
}

/// Shows in the trace when a snapshot was asked for, and by whom. Not written by who asked: that
/// thread may be in the middle of another event.
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
