//! The masks of slots that record something; trace points read them without a lock.
//!
//! Each session takes one of a few *slots*, the same for all its data sources. Each data source has
//! a mask of the slots that record it, so a trace point decides with one relaxed load. No trace
//! point walks a list of sessions.
//!
//! A *generation* counts every start and stop of an instance. Each thread remembers the generation
//! of its writers; by comparing it, the thread learns that sessions have started or ended.
//!
//! All captures of tests share one more slot. Its bit states that the thread may be captured; the
//! thread itself knows its capture (`thread_writers`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The maximum number of sessions that run at once, those of daemons included. A session that lists
/// a data source several times takes one slot for each.
pub(crate) const SLOTS: usize = 30;

/// The slot of all captures, after the slots of sessions.
pub const CAPTURE_SLOT: usize = SLOTS;

/// The number of entries for each data source in a thread's table of writers: one per slot, rounded
/// up.
pub(super) const SLOTS_STRIDE: usize = 32;

/// The bit of a mask that is set until the data source or call site is registered, and while
/// sessions are still starting the data source. A thread that finds the bit set waits until the
/// sessions have started the data source, so all of them record what the thread traces. It waits
/// for at most `START_WAIT_LIMIT`. `sdk/tests/data_sources/threads.rs` checks this.
pub(super) const UNREGISTERED: u32 = 1 << 31;

const _: () = assert!(CAPTURE_SLOT < SLOTS_STRIDE && 1 << CAPTURE_SLOT < UNREGISTERED);

/// The number of starts and stops of instances.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The generation of a forked child, in which no data source records.
const QUIET: u64 = u64::MAX;

/// A mask of the slots that record something, read without a lock.
#[derive(Debug)]
pub struct ActiveSlots(AtomicU32);

impl ActiveSlots {
    /// Creates a mask that is not registered yet.
    #[must_use]
    pub const fn unregistered() -> Self {
        Self(AtomicU32::new(UNREGISTERED))
    }

    /// Returns the mask. If it is not registered yet, calls `register` first.
    #[inline(always)]
    pub fn load(&self, register: impl FnOnce()) -> u32 {
        // Relaxed: a thread that goes on because a bit is set synchronizes in `generation`.
        let mask = self.0.load(Ordering::Relaxed);
        // Checks for zero first: most trace points are off, and this check is all that they cost.
        if mask == 0 || mask & UNREGISTERED == 0 {
            return mask;
        }
        register();
        self.0.load(Ordering::Relaxed) & !UNREGISTERED
    }

    /// Returns the slots among `slots` that record something; none before registration.
    #[inline(always)]
    pub(super) fn load_of(&self, slots: u32) -> u32 {
        debug_assert_eq!(
            slots & UNREGISTERED,
            0,
            "the mask contains UNREGISTERED, which is not a slot"
        );
        // Relaxed: as in `load`.
        self.0.load(Ordering::Relaxed) & slots
    }

    /// Stores the mask. Called with the registry locked, or in a forked child.
    pub fn store(&self, mask: u32) {
        // Release pairs with the fence in `generation`: a thread that sees this mask also sees the
        // generation that was stored before.
        self.0.store(mask, Ordering::Release);
    }

    /// Returns true if the mask is registered. Called with the registry locked.
    pub fn is_registered(&self) -> bool {
        // Relaxed: the mask is stored under the same lock.
        self.0.load(Ordering::Relaxed) & UNREGISTERED == 0
    }
}

/// Returns a generation that is at least as new as all masks that the thread has read before.
#[inline(always)]
pub fn generation() -> u64 {
    // Acquire pairs with the release in `ActiveSlots::store`.
    std::sync::atomic::fence(Ordering::Acquire);
    GENERATION.load(Ordering::Relaxed)
}

/// Stops all recording in a forked child: no instance has this generation.
pub(super) fn go_quiet() {
    // Relaxed: the child has one thread.
    GENERATION.store(QUIET, Ordering::Relaxed);
}

/// Advances the generation and returns it. Called with the registry locked.
pub(super) fn advance_generation() -> u64 {
    // Relaxed: the masks are stored later, with release, and publish it.
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1
}
