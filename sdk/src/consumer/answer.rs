//! A value that one thread waits for and another one gives, once.
//!
//! A channel of the standard library would do, and adds 32 KB of code to every program.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
enum State<T> {
    Open,
    Given(T),
    /// Nobody is left to give a value.
    Abandoned,
}

/// Gives the value. Dropping it without a value ends the wait with `None`.
#[derive(Debug)]
pub(super) struct Answer<T>(Arc<Shared<T>>);

/// Waits for the value.
#[derive(Debug)]
pub(super) struct Asked<T>(Arc<Shared<T>>);

/// Creates the two ends.
pub(super) fn answer<T>() -> (Answer<T>, Asked<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State::Open),
        changed: Condvar::new(),
    });
    (Answer(Arc::clone(&shared)), Asked(shared))
}

impl<T> Answer<T> {
    pub(super) fn give(self, value: T) {
        *self.0.state.lock() = State::Given(value);
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Open) {
            *state = State::Abandoned;
        }
        self.0.changed.notify_one();
    }
}

impl<T> Asked<T> {
    /// Returns the value, which is waited for; `None` if nobody is left to give one.
    pub(super) fn wait(self) -> Option<T> {
        let mut state = self.0.state.lock();
        let is_open = |state: &mut State<T>| matches!(state, State::Open);
        self.0.changed.wait_while(&mut state, is_open);
        take(&mut state)
    }

    /// Like [`wait`](Self::wait), but `None` after `timeout`, too.
    pub(super) fn wait_for(self, timeout: Duration) -> Option<T> {
        let mut state = self.0.state.lock();
        let is_open = |state: &mut State<T>| matches!(state, State::Open);
        self.0.changed.wait_while_for(&mut state, is_open, timeout);
        take(&mut state)
    }
}

fn take<T>(state: &mut State<T>) -> Option<T> {
    match std::mem::replace(state, State::Abandoned) {
        State::Given(value) => Some(value),
        State::Open | State::Abandoned => None,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn value_reaches_the_thread_that_waits() {
        let (answer, asked) = answer();
        let waiting = thread::spawn(|| asked.wait());
        answer.give(7);
        assert_eq!(waiting.join().expect("no panic"), Some(7));
    }

    #[test]
    fn value_that_was_given_before_is_there() {
        let (answer, asked) = answer();
        answer.give(7);
        assert_eq!(asked.wait_for(Duration::ZERO), Some(7));
    }

    #[test]
    fn nobody_waits_for_an_answer_that_was_dropped() {
        let (answer, asked) = answer::<u32>();
        let waiting = thread::spawn(|| asked.wait());
        drop(answer);
        assert_eq!(waiting.join().expect("no panic"), None);
    }

    #[test]
    fn waiting_ends_with_the_timeout() {
        let (_answer, asked) = answer::<u32>();
        assert_eq!(asked.wait_for(Duration::from_millis(1)), None);
    }
}
