//! The first enter of a span, stored without a lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tracezero_track_event::{BeginSessions, EventTime};

/// No thread has entered the span.
const NEVER: u8 = 0;
/// A thread has claimed the first enter, and is about to store it.
const CLAIMED: u8 = 1;
/// The first enter is stored.
const KNOWN: u8 = 2;

/// The first enter of a span. Any thread may be the first one. Everything else about a span needs
/// the span's lock.
#[derive(Debug, Default)]
pub(super) struct FirstEnter {
    phase: AtomicU8,
    /// The time on the trace clock.
    timestamp_ns: AtomicU64,
    /// The sessions that have seen the enter, encoded by [`BeginSessions::to_words`].
    seen_by: [AtomicU64; 2],
}

/// An enter of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enter {
    /// The time on the trace clock.
    pub(super) timestamp_ns: u64,
    /// The sessions that have seen the enter.
    pub(super) seen_by: BeginSessions,
}

impl Enter {
    #[inline]
    pub(super) fn now(time: EventTime, seen_by: BeginSessions) -> Self {
        Self {
            timestamp_ns: time.timestamp_ns(),
            seen_by,
        }
    }
}

impl FirstEnter {
    /// Resets the state for the next span of the slot.
    #[inline]
    pub(super) fn forget(&self) {
        // Relaxed: the thread that adds the span publishes it.
        self.phase.store(NEVER, Ordering::Relaxed);
    }

    /// Returns whether a thread has entered the span or is entering it.
    #[inline]
    pub(super) fn is_claimed(&self) -> bool {
        // Relaxed: an enter at the same time counts as later.
        self.phase.load(Ordering::Relaxed) != NEVER
    }

    /// Returns the first enter. Returns `None` also while another thread is about to store it.
    #[inline]
    pub(super) fn get(&self) -> Option<Enter> {
        // Acquire pairs with the release in `set`.
        if self.phase.load(Ordering::Acquire) != KNOWN {
            return None;
        }
        let words = self.seen_by.each_ref();
        Some(Enter {
            timestamp_ns: self.timestamp_ns.load(Ordering::Relaxed),
            seen_by: BeginSessions::from_words(words.map(|word| word.load(Ordering::Relaxed)))?,
        })
    }

    /// Stores an enter if it is the first one. Returns whether it is.
    #[inline]
    pub(super) fn claim(&self, enter: Enter) -> bool {
        // Relaxed: it only matters that exactly one thread succeeds.
        let is_first = self
            .phase
            .compare_exchange(NEVER, CLAIMED, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if is_first {
            self.set(enter);
        }
        is_first
    }

    /// Stores this enter as the first one. Callers have claimed it, or hold the span's lock and
    /// have found that a first enter is stored (`KNOWN`). In the layer, all callers of `get` hold
    /// that lock as well, so none of them sees a mixture of two enters.
    #[inline]
    pub(super) fn set(&self, enter: Enter) {
        let timestamp_ns = enter.timestamp_ns;
        self.timestamp_ns.store(timestamp_ns, Ordering::Relaxed);
        for (place, word) in self.seen_by.iter().zip(enter.seen_by.to_words()) {
            place.store(word, Ordering::Relaxed);
        }
        // Release pairs with the acquire in `get`.
        self.phase.store(KNOWN, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn enter(number: u64) -> Enter {
        Enter {
            timestamp_ns: number,
            seen_by: BeginSessions::from_words([number, number]).unwrap(),
        }
    }

    /// Returns the number of an enter, and checks that all of its parts have that number.
    fn number(enter: Enter) -> u64 {
        let number = enter.timestamp_ns;
        assert_eq!(enter.seen_by.to_words(), [number, number]);
        number
    }

    #[test]
    fn concurrent_enters_have_one_winner_that_is_read_whole() {
        const THREADS: u64 = 4;
        let first = FirstEnter::default();
        for _ in 0..200 {
            first.forget();
            assert!(first.get().is_none() && !first.is_claimed());
            let barrier = Barrier::new(THREADS as usize);
            let (first, barrier) = (&first, &barrier);
            let mine = move |it| {
                barrier.wait();
                let is_first = first.claim(enter(it));
                assert!(first.is_claimed());
                (is_first.then_some(it), first.get().map(number))
            };
            let seen = thread::scope(|scope| {
                let threads = Vec::from_iter((1..=THREADS).map(|it| scope.spawn(move || mine(it))));
                Vec::from_iter(threads.into_iter().map(|thread| thread.join().unwrap()))
            });
            let firsts = Vec::from_iter(seen.iter().filter_map(|(is_first, _)| *is_first));
            let [winner] = firsts[..] else {
                panic!("{firsts:?}")
            };
            assert_eq!(first.get().map(number), Some(winner));
            assert!(
                seen.iter()
                    .all(|(_, saw)| saw.is_none_or(|it| it == winner))
            );
            first.set(enter(THREADS + 1));
            assert_eq!(first.get().map(number), Some(THREADS + 1));
        }
    }
}
