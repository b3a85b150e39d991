//! A channel for a single value: one thread waits for the value, another thread sends it.
//!
//! A channel of the standard library would do, but adds 32 KB of code to every program.

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
    Sent(T),
    /// The sender was dropped without a value.
    Abandoned,
}

/// The sending end. Dropping it without a value ends the wait with `None`.
#[derive(Debug)]
pub(super) struct Sender<T>(Arc<Shared<T>>);

/// The receiving end.
#[derive(Debug)]
pub(super) struct Receiver<T>(Arc<Shared<T>>);

/// Creates both ends of a channel.
pub(super) fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State::Open),
        changed: Condvar::new(),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    pub(super) fn send(self, value: T) {
        *self.0.state.lock() = State::Sent(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Open) {
            *state = State::Abandoned;
        }
        self.0.changed.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Waits for the value. Returns `None` if the sender was dropped without one.
    pub(super) fn wait(self) -> Option<T> {
        let mut state = self.0.state.lock();
        let is_open = |state: &mut State<T>| matches!(state, State::Open);
        self.0.changed.wait_while(&mut state, is_open);
        take(&mut state)
    }

    /// Waits for the value like [`wait`](Self::wait). Returns `None` after `timeout`, too.
    pub(super) fn wait_for(self, timeout: Duration) -> Option<T> {
        let mut state = self.0.state.lock();
        let is_open = |state: &mut State<T>| matches!(state, State::Open);
        self.0.changed.wait_while_for(&mut state, is_open, timeout);
        take(&mut state)
    }
}

fn take<T>(state: &mut State<T>) -> Option<T> {
    match std::mem::replace(state, State::Abandoned) {
        State::Sent(value) => Some(value),
        State::Open | State::Abandoned => None,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn value_reaches_the_waiting_thread() {
        let (sender, receiver) = oneshot();
        let waiting = thread::spawn(|| receiver.wait());
        sender.send(7);
        assert_eq!(waiting.join().expect("no panic"), Some(7));
    }

    #[test]
    fn value_sent_before_the_wait_is_received() {
        let (sender, receiver) = oneshot();
        sender.send(7);
        assert_eq!(receiver.wait_for(Duration::ZERO), Some(7));
    }

    #[test]
    fn dropping_the_sender_ends_the_wait() {
        let (sender, receiver) = oneshot::<u32>();
        let waiting = thread::spawn(|| receiver.wait());
        drop(sender);
        assert_eq!(waiting.join().expect("no panic"), None);
    }

    #[test]
    fn wait_ends_at_the_timeout() {
        let (_sender, receiver) = oneshot::<u32>();
        assert_eq!(receiver.wait_for(Duration::from_millis(1)), None);
    }
}
