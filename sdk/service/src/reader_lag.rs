//! How far the reader of a buffer is behind its writers, and what follows: when it is woken, when
//! writers wait for it, and when chunks are scraped.
//!
//! Bytes are *behind* that the reader has not looked at; bytes are *ahead* that can be written before
//! something is overwritten that was not read.

use std::time::Duration;

use super::trace_buffer::{Mark, SEGMENT_BYTES, TraceBuffer};

/// The lag of the reader of one buffer. All methods take that buffer.
pub(super) struct ReaderLag {
    /// The reader has seen what was written up to this value of `bytes_written`. What it left of that
    /// are packets that are not complete.
    seen_bytes: u64,
    /// The value of `bytes_written` at which the oldest of them is overwritten, or what came later.
    loss_at_bytes: u64,
    /// Writers waited for those packets in vain, so they may be overwritten.
    left_is_given_up: bool,
    /// Nobody reads the buffer any more.
    reader_is_gone: bool,
    /// The value of `bytes_written` at which the chunks of writers are worth another look.
    next_scrape_at_bytes: u64,
    /// Counts the writers that wanted room and got none.
    refused: u64,
    /// The value of `bytes_read` when `loss_at_bytes` was brought up to date.
    noted_bytes_read: u64,
    /// The levels for `capacity_bytes`.
    levels: Levels,
    /// The capacity of the buffer at the last look.
    capacity_bytes: u64,
}

/// Amounts of bytes at which something happens.
#[derive(Clone, Copy, Debug)]
struct Levels {
    /// A commit wakes the reader when more than this is behind.
    wake_behind: u64,
    /// A commit leaves the lock and the processor to the reader when more than this is behind.
    yield_behind: u64,
    /// A writer that may wait does so when more than this is behind, or less than `wait_ahead` is
    /// ahead. The rest takes what other writers are in the middle of.
    wait_behind: u64,
    wait_ahead: u64,
    /// It goes on when no more than this is behind, so that it does not stop and go for every chunk.
    resume_behind: u64,
    /// Packets that are left are looked for in the chunks of their writers when less than this is
    /// ahead, and then once in `scrape_period` bytes.
    scrape_ahead: u64,
    scrape_period: u64,
}

/// What a commit does for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// There is no hurry.
    None,
    /// Much is behind: it wakes the reader.
    Wakes,
    /// The reader does not keep up: it leaves the lock and the processor to the reader as well.
    Yields,
}

impl Levels {
    fn of(buffer: &TraceBuffer) -> Self {
        let capacity_bytes = buffer.capacity_bytes();
        if capacity_bytes == buffer.size_bytes() {
            return Self {
                wake_behind: capacity_bytes / 4,
                yield_behind: capacity_bytes / 2,
                wait_behind: capacity_bytes / 4,
                wait_ahead: capacity_bytes / 4,
                resume_behind: capacity_bytes / 8,
                scrape_ahead: capacity_bytes / 2,
                scrape_period: 0,
            };
        }
        // The memory grows with what is behind, so the reader starts early. What a writer is in the
        // middle of keeps everything behind it in memory, so that is looked for early, too.
        Self {
            wake_behind: SEGMENT_BYTES / 4,
            yield_behind: capacity_bytes / 2,
            wait_behind: capacity_bytes / 4 * 3,
            wait_ahead: capacity_bytes / 8,
            resume_behind: capacity_bytes / 2,
            scrape_ahead: capacity_bytes - (2 * SEGMENT_BYTES).min(capacity_bytes / 2),
            scrape_period: SEGMENT_BYTES,
        }
    }
}

impl ReaderLag {
    pub(super) fn new(buffer: &TraceBuffer) -> Self {
        let capacity_bytes = buffer.capacity_bytes();
        Self {
            seen_bytes: 0,
            loss_at_bytes: capacity_bytes,
            left_is_given_up: false,
            reader_is_gone: false,
            next_scrape_at_bytes: 0,
            refused: 0,
            noted_bytes_read: 0,
            levels: Levels::of(buffer),
            capacity_bytes,
        }
    }

    /// `successor`, which is empty, takes the place of the buffer.
    pub(super) fn note_successor(&mut self, successor: &TraceBuffer) {
        *self = Self {
            reader_is_gone: self.reader_is_gone,
            refused: self.refused,
            ..Self::new(successor)
        };
    }

    /// Returns whether the reader has not looked at more than `limit_bytes`.
    #[inline]
    fn is_behind(&self, buffer: &TraceBuffer, limit_bytes: u64) -> bool {
        let came_bytes = buffer.stats().bytes_written - self.seen_bytes;
        came_bytes > limit_bytes && buffer.unread_bytes() > limit_bytes
    }

    /// Returns whether something is lost before `ahead_bytes` are written.
    fn loss_is_near(&self, buffer: &TraceBuffer, ahead_bytes: u64) -> bool {
        let bytes_written = buffer.stats().bytes_written;
        !self.left_is_given_up && bytes_written + ahead_bytes > self.loss_at_bytes
    }

    fn has_room(&self, buffer: &TraceBuffer, behind_bytes: u64) -> bool {
        let is_near = self.loss_is_near(buffer, self.levels.wait_ahead);
        self.reader_is_gone || !(self.is_behind(buffer, behind_bytes) || is_near)
    }

    /// Returns whether a writer that may wait need not do so.
    pub(super) fn has_room_at_once(&self, buffer: &TraceBuffer) -> bool {
        self.has_room(buffer, self.levels.wait_behind)
    }

    /// Returns whether a writer that waits goes on.
    pub(super) fn has_room_again(&self, buffer: &TraceBuffer) -> bool {
        self.has_room(buffer, self.levels.resume_behind)
    }

    /// Returns whether a writer that has waited for `timeout`, and got no room, may write
    /// nevertheless. If a packet that its writer does not complete is in the way, that one is given
    /// up; but not for a writer that only asks.
    pub(super) fn has_room_without(&mut self, buffer: &TraceBuffer, timeout: Duration) -> bool {
        if timeout.is_zero() {
            return false;
        }
        if !self.is_behind(buffer, self.levels.wait_behind) {
            self.left_is_given_up = true;
        }
        let has_room = self.has_room_at_once(buffer);
        self.refused += u64::from(!has_room);
        has_room
    }

    /// Counts the writers that wanted room and got none.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes up what a commit has changed. Returns what it does for the reader.
    #[inline]
    pub(super) fn note_commit(&mut self, buffer: &TraceBuffer) -> Urgency {
        self.note_capacity(buffer);
        if self.is_behind(buffer, self.levels.yield_behind) {
            Urgency::Yields
        } else if self.is_behind(buffer, self.levels.wake_behind) {
            Urgency::Wakes
        } else {
            Urgency::None
        }
    }

    /// The capacity becomes less where there is no memory for a ring to grow.
    #[inline]
    pub(super) fn note_capacity(&mut self, buffer: &TraceBuffer) {
        let capacity_bytes = buffer.capacity_bytes();
        if self.capacity_bytes != capacity_bytes {
            self.capacity_bytes = capacity_bytes;
            self.levels = Levels::of(buffer);
            let bytes = buffer.bytes_before_loss(buffer.mark());
            let bytes_written = buffer.stats().bytes_written;
            self.loss_at_bytes = bytes_written + bytes.unwrap_or(capacity_bytes);
        }
    }

    /// The reader is in the middle of a pass. If much is to be read that takes long, and writers need
    /// not wait for its end.
    pub(super) fn note_progress(&mut self, buffer: &TraceBuffer) {
        // Often enough, and seldom enough for a look at each chunk that was read.
        const PARTS: u64 = 16;
        let stats = buffer.stats();
        if stats.bytes_read - self.noted_bytes_read > buffer.capacity_bytes() / PARTS
            && let Some(bytes) = buffer.bytes_before_loss(buffer.mark())
        {
            self.noted_bytes_read = stats.bytes_read;
            self.loss_at_bytes = stats.bytes_written + bytes;
        }
    }

    /// The reader has seen all that was there at a moment.
    pub(super) fn note_pass(&mut self, buffer: &TraceBuffer, seen: Mark) {
        let bytes_written = buffer.stats().bytes_written;
        // It is less where another buffer took the place of the one that was there then.
        self.seen_bytes = seen.bytes_written.min(bytes_written);
        self.loss_at_bytes = match buffer.bytes_before_loss(seen) {
            Some(bytes) => bytes_written + bytes,
            None => self.seen_bytes + buffer.capacity_bytes(),
        };
        let was_given_up = std::mem::take(&mut self.left_is_given_up);
        self.left_is_given_up = was_given_up && self.loss_is_near(buffer, self.levels.wait_ahead);
    }

    /// Nobody reads the buffer any more, so nobody waits for that.
    pub(super) fn note_reader_is_gone(&mut self) {
        self.reader_is_gone = true;
    }

    /// Returns whether it is time to look into the chunks of writers, and sets the next time.
    pub(super) fn take_scrape(&mut self, buffer: &TraceBuffer) -> bool {
        let bytes_written = buffer.stats().bytes_written;
        if !self.loss_is_near(buffer, self.levels.scrape_ahead)
            || bytes_written < self.next_scrape_at_bytes
        {
            return false;
        }
        self.next_scrape_at_bytes = bytes_written + self.levels.scrape_period;
        true
    }
}
