//! Time by the counter, as a chain of short lines.
//!
//! ```text
//!  ns                      ____--'   line: from its base at the pace, for LINE_TICKS at most
//!              ____-----''|          anchor: the next line begins at a new reading
//!  ____-----'''           |
//!  base    LINE_TICKS     base       ticks
//! ```
//!
//! A line is replaced only when it has ended, and nobody uses it beyond its end. So time depends on
//! the ticks alone, whoever reads them and whenever: a thread that stood between any two instructions
//! changes nothing of what others see.
//!
//! One thread at a time anchors. The others do not wait for it: meanwhile they ask the system for the
//! time, and raise the floor to what they got, below which no line is read any more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use parking_lot::Mutex;

use super::pace::{Clocks, Pace, Reading};

/// Ticks after which a line ends: 1.4 ms at 3 GHz.
pub(super) const LINE_TICKS: u64 = 1 << 22;

/// Attempts to get a reading for a line. If the thread is interrupted in each, it asks the system for
/// the time, and the next event tries again.
pub(super) const ANCHOR_ATTEMPTS: usize = 3;

/// Further ahead of the trace clock than this, time steps back: the machine was moved, or its counter
/// set.
pub(super) const AHEAD_MAX_NS: u64 = 1_000_000;

/// The base of no line: as if it had ended long ago.
const NO_LINE: u64 = u64::MAX;

/// On a cache line of its own up to the pace: all threads read it, and hardly anybody writes it.
#[repr(align(64))]
pub(super) struct Counter {
    is_used: AtomicBool,
    /// The base of the line in ticks, [`NO_LINE`] while there is none or it changes. The other two
    /// belong to it. No two lines have the same.
    base_ticks: AtomicU64,
    base_ns: AtomicU64,
    multiplier: AtomicU64,
    /// The earliest time that may still be returned.
    floor_ns: AtomicU64,
    /// Locked by the thread that anchors. Threads that record only ever try to lock it. `None` until
    /// the counter is used for the first time.
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

    /// True while events take their time from the counter.
    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        // Acquire pairs with the release in `start_use`: the last line of an earlier use is gone.
        self.is_used.load(Ordering::Acquire)
    }

    /// Starts the use. `calibrate` makes the pace if there is none yet.
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
        // The first event anchors, after what threads have read off the trace clock before.
        // Relaxed: the release below publishes it.
        self.base_ticks.store(NO_LINE, Ordering::Relaxed);
        self.is_used.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends the use.
    pub(super) fn end_use(&self) {
        // Relaxed: nothing was written that others would need.
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

    /// Returns the line, or `None` while it changes.
    #[inline(always)]
    fn line(&self) -> Option<Line> {
        // Acquire pairs with the release in `publish`: base and pace are those of this line, or of a
        // later one. In the latter case the fence pairs with the one there, and the base is seen to
        // have changed.
        let base_ticks = self.base_ticks.load(Ordering::Acquire);
        let line = Line {
            base_ticks,
            base_ns: self.base_ns.load(Ordering::Relaxed),
            multiplier: self.multiplier.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (self.base_ticks.load(Ordering::Relaxed) == base_ticks).then_some(line)
    }

    #[inline(always)]
    fn raised_ns(&self, ns: u64) -> u64 {
        // Relaxed: whoever knows of a time that was returned for the floor sees that floor.
        ns.max(self.floor_ns.load(Ordering::Relaxed))
    }

    /// Begins a new line, unless another thread does or has.
    #[cold]
    #[inline(never)]
    fn anchor(&self, clocks: &impl Clocks) -> u64 {
        if let Some(mut pace) = self.pace.try_lock()
            && let Some(pace) = pace.as_mut()
        {
            self.begin_line(pace, clocks);
        }
        // In this order: what the line is at these ticks, it is now.
        let line = self.line().filter(|line| line.base_ticks != NO_LINE);
        let ticks = clocks.ticks_in_order();
        if let Some(ns) = line.and_then(|line| line.at(ticks)) {
            return self.raised_ns(ns);
        }
        // A line that ended may have ended ahead of the trace clock. `begin_line` has raised the
        // floor to that end before it takes the line away.
        let end_ns = line.map_or(0, Line::end_ns);
        let ns = clocks.trace_ns().max(end_ns);
        self.floor_ns.fetch_max(ns, Ordering::Relaxed).max(ns)
    }

    /// Replaces the line if it has ended and the thread is not interrupted. `pace` is locked.
    fn begin_line(&self, pace: &mut Pace, clocks: &impl Clocks) {
        // Only this thread changes it: there is a line, or `NO_LINE`.
        let line = self.line().filter(|line| line.base_ticks != NO_LINE);
        if let Some(line) = line
            && line.at(clocks.ticks_in_order()).is_some()
        {
            return;
        }
        // Before the reading: what other threads ask the system for later is not before it.
        let floor_ns = self.floor_ns.load(Ordering::Relaxed);
        let last_ns = floor_ns.max(line.map_or(0, Line::end_ns));
        let Some(reading) = Reading::narrowest(clocks, ANCHOR_ATTEMPTS) else {
            return;
        };
        pace.follow(reading);
        // By the second reading of the counter: not ahead of the trace clock.
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

    fn publish(&self, line: Line) {
        // Relaxed, since the fence orders the first two: whoever sees base or pace of the new line
        // also sees that the old one is gone. The release pairs with the acquire in `line`.
        self.base_ticks.store(NO_LINE, Ordering::Relaxed);
        fence(Ordering::Release);
        self.base_ns.store(line.base_ns, Ordering::Relaxed);
        self.multiplier.store(line.multiplier, Ordering::Relaxed);
        self.base_ticks.store(line.base_ticks, Ordering::Release);
    }
}

impl Line {
    /// Returns `None` after the end, and before the base.
    #[inline(always)]
    fn at(self, ticks: u64) -> Option<u64> {
        let passed_ticks = ticks.wrapping_sub(self.base_ticks);
        (passed_ticks <= LINE_TICKS).then(|| self.after(passed_ticks))
    }

    fn end_ns(self) -> u64 {
        self.after(LINE_TICKS)
    }

    #[inline(always)]
    fn after(self, passed_ticks: u64) -> u64 {
        // At most 2^22 ticks times less than 2^41: the product fits.
        self.base_ns + ((passed_ticks * self.multiplier) >> 32)
    }

    /// Returns the line that begins so far ahead of this one and meets it at its end, or comes as
    /// close as half the pace allows.
    fn ahead_by(self, ahead_ns: u64) -> Self {
        let slower = (ahead_ns << 32) / LINE_TICKS;
        Self {
            base_ns: self.base_ns + ahead_ns,
            multiplier: self.multiplier - slower.min(self.multiplier / 2),
            ..self
        }
    }
}
