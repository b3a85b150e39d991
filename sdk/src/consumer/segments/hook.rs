//! The thread that hands complete segments to the application.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::segment::Segment;
use super::settings::OnComplete;
use crate::error::Error;
use crate::trace_folder::Held;
use tracezero_core::own_thread;

/// Segments on their way to the application.
#[derive(Default)]
pub(super) struct Hook {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// True if there is a function, so that segments are kept for it.
    is_called: bool,
    waiting: VecDeque<Segment>,
    /// The segment that the function has now.
    in_use: Option<Segment>,
    /// True if no more segments come.
    is_over: bool,
    /// The number of segments that were removed before the function had returned.
    unseen: u64,
}

impl Hook {
    /// Starts the thread, if there is a function. It ends after [`end`](Self::end).
    pub(super) fn start(
        call: Option<OnComplete>,
    ) -> Result<(Arc<Self>, Option<JoinHandle<()>>), Error> {
        let hook = Arc::new(Self::default());
        let Some(call) = call else {
            return Ok((hook, None));
        };
        hook.state.lock().is_called = true;
        let of_thread = Arc::clone(&hook);
        let thread = own_thread::spawn("tracezero-segments", move || of_thread.run(&call));
        Ok((hook, Some(thread.map_err(Error::Thread)?)))
    }

    fn run(&self, call: &OnComplete) {
        let mut state = self.state.lock();
        loop {
            if let Some(segment) = state.waiting.pop_front() {
                state.in_use = Some(segment.clone());
                drop(state);
                // The application's function may panic. It gets later segments nevertheless.
                let _ = panic::catch_unwind(AssertUnwindSafe(|| call(&segment)));
                state = self.state.lock();
                state.in_use = None;
            } else if state.is_over {
                return;
            } else {
                self.changed.wait(&mut state);
            }
        }
    }

    /// Hands over a segment.
    pub(super) fn send(&self, segment: Segment) {
        let mut state = self.state.lock();
        if state.is_called {
            state.waiting.push_back(segment);
            self.changed.notify_one();
        }
    }

    /// Lets the thread end after the last segment.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_one();
    }

    /// Returns the number of segments that were removed before the function had returned.
    pub(super) fn unseen(&self) -> u64 {
        self.state.lock().unseen
    }
}

impl Held for Hook {
    fn is_held(&self, path: &Path) -> bool {
        let state = self.state.lock();
        let mut held = state.waiting.iter().chain(&state.in_use);
        held.any(|segment| segment.path() == path)
    }

    fn removed(&self, path: &Path) {
        let mut state = self.state.lock();
        let is_it = |segment: &Segment| segment.path() == path;
        if let Some(index) = state.waiting.iter().position(is_it) {
            state
                .waiting
                .remove(index)
                .iter()
                .for_each(Segment::note_removed);
            state.unseen += 1;
        }
        if state.in_use.as_ref().is_some_and(is_it) {
            state.in_use.iter().for_each(Segment::note_removed);
            state.unseen += 1;
        }
    }
}
