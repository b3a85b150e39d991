//! Requests to the thread that finishes recordings, and its replies. Both are counters in memory
//! that threads wait on with futexes, so that signal handlers can send requests and wait for
//! replies.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

/// True if the thread that finishes recordings runs.
static HAS_THREAD: AtomicBool = AtomicBool::new(false);

/// True if the process exits.
static IS_EXIT: AtomicBool = AtomicBool::new(false);

/// The number of requests so far.
static REQUESTED: AtomicU32 = AtomicU32::new(0);

/// The number of requests that were answered.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// The last reply: true if everything was finished.
static IS_FINISHED: AtomicBool = AtomicBool::new(false);

/// Notes that the thread that finishes recordings runs.
pub(super) fn note_thread() {
    // Relaxed: no data is published. A thread that does not see the store has not synchronized with
    // the start of the first recording, so its request may count as made before that start.
    HAS_THREAD.store(true, Ordering::Relaxed);
}

/// Notes that the process exits.
pub(super) fn note_exit() {
    // Relaxed: `request` publishes it.
    IS_EXIT.store(true, Ordering::Relaxed);
}

pub(super) fn is_exit() -> bool {
    // Relaxed: `wait_for_request` has synchronized with `request`, which published it.
    IS_EXIT.load(Ordering::Relaxed)
}

/// Sends a request and waits for the reply, at most for `limit`. Returns true if everything was
/// finished, or if the thread that finishes recordings does not run, because then there is no
/// recording. Async-signal-safe.
pub(super) fn request_and_wait(limit: Option<Duration>) -> bool {
    if !HAS_THREAD.load(Ordering::Relaxed) {
        return true;
    }
    let deadline = limit.map(|limit| Instant::now() + limit);
    let number = request();
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

/// Sends a request without waiting. Returns the number of the request. Async-signal-safe.
pub(super) fn request() -> u32 {
    // Release pairs with the acquire in `wait_for_request`.
    let number = REQUESTED.fetch_add(1, Ordering::Release).wrapping_add(1);
    wake(&REQUESTED);
    number
}

/// Waits until there are more than `served` requests. Returns the number of requests. Called by the
/// thread that finishes recordings.
pub(super) fn wait_for_request(served: u32) -> u32 {
    loop {
        // Acquire pairs with the release in `request`.
        let requested = REQUESTED.load(Ordering::Acquire);
        if requested != served {
            return requested;
        }
        wait_while(&REQUESTED, served, None);
    }
}

/// Answers all requests up to `number`. Called by the thread that finishes recordings.
pub(super) fn answer(number: u32, is_finished: bool) {
    IS_FINISHED.store(is_finished, Ordering::Relaxed);
    // Release pairs with the acquire in `request_and_wait`, which then sees `IS_FINISHED`.
    ANSWERED.store(number, Ordering::Release);
    wake(&ANSWERED);
}

/// Returns whether a count, which may have wrapped around, has reached `number`.
fn is_reached(count: u32, number: u32) -> bool {
    count.wrapping_sub(number) as i32 >= 0
}

/// Sleeps until woken, unless `word` no longer has this `value`. May return early.
fn wait_while(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    match futex::wait(word, futex::Flags::PRIVATE, value, limit.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        // No kernel returns another error. If one did, a loop without sleep would still be correct.
        Err(_) => std::hint::spin_loop(),
    }
}

fn wake(word: &AtomicU32) {
    // An error would mean that no thread can wait there.
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_allows_counts_to_wrap_around() {
        assert!(is_reached(3, 3));
        assert!(is_reached(4, 3));
        assert!(!is_reached(2, 3));
        assert!(is_reached(1, u32::MAX));
        assert!(!is_reached(u32::MAX, 1));
    }
}
