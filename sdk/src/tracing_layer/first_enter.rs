//! When a span was entered first, told without a lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tracezero_track_event::{Begun, EventTime};

/// Nobody has entered the span.
const NEVER: u8 = 0;
/// Somebody is just entering it.
const NOW: u8 = 1;
/// It is known who entered it first, and when.
const KNOWN: u8 = 2;

/// The first enter of a span. Any thread may be the first one; what else is done to it needs the lock
/// of the span.
#[derive(Debug, Default)]
pub(super) struct FirstEnter {
    phase: AtomicU8,
    /// On the trace clock.
    timestamp_ns: AtomicU64,
    /// The sessions that have seen it, as [`Begun::to_words`] says.
    seen_by: [AtomicU64; 2],
}

/// A moment at which a span was entered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enter {
    /// On the trace clock.
    pub(super) timestamp_ns: u64,
    /// The sessions that have seen it.
    pub(super) seen_by: Begun,
}

impl Enter {
    #[inline]
    pub(super) fn now(time: EventTime, seen_by: Begun) -> Self {
        Self {
            timestamp_ns: time.timestamp_ns(),
            seen_by,
        }
    }
}

impl FirstEnter {
    /// The next span has not been entered.
    #[inline]
    pub(super) fn forget(&self) {
        // Relaxed: whoever opens the span publishes it.
        self.phase.store(NEVER, Ordering::Relaxed);
    }

    /// Whether the span was entered, or is just being entered.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        // Relaxed: who enters it at the same time enters it later.
        self.phase.load(Ordering::Relaxed) != NEVER
    }

    /// The first enter; `None` as well while another thread is about to tell.
    #[inline]
    pub(super) fn get(&self) -> Option<Enter> {
        // Acquire pairs with the release in `set`.
        if self.phase.load(Ordering::Acquire) != KNOWN {
            return None;
        }
        let words = self.seen_by.each_ref();
        Some(Enter {
            timestamp_ns: self.timestamp_ns.load(Ordering::Relaxed),
            seen_by: Begun::from_words(words.map(|word| word.load(Ordering::Relaxed)))?,
        })
    }

    /// A thread enters the span. Returns whether it is the first one.
    #[inline]
    pub(super) fn claim(&self, enter: Enter) -> bool {
        // Relaxed: only that one thread succeeds counts.
        let is_first = self
            .phase
            .compare_exchange(NEVER, NOW, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if is_first {
            self.set(enter);
        }
        is_first
    }

    /// Takes this enter for the first one. For who has claimed it, or has the span locked and finds it
    /// known.
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
            seen_by: Begun::from_words([number, number]).unwrap(),
        }
    }

    /// The number of an enter all of whose parts are of one.
    fn number(enter: Enter) -> u64 {
        let number = enter.timestamp_ns;
        assert_eq!(enter.seen_by.to_words(), [number, number]);
        number
    }

    #[test]
    fn one_of_the_threads_that_enter_at_once_is_the_first_and_is_seen_whole_or_not_at_all() {
        const THREADS: u64 = 4;
        let first = FirstEnter::default();
        for _ in 0..200 {
            first.forget();
            assert!(first.get().is_none() && !first.is_over());
            let barrier = Barrier::new(THREADS as usize);
            let (first, barrier) = (&first, &barrier);
            let mine = move |it| {
                barrier.wait();
                let is_first = first.claim(enter(it));
                assert!(first.is_over());
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
