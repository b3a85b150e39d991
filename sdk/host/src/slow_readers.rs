//! Makes producers wait for threads that write files and do not keep up.
//!
//! A commit could overwrite packets that such a thread has not read. So the frames of the producer
//! wait. Its shared memory then fills, and its writers wait or drop packets, as their policy says.
//! Other producers do not wait, and no producer waits long for a disk that is slow or has stopped.

use std::time::{Duration, Instant};

use tracezero_core::ids::BufferId;
use tracezero_core::small_map::SmallMap;

use crate::limits::{SLOW_READER_LIMIT, STUCK_READER_LIMIT};

/// How long a producer's frames wait for a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    /// The limit for a file that takes no bytes.
    pub(crate) without_progress: Duration,
    /// The limit for the total time until a file has caught up.
    pub(crate) in_all: Duration,
}

impl Default for WaitLimits {
    fn default() -> Self {
        Self {
            without_progress: STUCK_READER_LIMIT,
            in_all: SLOW_READER_LIMIT,
        }
    }
}

/// The readers of a producer's buffers that do not keep up. Its frames wait for them.
#[derive(Debug)]
pub(crate) struct SlowReaders {
    limits: WaitLimits,
    buffers: SmallMap<BufferId, SlowReader>,
}

/// The reader of a buffer that does not keep up.
#[derive(Clone, Copy, Debug)]
struct SlowReader {
    read_bytes: u64,
    since: Instant,
    progress: Instant,
    /// True once frames have waited too long. They do not wait again until this reader has caught
    /// up.
    is_given_up: bool,
}

impl SlowReaders {
    pub(crate) fn new(limits: WaitLimits) -> Self {
        let buffers = SmallMap::new();
        Self { limits, buffers }
    }

    /// Returns true if frames must wait. `slow` contains the buffers whose readers do not keep up,
    /// and the number of bytes read from each.
    pub(crate) fn must_wait(&mut self, slow: &[(BufferId, u64)], now: Instant) -> bool {
        let is_slow = |buffer| slow.iter().any(|(slow, _)| *slow == buffer);
        self.buffers.retain(|buffer, _| is_slow(*buffer));
        for (buffer, read_bytes) in slow {
            match self.buffers.get_mut(buffer) {
                Some(reader) => reader.update(*read_bytes, now, self.limits),
                None => {
                    let reader = SlowReader {
                        read_bytes: *read_bytes,
                        since: now,
                        progress: now,
                        is_given_up: false,
                    };
                    self.buffers.insert(*buffer, reader);
                }
            }
        }
        self.are_awaited()
    }

    pub(crate) fn are_awaited(&self) -> bool {
        self.buffers.values().any(|reader| !reader.is_given_up)
    }
}

impl SlowReader {
    fn update(&mut self, read_bytes: u64, now: Instant, limits: WaitLimits) {
        if self.read_bytes != read_bytes {
            self.read_bytes = read_bytes;
            self.progress = now;
        }
        self.is_given_up |= now.duration_since(self.progress) >= limits.without_progress
            || now.duration_since(self.since) >= limits.in_all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: BufferId = BufferId(1);
    const OTHER: BufferId = BufferId(2);

    #[test]
    fn frames_wait_while_a_reader_makes_progress() {
        let mut readers = SlowReaders::new(WaitLimits::default());
        let begin = Instant::now();
        let mut now = begin;
        assert!(!readers.must_wait(&[], now));
        let mut read_bytes = 0;
        while now < begin + SLOW_READER_LIMIT {
            assert!(readers.must_wait(&[(ONE, read_bytes)], now));
            read_bytes += 1;
            now += STUCK_READER_LIMIT / 2;
        }
        assert!(!readers.must_wait(&[(ONE, read_bytes)], now));
        assert!(!readers.must_wait(&[], now));
        assert!(readers.must_wait(&[(ONE, read_bytes)], now));
    }

    #[test]
    fn a_reader_without_progress_is_given_up_until_it_catches_up() {
        let mut readers = SlowReaders::new(WaitLimits::default());
        let begin = Instant::now();
        assert!(readers.must_wait(&[(ONE, 7)], begin));
        let late = begin + STUCK_READER_LIMIT;
        assert!(readers.must_wait(&[(ONE, 7)], late - Duration::from_nanos(1)));
        assert!(!readers.must_wait(&[(ONE, 7)], late));
        assert!(!readers.must_wait(&[(ONE, 8)], late));
        assert!(!readers.must_wait(&[], late));
        assert!(readers.must_wait(&[(ONE, 8)], late));
    }

    #[test]
    fn each_reader_is_awaited_by_itself() {
        let mut readers = SlowReaders::new(WaitLimits::default());
        let begin = Instant::now();
        assert!(readers.must_wait(&[(ONE, 7)], begin));
        let late = begin + STUCK_READER_LIMIT;
        assert!(readers.must_wait(&[(ONE, 7), (OTHER, 1)], late));
        assert!(!readers.must_wait(&[(ONE, 7)], late));
        // The progress of another reader does not count.
        assert!(readers.must_wait(&[(ONE, 7), (OTHER, 2)], late));
    }
}
