//! The sessions that have seen the begin of a slice; only these get its end.
//!
//! A slice that a guard began ends in every session that saw its begin and still records, even if
//! the category was switched off in between. No other session gets the end.
//! `tests/judge/tests/categories.rs` and `tests/judge/tests/futures/` check this.
//!
//! Perfetto's own SDK writes an end into all sessions that run at the time, and readers pair ends
//! with begins. Here a guard remembers the sessions that saw its begin. So each end has its begin,
//! even if the guard ends on another thread, during a later session or in a test's capture.

use std::num::{NonZeroU32, NonZeroU64};

use crate::data_source::TRACK_EVENT;
use crate::instance::EventThread;
use tracezero_producer as producer;
use tracezero_producer::Realm;

/// The sessions that have seen the begin of a slice.
#[derive(Clone, Copy, Debug)]
pub struct BeginSessions {
    /// The lower half: the slots of the sessions. The upper half: the realm of the capture that the
    /// thread wrote to, if a capture may have seen the begin. With two words in all, a guard is
    /// passed in registers.
    slots_and_realm: NonZeroU64,
    /// The generation at the begin. Instances with a later generation belong to other sessions,
    /// even if they are in the same slots.
    generation: u64,
}

impl BeginSessions {
    /// Returns the sessions that have these slots now; `None` if there are no slots. The caller
    /// then writes the begin, with [`begin`](Self::begin).
    #[inline(always)]
    #[must_use]
    pub fn in_slots(slots: u32) -> Option<Self> {
        Some(Self::in_some_slots(NonZeroU32::new(slots)?))
    }

    /// Like [`in_slots`](Self::in_slots), for at least one slot.
    #[inline(always)]
    pub(crate) fn in_some_slots(slots: NonZeroU32) -> Self {
        Self::new(slots, producer::generation())
    }

    #[inline(always)]
    fn new(slots: NonZeroU32, generation: u64) -> Self {
        let realm = producer::captured_in(slots.get()).capture_number();
        Self {
            slots_and_realm: NonZeroU64::from(slots) | u64::from(realm) << u32::BITS,
            generation,
        }
    }

    /// Returns two words, for memory that threads share. The first word is never 0.
    #[inline(always)]
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        [self.slots_and_realm.get(), self.generation]
    }

    /// Restores the value from [`to_words`](Self::to_words); `None` if the first word is 0.
    #[inline(always)]
    #[must_use]
    pub fn from_words([slots_and_realm, generation]: [u64; 2]) -> Option<Self> {
        Some(Self {
            slots_and_realm: NonZeroU64::new(slots_and_realm)?,
            generation,
        })
    }

    /// Returns the slots of these sessions, as a bit mask.
    #[inline(always)]
    #[must_use]
    pub const fn slots(self) -> u32 {
        self.slots_and_realm.get() as u32
    }

    /// Returns the realm of the capture; [`Realm::Process`] if there is none.
    #[inline(always)]
    const fn capture(self) -> Realm {
        Realm::of_capture_number((self.slots_and_realm.get() >> u32::BITS) as u32)
    }

    /// Calls `write` once per session, to begin the slice. A session that has taken one of the
    /// slots since `in_slots` is skipped; it sees neither begin nor end.
    /// `tests/judge/tests/odd_places.rs` checks this.
    #[inline]
    pub fn begin(self, write: impl FnMut(&mut EventThread)) {
        Self::write(self.generation, self.slots(), write);
    }

    /// Returns the one session of `instance`.
    #[must_use]
    pub fn in_instance(instance: &EventThread) -> Option<Self> {
        let slot = NonZeroU32::new(1 << instance.slot)?;
        Some(Self::new(slot, instance.generation))
    }

    /// Like [`in_instance`](Self::in_instance); `None` if its buffer is not a ring, which overwrites
    /// old begins.
    #[must_use]
    pub fn in_ring_of(instance: &EventThread) -> Option<Self> {
        instance
            .local
            .is_in_ring()
            .then(|| Self::in_instance(instance))?
    }

    /// Returns the sessions that are in `one`, in `other` or in both. All these sessions must still
    /// be recording: if a session had ended, its slot together with the newer generation could mean
    /// the next session in that slot. If both values name a capture, the result names that of
    /// `other`.
    #[must_use]
    pub fn union(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => {
                let has_realm = other.slots_and_realm.get() >> u32::BITS != 0;
                let of_one = if has_realm {
                    u64::from(one.slots())
                } else {
                    one.slots_and_realm.get()
                };
                Some(Self {
                    slots_and_realm: other.slots_and_realm | of_one,
                    generation: one.generation.max(other.generation),
                })
            }
            _ => one.or(other),
        }
    }

    /// Removes the session of `instance`; `None` if no other session is left.
    pub(super) fn without(self, instance: &EventThread) -> Option<Self> {
        let is_last = self.slots() == 1 << instance.slot;
        let slots_and_realm = self.slots_and_realm.get() & !(1 << instance.slot);
        (!is_last).then_some(Self {
            slots_and_realm: NonZeroU64::new(slots_and_realm)?,
            ..self
        })
    }

    /// Returns the sessions among these that still record; `None` if there are none.
    #[must_use]
    pub fn still_recording(self) -> Option<Self> {
        let mut still = None;
        self.each(self.active_slots(), |instance| {
            still = Self::union(still, Self::in_instance(instance));
        });
        still
    }

    /// Returns true if the session of `instance` is one of these sessions.
    #[inline]
    #[must_use]
    pub fn includes(self, instance: &EventThread) -> bool {
        self.includes_session(instance.slot, instance.generation)
    }

    /// Like [`includes`](Self::includes), for the slot and the generation of an instance.
    #[inline]
    pub(super) fn includes_session(self, slot: usize, generation: u64) -> bool {
        if producer::CAPTURES && producer::is_in_other_capture(1 << slot, self.capture()) {
            return false;
        }
        self.slots() & 1 << slot != 0 && generation <= self.generation
    }

    /// Returns true if the slice must not begin in the session of `instance`: because it has begun
    /// there, or because `instance` belongs to a capture while another capture that has seen the
    /// begin still runs. A slice is in at most one capture.
    #[must_use]
    pub fn is_known_to(self, instance: &EventThread) -> bool {
        if producer::CAPTURES
            && producer::is_in_other_capture(1 << instance.slot, self.capture())
            && producer::is_capture(self.capture())
        {
            return true;
        }
        self.includes(instance)
    }

    /// Returns true if a capture may have recorded the begin of the slice.
    #[inline(always)]
    #[must_use]
    pub fn is_captured(self) -> bool {
        producer::CAPTURES && self.capture() != Realm::Process
    }

    /// Returns true if a capture has seen this begin, and another capture, or none, had seen the
    /// `earlier` begin. Returns false while that other capture still runs.
    #[inline(always)]
    #[must_use]
    pub fn is_new_to_capture(self, earlier: Self) -> bool {
        self.is_captured()
            && self.capture() != earlier.capture()
            && !producer::is_capture(earlier.capture())
    }

    /// Returns the slots in which some of these sessions may still record.
    #[inline(always)]
    pub fn active_slots(self) -> u32 {
        TRACK_EVENT.active_of(self.slots())
    }

    /// Calls `write` once for each of these sessions that still records in `active_slots`, as
    /// [`active_slots`](Self::active_slots) returns them.
    #[inline(always)]
    pub fn each(self, active_slots: u32, write: impl FnMut(&mut EventThread)) {
        Self::each_of_words(self.to_words(), active_slots, write);
    }

    /// Like [`each`](Self::each), for the words of [`to_words`](Self::to_words).
    #[inline(always)]
    pub(super) fn each_of_words(
        words: [u64; 2],
        active_slots: u32,
        write: impl FnMut(&mut EventThread),
    ) {
        let [slots_and_realm, generation] = words;
        if producer::CAPTURES {
            let capture = Realm::of_capture_number((slots_and_realm >> u32::BITS) as u32);
            if producer::is_in_other_capture(active_slots, capture) {
                return Self::each_in_capture(capture, generation, active_slots, write);
            }
        }
        Self::write(generation, active_slots, write);
    }

    /// Calls `write` in the original capture, if this thread now writes to another capture or to
    /// none.
    #[cold]
    #[inline(never)]
    fn each_in_capture(
        capture: Realm,
        generation: u64,
        active_slots: u32,
        write: impl FnMut(&mut EventThread),
    ) {
        let _attached = producer::attach(capture);
        Self::write(generation, active_slots, write);
    }

    #[inline(always)]
    fn write(generation: u64, slots: u32, mut write: impl FnMut(&mut EventThread)) {
        TRACK_EVENT.trace(slots, |instance| {
            if instance.generation <= generation {
                write(instance);
            }
        });
    }
}
