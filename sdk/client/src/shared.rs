//! The state that the thread of a client shares with the application.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracezero_ipc::waker::Waker;

use crate::counts::Counts;
use crate::socket_watch::SocketWatch;

/// The state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientState {
    /// The daemon has not accepted this process yet.
    Connecting,
    /// The daemon has accepted this process, and can record it.
    Connected,
    /// There is no connection.
    Waiting {
        /// The time until the next attempt.
        retry_in: Duration,
        /// Why the last attempt failed, or the last connection ended.
        reason: String,
    },
    /// The client was dropped.
    Closed,
}

/// The state that the thread shares with the application.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) waker: Arc<Waker>,
    pub(crate) counts: Arc<Counts>,
    is_closing: AtomicBool,
    /// True if the process is about to exit. From then on, the client calls no code of the
    /// application.
    is_exiting: AtomicBool,
    /// True once a daemon has said which data sources it records, and the calls that start them
    /// were made.
    has_learned: AtomicBool,
    state: Mutex<ClientState>,
    has_changed: Condvar,
}

impl Shared {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            waker: Arc::new(waker),
            counts: Arc::default(),
            is_closing: AtomicBool::new(false),
            is_exiting: AtomicBool::new(false),
            has_learned: AtomicBool::new(false),
            state: Mutex::new(ClientState::Connecting),
            has_changed: Condvar::new(),
        }
    }

    pub(crate) fn state(&self) -> ClientState {
        self.state.lock().clone()
    }

    /// Waits for a state, at most for `timeout`. Returns true if the connection has this state.
    pub(crate) fn wait_for(&self, wanted: &ClientState, timeout: Duration) -> bool {
        let is_other = |state: &mut ClientState| state != wanted;
        let mut state = self.state.lock();
        let waited = self
            .has_changed
            .wait_while_for(&mut state, is_other, timeout);
        !waited.timed_out()
    }

    /// Notes that a daemon has said which data sources it records, and that the calls that start
    /// them were made.
    pub(crate) fn set_learned(&self) {
        let state = self.state.lock();
        // Relaxed: the lock of `state` orders all accesses.
        self.has_learned.store(true, Ordering::Relaxed);
        drop(state);
        self.has_changed.notify_all();
    }

    /// Waits until a daemon has said which data sources it records, and they have started. Returns
    /// the state of the connection if there is no daemon, or if the daemon does not answer in time.
    pub(crate) fn wait_learned(&self, timeout: Duration) -> Result<(), ClientState> {
        // Relaxed: the lock of `state` orders all accesses.
        let has_learned = || self.has_learned.load(Ordering::Relaxed);
        let is_under_way = |state: &mut ClientState| {
            !has_learned() && matches!(state, ClientState::Connecting | ClientState::Connected)
        };
        let mut state = self.state.lock();
        self.has_changed
            .wait_while_for(&mut state, is_under_way, timeout);
        match has_learned() {
            true => Ok(()),
            false => Err(state.clone()),
        }
    }

    /// Tells the thread to end.
    pub(crate) fn begin_closing(&self) {
        // Relaxed: see `is_closing`.
        self.is_closing.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Tells the thread to send what waits and to end, because the process exits.
    pub(crate) fn begin_exiting(&self) {
        // Relaxed: see `is_closing`.
        self.is_exiting.store(true, Ordering::Relaxed);
        self.begin_closing();
    }

    pub(crate) fn is_exiting(&self) -> bool {
        // Relaxed: see `is_closing`.
        self.is_exiting.load(Ordering::Relaxed)
    }

    pub(crate) fn is_closing(&self) -> bool {
        // Relaxed: the system calls of the waker order the accesses.
        self.is_closing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_connected(&self) {
        self.set(ClientState::Connected);
    }

    pub(crate) fn set(&self, state: ClientState) {
        *self.state.lock() = state;
        self.has_changed.notify_all();
    }

    /// Waits for `time`. Returns early if the client is dropped, or if `watch` has noticed a
    /// socket; returns true only in the latter case.
    pub(crate) fn sleep(&self, time: Duration, watch: Option<&SocketWatch>) -> bool {
        let end = Instant::now() + time;
        while let Some(rest) = end.checked_duration_since(Instant::now())
            && !rest.is_zero()
            && !self.is_closing()
        {
            let waker = self.waker.as_fd();
            let watched = watch.map_or(waker, |watch| watch.as_fd());
            let mut fds = [waker, watched].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let timeout = Timespec::try_from(rest).unwrap_or_default();
            // If `poll` fails, the wait ends early, so the client tries to connect sooner.
            if poll(&mut fds, Some(&timeout)).is_err() {
                return false;
            }
            self.waker.reset();
            if watch.is_some_and(SocketWatch::was_made) {
                return true;
            }
        }
        false
    }
}
