//! How the thread that finishes is asked, and how whoever asked waits for it: by numbers in memory
//! that the kernel compares, so that signal handlers can do both.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

/// Whether there is a thread to ask.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether the process exits.
static IS_EXIT: AtomicBool = AtomicBool::new(false);

/// How often somebody asked.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// How many of these were answered.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// Whether the last answer was that all was finished.
static IS_FINISHED: AtomicBool = AtomicBool::new(false);

/// From now on there is a thread to ask.
pub(super) fn open() {
    // Relaxed: nothing is handed over. Who does not see it yet began before the first recording.
    IS_OPEN.store(true, Ordering::Relaxed);
}

/// The process exits.
pub(super) fn note_exit() {
    // Relaxed: `notify` publishes it.
    IS_EXIT.store(true, Ordering::Relaxed);
}

pub(super) fn is_exit() -> bool {
    // Relaxed: `wait_for_more_than` has seen what `notify` published.
    IS_EXIT.load(Ordering::Relaxed)
}

/// Asks the thread, and waits for its answer, at most for `limit`. Returns whether all was finished;
/// `true` if there is no thread, and so no recording. Async-signal-safe.
pub(super) fn ask(limit: Option<Duration>) -> bool {
    if !IS_OPEN.load(Ordering::Relaxed) {
        return true;
    }
    let deadline = limit.map(|limit| Instant::now() + limit);
    let number = notify();
    loop {
        // Acquire pairs with the release in `answer`.
        let answered = ANSWERED.load(Ordering::Acquire);
        if is_reached(answered, number) {
            return IS_FINISHED.load(Ordering::Relaxed);
        }
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if rest == Some(Duration::ZERO) {
            return false;
        }
        wait_while(&ANSWERED, answered, rest);
    }
}

/// Asks the thread, and does not wait. Returns the number that is to be answered. Async-signal-safe.
pub(super) fn notify() -> u32 {
    // Release pairs with the acquire in `wait_for_more_than`.
    let number = ASKED.fetch_add(1, Ordering::Release).wrapping_add(1);
    wake(&ASKED);
    number
}

/// Waits until somebody has asked after the first `served`. Returns how many have. For the thread.
pub(super) fn wait_for_more_than(served: u32) -> u32 {
    loop {
        // Acquire pairs with `notify`.
        let asked = ASKED.load(Ordering::Acquire);
        if asked != served {
            return asked;
        }
        wait_while(&ASKED, served, None);
    }
}

/// Answers those who have asked until the count was `number`. For the thread.
pub(super) fn answer(number: u32, is_finished: bool) {
    IS_FINISHED.store(is_finished, Ordering::Relaxed);
    // Release pairs with the acquire in `ask`, which then sees the answer.
    ANSWERED.store(number, Ordering::Release);
    wake(&ANSWERED);
}

/// Whether a count, which may have wrapped around, has come to `number`.
fn is_reached(count: u32, number: u32) -> bool {
    count.wrapping_sub(number) as i32 >= 0
}

/// Sleeps until it is woken, unless `word` has another value already. May return early.
fn wait_while(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    match futex::wait(word, futex::Flags::PRIVATE, value, limit.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // No kernel says anything else; a loop without sleep is right as well.
        Err(_) => std::hint::spin_loop(),
    }
}

fn wake(word: &AtomicU32) {
    // An error would mean that nobody can be waiting there.
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_wrap_around() {
        assert!(is_reached(3, 3));
        assert!(is_reached(4, 3));
        assert!(!is_reached(2, 3));
        assert!(is_reached(1, u32::MAX));
        assert!(!is_reached(u32::MAX, 1));
    }
}
