//! Waiting for threads that write files and do not keep up with a producer.
//!
//! What a producer commits meanwhile would overwrite what such a thread has not read. So its frames
//! wait. Its shared memory then fills, and its writers wait or drop, as their policy says. Nobody else
//! waits, and nobody waits for long for a disk that has stopped.

use std::time::Instant;

use crate::limits::SLOW_READER_LIMIT;

/// Whether the frames of a producer wait for the readers of its buffers.
#[derive(Debug, Default)]
pub(crate) struct SlowReaders {
    awaited: Option<Progress>,
    /// True if they made no progress for too long. Then nothing waits until they have caught up.
    are_given_up: bool,
}

/// How far slow readers are, and since when.
#[derive(Clone, Copy, Debug)]
struct Progress {
    read_bytes: u64,
    since: Instant,
}

impl SlowReaders {
    pub(crate) fn are_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    /// Waits no more until the readers have caught up.
    pub(crate) fn give_up(&mut self) {
        self.awaited = None;
        self.are_given_up = true;
    }

    /// Returns true if frames must wait. `read_bytes` is what slow readers have read so far, if there
    /// are any.
    pub(crate) fn must_wait(&mut self, read_bytes: Option<u64>, now: Instant) -> bool {
        let Some(read_bytes) = read_bytes else {
            *self = Self::default();
            return false;
        };
        if self.are_given_up {
            return false;
        }
        match self.awaited {
            Some(progress) if progress.read_bytes == read_bytes => {
                if now.duration_since(progress.since) >= SLOW_READER_LIMIT {
                    self.give_up();
                }
            }
            _ => {
                let since = now;
                self.awaited = Some(Progress { read_bytes, since });
            }
        }
        self.are_awaited()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn frames_wait_as_long_as_readers_make_progress() {
        let mut readers = SlowReaders::default();
        let mut now = Instant::now();
        assert!(!readers.must_wait(None, now));
        for read_bytes in 0..10 {
            assert!(readers.must_wait(Some(read_bytes), now));
            now += SLOW_READER_LIMIT - Duration::from_nanos(1);
            assert!(readers.must_wait(Some(read_bytes), now));
        }
        assert!(!readers.must_wait(None, now));
        assert!(!readers.are_awaited());
    }

    #[test]
    fn readers_without_progress_are_given_up_until_they_catch_up() {
        let mut readers = SlowReaders::default();
        let begin = Instant::now();
        assert!(readers.must_wait(Some(7), begin));
        let late = begin + SLOW_READER_LIMIT;
        assert!(!readers.must_wait(Some(7), late));
        assert!(!readers.must_wait(Some(8), late));
        assert!(!readers.must_wait(None, late));
        assert!(readers.must_wait(Some(8), late));
    }
}
