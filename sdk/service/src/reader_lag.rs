//! Measures how far the reader of a buffer is behind its writers. This decides when to wake the
//! reader, when writers wait for it, and when to scrape chunks.
//!
//! Bytes *behind* are bytes that the reader has not looked at. Bytes *ahead* are bytes that can be
//! written before an unread packet is overwritten.

use std::time::Duration;

use super::trace_buffer::{Mark, SEGMENT_BYTES, TraceBuffer};

/// The lag of the reader of one buffer. Each method must be given that buffer.
pub(super) struct ReaderLag {
    /// The value of `bytes_written` up to which the reader has seen the buffer. Of the packets
    /// written until then, only incomplete ones are unread.
    seen_bytes: u64,
    /// The value of `bytes_written` at which the oldest unread packet is overwritten.
    loss_at_bytes: u64,
    /// True if writers waited in vain for the incomplete packets that the reader has left in the
    /// buffer. These packets may then be overwritten.
    left_is_given_up: bool,
    /// True if the buffer has no reader any more.
    reader_is_gone: bool,
    /// The value of `bytes_written` at which chunks of writers may be scraped again.
    next_scrape_at_bytes: u64,
    /// How often a writer needed room and got none.
    refused: u64,
    /// The value of `bytes_read` when `loss_at_bytes` was brought up to date.
    noted_bytes_read: u64,
    /// The thresholds for `capacity_bytes`.
    thresholds: Thresholds,
    /// The capacity of the buffer at the last check.
    capacity_bytes: u64,
}

/// Thresholds in bytes.
#[derive(Clone, Copy, Debug)]
struct Thresholds {
    /// A commit wakes the reader when more than this is behind.
    wake_behind: u64,
    /// A commit leaves the lock to the reader when more than this is behind, and then the thread that
    /// commits leaves the processor to it.
    yield_behind: u64,
    /// A writer that may wait does so when more than this is behind, or less than `wait_ahead` is
    /// ahead. The rest of the buffer has room for what other writers are just writing.
    wait_behind: u64,
    wait_ahead: u64,
    /// A waiting writer goes on when no more than this is behind. This is less than `wait_behind`,
    /// so that the writer does not stop again at the next chunk.
    resume_behind: u64,
    /// Chunks of writers are scraped for the rest of incomplete packets when less than this is
    /// ahead, and then once every `scrape_period` bytes.
    scrape_ahead: u64,
    scrape_period: u64,
}

/// The work that the thread that commits does for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Nothing.
    None,
    /// Wakes the reader, because much is behind.
    Wakes,
    /// Wakes the reader, and leaves the lock and the processor to it, because it does not keep up.
    Yields,
}

impl Thresholds {
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
        // The memory grows with the bytes that are behind, so the reader is woken early. An
        // incomplete packet keeps everything behind it in memory, so scraping starts early, too.
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
            thresholds: Thresholds::of(buffer),
            capacity_bytes,
        }
    }

    /// Notes that the empty buffer `successor` replaces the buffer.
    pub(super) fn note_successor(&mut self, successor: &TraceBuffer) {
        *self = Self {
            reader_is_gone: self.reader_is_gone,
            refused: self.refused,
            ..Self::new(successor)
        };
    }

    /// Returns true if there are more than `limit_bytes` that the reader has not looked at.
    #[inline]
    fn is_behind(&self, buffer: &TraceBuffer, limit_bytes: u64) -> bool {
        let came_bytes = buffer.stats().bytes_written - self.seen_bytes;
        came_bytes > limit_bytes && buffer.unread_bytes() > limit_bytes
    }

    /// Returns true if an unread packet is overwritten before `ahead_bytes` more are written.
    fn loss_is_near(&self, buffer: &TraceBuffer, ahead_bytes: u64) -> bool {
        let bytes_written = buffer.stats().bytes_written;
        !self.left_is_given_up && bytes_written + ahead_bytes > self.loss_at_bytes
    }

    fn has_room(&self, buffer: &TraceBuffer, behind_bytes: u64) -> bool {
        let is_near = self.loss_is_near(buffer, self.thresholds.wait_ahead);
        self.reader_is_gone || !(self.is_behind(buffer, behind_bytes) || is_near)
    }

    /// Returns true if a writer may write without waiting.
    pub(super) fn has_room_at_once(&self, buffer: &TraceBuffer) -> bool {
        self.has_room(buffer, self.thresholds.wait_behind)
    }

    /// Returns true if a writer that waits may go on.
    pub(super) fn has_room_again(&self, buffer: &TraceBuffer) -> bool {
        self.has_room(buffer, self.thresholds.resume_behind)
    }

    /// Returns true if a writer that has waited for `timeout`, and got no room, may write
    /// nevertheless. It may if only an incomplete packet was in its way. That packet is then given
    /// up. A writer with a `timeout` of zero has only asked: the result is false, and nothing is
    /// given up.
    pub(super) fn has_room_without(&mut self, buffer: &TraceBuffer, timeout: Duration) -> bool {
        if timeout.is_zero() {
            return false;
        }
        if !self.is_behind(buffer, self.thresholds.wait_behind) {
            self.left_is_given_up = true;
        }
        let has_room = self.has_room_at_once(buffer);
        self.refused += u64::from(!has_room);
        has_room
    }

    /// Returns true if so much is behind that writers which may wait do so. Unlike
    /// [`has_room_at_once`](Self::has_room_at_once), this does not count incomplete packets: whoever
    /// commits may be about to commit the rest of them.
    pub(super) fn does_not_keep_up(&self, buffer: &TraceBuffer) -> bool {
        !self.reader_is_gone && self.is_behind(buffer, self.thresholds.wait_behind)
    }

    /// Returns how often a writer needed room and got none.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Updates the lag after a commit. Returns what the committing thread should do for the reader.
    #[inline]
    pub(super) fn note_commit(&mut self, buffer: &TraceBuffer) -> Urgency {
        self.note_capacity(buffer);
        if self.is_behind(buffer, self.thresholds.yield_behind) {
            Urgency::Yields
        } else if self.is_behind(buffer, self.thresholds.wake_behind) {
            Urgency::Wakes
        } else {
            Urgency::None
        }
    }

    /// Updates the thresholds if the capacity has changed. It shrinks when a growing ring gets no
    /// more memory.
    #[inline]
    pub(super) fn note_capacity(&mut self, buffer: &TraceBuffer) {
        let capacity_bytes = buffer.capacity_bytes();
        if self.capacity_bytes != capacity_bytes {
            self.capacity_bytes = capacity_bytes;
            self.thresholds = Thresholds::of(buffer);
            let bytes = buffer.bytes_before_loss(buffer.mark());
            let bytes_written = buffer.stats().bytes_written;
            self.loss_at_bytes = bytes_written + bytes.unwrap_or(capacity_bytes);
        }
    }

    /// Updates the lag in the middle of a pass of the reader. A long pass makes room before its
    /// end, so writers need not wait for the end.
    pub(super) fn note_progress(&mut self, buffer: &TraceBuffer) {
        // The update looks at each chunk that was read, so it must not happen too often.
        const PARTS: u64 = 16;
        let stats = buffer.stats();
        if stats.bytes_read - self.noted_bytes_read > buffer.capacity_bytes() / PARTS
            && let Some(bytes) = buffer.bytes_before_loss(buffer.mark())
        {
            self.noted_bytes_read = stats.bytes_read;
            self.loss_at_bytes = stats.bytes_written + bytes;
        }
    }

    /// Notes that the reader has seen everything that was in the buffer at the moment `seen`.
    pub(super) fn note_pass(&mut self, buffer: &TraceBuffer, seen: Mark) {
        let bytes_written = buffer.stats().bytes_written;
        // `bytes_written` starts anew when a clone takes the buffer, so it may be less than at
        // `seen`.
        self.seen_bytes = seen.bytes_written.min(bytes_written);
        self.loss_at_bytes = match buffer.bytes_before_loss(seen) {
            Some(bytes) => bytes_written + bytes,
            None => self.seen_bytes + buffer.capacity_bytes(),
        };
        let was_given_up = std::mem::take(&mut self.left_is_given_up);
        self.left_is_given_up =
            was_given_up && self.loss_is_near(buffer, self.thresholds.wait_ahead);
    }

    /// Notes that the buffer has no reader any more, so that no writer waits for it.
    pub(super) fn note_reader_is_gone(&mut self) {
        self.reader_is_gone = true;
    }

    /// Returns true if it is time to scrape chunks of writers, and sets the next time.
    pub(super) fn take_scrape(&mut self, buffer: &TraceBuffer) -> bool {
        let bytes_written = buffer.stats().bytes_written;
        if !self.loss_is_near(buffer, self.thresholds.scrape_ahead)
            || bytes_written < self.next_scrape_at_bytes
        {
            return false;
        }
        self.next_scrape_at_bytes = bytes_written + self.thresholds.scrape_period;
        true
    }
}
