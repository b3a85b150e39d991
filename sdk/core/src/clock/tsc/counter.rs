//! Converts ticks of the counter to nanoseconds by a chain of short lines.
//!
//! ```text
//!  ns                      ____--'   line: starts at its base, lasts LINE_TICKS at most
//!              ____-----''|          anchor: the next line starts at a new reading
//!  ____-----'''           |
//!  base    LINE_TICKS     base       ticks
//! ```
//!
//! A line is replaced only after it has ended, and no thread uses a line beyond its end. So each
//! value of the counter means one time, no matter which thread converts it and when. If a thread is
//! interrupted between any two instructions, the others still get correct times.
//!
//! One thread at a time *anchors*: it reads both clocks and replaces the line. The other threads do
//! not wait for it. Meanwhile they use the system's clock, and raise the *floor* to the time that
//! they got. No conversion returns a time below the floor any more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use parking_lot::Mutex;

use super::pace::{Clocks, Pace, Reading};

/// The length of a line in ticks: 1.4 ms at 3 GHz.
pub(super) const LINE_TICKS: u64 = 1 << 22;

/// The number of attempts to get a reading for a line. If the thread is interrupted in each of
/// them, it uses the system's clock, and the next event tries again.
pub(super) const ANCHOR_ATTEMPTS: usize = 3;

/// The largest time by which a line may be ahead of the trace clock. If a line is ahead by more,
/// the machine was moved or its counter was set, and time steps back.
pub(super) const AHEAD_MAX_NS: u64 = 1_000_000;

/// The value of `base_ticks` while there is no line. Any value of the counter then counts as one
/// after the end of the line.
const NO_LINE: u64 = u64::MAX;

/// The state of the conversion. All fields before `pace` share one cache line, which all threads
/// read and which is rarely written.
#[repr(align(64))]
pub(super) struct Counter {
    is_used: AtomicBool,
    /// The line's base in ticks, or [`NO_LINE`] while there is no line or the line changes. The
    /// value is different for each line. So a thread that reads the same value twice knows that the
    /// `base_ns` and `multiplier` that it read in between belong to this line.
    base_ticks: AtomicU64,
    /// The line's base on the trace clock.
    base_ns: AtomicU64,
    /// The line's pace: 2^32 times the nanoseconds per tick.
    multiplier: AtomicU64,
    /// The earliest time that a conversion may still return.
    floor_ns: AtomicU64,
    /// The pace. The thread that anchors holds the lock. Threads that record events never wait for
    /// the lock: they only use `try_lock`. `None` until the counter is used for the first time.
    pace: Mutex<Option<Pace>>,
}

#[derive(Clone, Copy)]
struct Line {
    base_ticks: u64,
    base_ns: u64,
    multiplier: u64,
}

impl Counter {
    pub(super) const fn new() -> Self {
        Self {
            is_used: AtomicBool::new(false),
            base_ticks: AtomicU64::new(NO_LINE),
            base_ns: AtomicU64::new(0),
            multiplier: AtomicU64::new(0),
            floor_ns: AtomicU64::new(0),
            pace: Mutex::new(None),
        }
    }

    /// Returns whether events get their time from the counter.
    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        // Acquire pairs with the release in `start_use`: a thread that sees true no longer sees the
        // last line of an earlier use.
        self.is_used.load(Ordering::Acquire)
    }

    /// Starts the use of the counter. Calls `calibrate` if the pace was never measured.
    pub(super) fn start_use<E>(
        &self,
        calibrate: impl FnOnce() -> Result<Pace, E>,
    ) -> Result<(), E> {
        let mut pace = self.pace.lock();
        if self.is_used() {
            return Ok(());
        }
        if pace.is_none() {
            *pace = Some(calibrate()?);
        }
        // Removes the line of an earlier use, so that the first event reads both clocks and begins a
        // new line. So the time of that event is not before any time that a thread has read from
        // the trace clock so far. Relaxed: the release below publishes the store.
        self.base_ticks.store(NO_LINE, Ordering::Relaxed);
        self.is_used.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends the use of the counter.
    pub(super) fn end_use(&self) {
        // Relaxed: this thread has written nothing that others need to see.
        self.is_used.store(false, Ordering::Relaxed);
    }

    /// Returns the time on the trace clock.
    #[inline(always)]
    pub(super) fn now_ns(&self, clocks: &impl Clocks) -> u64 {
        let ticks = clocks.ticks();
        let line = self.line().and_then(|line| line.at(ticks));
        match line {
            Some(ns) => self.raised_ns(ns),
            None => self.anchor(clocks),
        }
    }

    /// Returns the line, or `None` if it changed meanwhile. The base of the returned line may be
    /// [`NO_LINE`].
    #[inline(always)]
    fn line(&self) -> Option<Line> {
        // Acquire pairs with the release in `publish`: `base_ns` and `multiplier` are those of this
        // line, or of a later one. If they are of a later one, the fence below pairs with the fence
        // in `publish`, and the second load sees that `base_ticks` has changed.
        let base_ticks = self.base_ticks.load(Ordering::Acquire);
        let line = Line {
            base_ticks,
            base_ns: self.base_ns.load(Ordering::Relaxed),
            multiplier: self.multiplier.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (self.base_ticks.load(Ordering::Relaxed) == base_ticks).then_some(line)
    }

    /// Returns the time, raised to the floor if it is below.
    #[inline(always)]
    fn raised_ns(&self, ns: u64) -> u64 {
        // Relaxed: if this thread knows, by any synchronization, of an event whose time came from
        // the floor, it also sees that floor.
        ns.max(self.floor_ns.load(Ordering::Relaxed))
    }

    /// Begins a new line, unless another thread does so now or has done so. Returns the time.
    #[cold]
    #[inline(never)]
    fn anchor(&self, clocks: &impl Clocks) -> u64 {
        if let Some(mut pace) = self.pace.try_lock()
            && let Some(pace) = pace.as_mut()
        {
            self.begin_line(pace, clocks);
        }
        // Load the line before reading the ticks: then the line's time at these ticks is the time
        // now.
        let line = self.line().filter(|line| line.base_ticks != NO_LINE);
        let ticks = clocks.ticks_in_order();
        if let Some(ns) = line.and_then(|line| line.at(ticks)) {
            return self.raised_ns(ns);
        }
        // The line has ended, perhaps ahead of the trace clock, so the time must not be before the
        // line's end. If the line was replaced meanwhile, `begin_line` had already raised the floor
        // to the end of the replaced line.
        let end_ns = line.map_or(0, Line::end_ns);
        let ns = clocks.trace_ns().max(end_ns);
        self.floor_ns.fetch_max(ns, Ordering::Relaxed).max(ns)
    }

    /// Replaces the line if it has ended, unless the thread is interrupted. The caller holds the
    /// lock of `pace`.
    fn begin_line(&self, pace: &mut Pace, clocks: &impl Clocks) {
        // This thread holds the lock, so the line cannot change while it is read: `None` means that
        // there is no line.
        let line = self.line().filter(|line| line.base_ticks != NO_LINE);
        if let Some(line) = line
            && line.at(clocks.ticks_in_order()).is_some()
        {
            return;
        }
        // Load the floor before both clocks are read. Another thread may raise the floor at any
        // moment, to the time of that moment. A floor from after the reading would make the new
        // line begin ahead of the trace clock.
        let floor_ns = self.floor_ns.load(Ordering::Relaxed);
        let last_ns = floor_ns.max(line.map_or(0, Line::end_ns));
        let Some(reading) = Reading::narrowest(clocks, ANCHOR_ATTEMPTS) else {
            return;
        };
        pace.follow(reading);
        // Begin at the second value of the counter, so that the line is not ahead of the trace
        // clock.
        let line = Line {
            base_ticks: reading.ticks_after,
            base_ns: reading.trace_ns,
            multiplier: pace.multiplier(),
        };
        let ahead_ns = last_ns.saturating_sub(reading.trace_ns);
        if ahead_ns > AHEAD_MAX_NS {
            self.floor_ns.store(reading.trace_ns, Ordering::Relaxed);
            self.publish(line);
        } else {
            self.floor_ns.fetch_max(last_ns, Ordering::Relaxed);
            self.publish(line.ahead_by(ahead_ns));
        }
    }

    /// Replaces the line for all threads.
    fn publish(&self, line: Line) {
        // The first three stores are relaxed, since the fence orders them: a thread that sees
        // `base_ns` or `multiplier` of the new line also sees that the old base is gone. The fence
        // pairs with the fence in `line`, and the release at the end with the acquire in `line`.
        self.base_ticks.store(NO_LINE, Ordering::Relaxed);
        fence(Ordering::Release);
        self.base_ns.store(line.base_ns, Ordering::Relaxed);
        self.multiplier.store(line.multiplier, Ordering::Relaxed);
        self.base_ticks.store(line.base_ticks, Ordering::Release);
    }
}

impl Line {
    /// Returns the time at `ticks`, or `None` if they are before the base or after the end.
    #[inline(always)]
    fn at(self, ticks: u64) -> Option<u64> {
        let passed_ticks = ticks.wrapping_sub(self.base_ticks);
        (passed_ticks <= LINE_TICKS).then(|| self.after(passed_ticks))
    }

    /// Returns the time at the end of the line.
    fn end_ns(self) -> u64 {
        self.after(LINE_TICKS)
    }

    /// Returns the time `passed_ticks` after the base.
    #[inline(always)]
    fn after(self, passed_ticks: u64) -> u64 {
        // At most 2^22 ticks times less than 2^41: the product fits into 64 bits.
        self.base_ns + ((passed_ticks * self.multiplier) >> 32)
    }

    /// Returns a slower line that begins `ahead_ns` ahead of this line and meets this line at its
    /// end. The pace of the slower line is at least half of this line's pace, even if the two lines
    /// then do not meet.
    fn ahead_by(self, ahead_ns: u64) -> Self {
        let slower = (ahead_ns << 32) / LINE_TICKS;
        Self {
            base_ns: self.base_ns + ahead_ns,
            multiplier: self.multiplier - slower.min(self.multiplier / 2),
            ..self
        }
    }
}
