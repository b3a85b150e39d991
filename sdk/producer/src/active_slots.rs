//! Which slots record something, as masks that are read without a lock.
//!
//! An instance of a data source in a session takes one of a few *slots*, the same one for all data
//! sources of a session. Each data source carries a mask of the slots that record it, so that a
//! trace point decides with one relaxed load. What a thread keeps per data source and slot is found
//! by a *generation*, which counts every start and stop of an instance: a thread compares one number to
//! learn that sessions began or ended. A new session sets bits; trace points walk no list of sessions.
//!
//! All captures of tests share one more slot: its bit says that a thread may be captured, and the
//! thread knows by which one (`thread_writers`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Sessions that can run at once; one that lists a data source several times counts so often.
pub(crate) const SLOTS: usize = 16;

/// The slot of all captures; those of sessions come before it.
pub const CAPTURE_SLOT: usize = SLOTS;

/// Room for the slots of one data source in what a thread keeps.
pub(super) const SLOTS_STRIDE: usize = 32;

/// Bit of an active mask that says: nobody has asked the registry yet, or sessions are still starting the
/// data source. A thread that finds the bit waits until they have, so what it traces reaches all of them;
/// after `START_WAIT_LIMIT` it goes on without. `sdk/tests/data_sources/threads.rs` checks this.
pub(super) const UNREGISTERED: u32 = 1 << 31;

/// Counts starts and stops of instances.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The generation of a forked child, in which no data source records.
const QUIET: u64 = u64::MAX;

/// The slots that record something, as a bit mask that is read without a lock.
#[derive(Debug)]
pub struct ActiveSlots(AtomicU32);

impl ActiveSlots {
    /// The mask of what is not registered yet.
    #[must_use]
    pub const fn unregistered() -> Self {
        Self(AtomicU32::new(UNREGISTERED))
    }

    /// The mask; `register` is called first if that never happened.
    #[inline(always)]
    pub fn load(&self, register: impl FnOnce()) -> u32 {
        // Relaxed: whoever goes on because a bit is set synchronizes in `generation`.
        let mask = self.0.load(Ordering::Relaxed);
        // Zero first: most trace points are off, and this is all that they cost.
        if mask == 0 || mask & UNREGISTERED == 0 {
            return mask;
        }
        register();
        self.0.load(Ordering::Relaxed) & !UNREGISTERED
    }

    /// Returns the slots among `slots` that record something; none before registration.
    #[inline(always)]
    pub(super) fn load_of(&self, slots: u32) -> u32 {
        debug_assert_eq!(slots & UNREGISTERED, 0, "it is the bit of no slot");
        // Relaxed: as in `load`.
        self.0.load(Ordering::Relaxed) & slots
    }

    /// Called with the registry locked, or in a forked child.
    pub fn store(&self, mask: u32) {
        // Release pairs with the fence in `generation`: a thread that sees this mask also sees the
        // generation that came before it.
        self.0.store(mask, Ordering::Release);
    }

    /// Called with the registry locked.
    pub fn is_registered(&self) -> bool {
        // Relaxed: it is stored under that lock.
        self.0.load(Ordering::Relaxed) & UNREGISTERED == 0
    }
}

/// The generation that masks read before belong to, or a later one.
#[inline(always)]
pub fn generation() -> u64 {
    // Acquire pairs with the release in `ActiveSlots::store`.
    std::sync::atomic::fence(Ordering::Acquire);
    GENERATION.load(Ordering::Relaxed)
}

/// Has no instance record from now on. Called in a forked child.
pub(super) fn go_quiet() {
    // Relaxed: the child has one thread.
    GENERATION.store(QUIET, Ordering::Relaxed);
}

/// Called with the registry locked.
pub(super) fn advance_generation() -> u64 {
    // Relaxed: the masks that are stored afterwards, with release, publish it.
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1
}
