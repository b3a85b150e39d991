//! Who has seen the begin of a slice: its end is for nobody else.
//!
//! A slice that a guard began ends in every session that saw its begin and still records, and in no other,
//! also if its category is switched off meanwhile. `tests/judge/tests/categories.rs` and
//! `tests/judge/tests/futures/` check this.
//!
//! Perfetto's own SDK writes an end to whatever sessions there are, and leaves it to readers to pair ends
//! with begins. Here a guard knows which sessions saw its begin, and no other session gets its end, whether
//! the guard ends on another thread, in a later session or in a capture.

use std::num::{NonZeroU32, NonZeroU64};

use crate::data_source::TRACK_EVENT;
use crate::instance::EventThread;
use tracezero_producer as producer;
use tracezero_producer::Realm;

/// The sessions that have seen the begin of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// In the lower half, their slots. In the upper half, the realm of the capture that the thread wrote
    /// to, if one may have seen it. Of two words, a guard travels in registers.
    slots_and_realm: NonZeroU64,
    /// Instances that started later are of other sessions, even if their slots are the same.
    generation: u64,
}

impl Begun {
    /// In what the slots stand for now, which is to be recorded by [`begin`](Self::begin); `None`
    /// without any.
    #[inline(always)]
    #[must_use]
    pub fn in_slots(slots: u32) -> Option<Self> {
        Some(Self::in_some_slots(NonZeroU32::new(slots)?))
    }

    /// Like [`in_slots`](Self::in_slots), where there is one.
    #[inline(always)]
    pub(crate) fn in_some_slots(slots: NonZeroU32) -> Self {
        Self::new(slots, producer::generation())
    }

    #[inline(always)]
    fn new(slots: NonZeroU32, generation: u64) -> Self {
        let realm = producer::captured_in(slots.get()).number();
        Self {
            slots_and_realm: NonZeroU64::from(slots) | u64::from(realm) << u32::BITS,
            generation,
        }
    }

    /// As two words, for memory that threads share. Nobody is 0.
    #[inline(always)]
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        [self.slots_and_realm.get(), self.generation]
    }

    /// What [`to_words`](Self::to_words) has made.
    #[inline(always)]
    #[must_use]
    pub fn from_words([slots_and_realm, generation]: [u64; 2]) -> Option<Self> {
        Some(Self {
            slots_and_realm: NonZeroU64::new(slots_and_realm)?,
            generation,
        })
    }

    /// The slots of these sessions, as a bit mask.
    #[inline(always)]
    #[must_use]
    pub const fn slots(self) -> u32 {
        self.slots_and_realm.get() as u32
    }

    /// That of the process if there is no capture among them.
    #[inline(always)]
    const fn capture(self) -> Realm {
        Realm::of_number((self.slots_and_realm.get() >> u32::BITS) as u32)
    }

    /// Has `write` begin the slice in all of them; in none that has taken the slot of one since.
    /// A session that has taken such a slot sees neither begin nor end. The test below and
    /// `tests/judge/tests/odd_places.rs` check this.
    #[inline]
    pub fn begin(self, write: impl FnMut(&mut EventThread)) {
        Self::write(self.generation, self.slots(), write);
    }

    /// In one session.
    #[must_use]
    pub fn in_instance(instance: &EventThread) -> Option<Self> {
        let slot = NonZeroU32::new(1 << instance.slot)?;
        Some(Self::new(slot, instance.generation))
    }

    /// In the sessions of both, which must still record: a slot whose session has ended might stand for
    /// the next one, if the other generation is newer.
    /// Of two captures, in that of `other`.
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

    /// Those of them but one; `None` without any other.
    pub(super) fn without(self, instance: &EventThread) -> Option<Self> {
        let is_last = self.slots() == 1 << instance.slot;
        let slots_and_realm = self.slots_and_realm.get() & !(1 << instance.slot);
        (!is_last).then_some(Self {
            slots_and_realm: NonZeroU64::new(slots_and_realm)?,
            ..self
        })
    }

    /// Those of them that still record.
    #[must_use]
    pub fn still_recording(self) -> Option<Self> {
        let mut still = None;
        self.each(self.active_slots(), |instance| {
            still = Self::union(still, Self::in_instance(instance));
        });
        still
    }

    /// Whether the session of this instance is among them.
    #[inline]
    #[must_use]
    pub fn includes(self, instance: &EventThread) -> bool {
        if producer::CAPTURES && producer::is_in_other_capture(1 << instance.slot, self.capture()) {
            return false;
        }
        self.slots() & 1 << instance.slot != 0 && instance.generation <= self.generation
    }

    /// Whether the slice is not to begin in the session of this instance: that is among them, or is a
    /// capture while another one that has seen the begin goes on. A slice is in one capture.
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

    /// Whether a capture is among them.
    #[inline(always)]
    #[must_use]
    pub fn is_captured(self) -> bool {
        producer::CAPTURES && self.capture() != Realm::PROCESS
    }

    /// Whether a capture is among them, and no capture among the `earlier` ones, unless that is over.
    #[inline(always)]
    #[must_use]
    pub fn is_new_to_capture(self, earlier: Self) -> bool {
        self.is_captured()
            && self.capture() != earlier.capture()
            && !producer::is_capture(earlier.capture())
    }

    /// The slots in which some of them may still record.
    #[inline(always)]
    pub fn active_slots(self) -> u32 {
        TRACK_EVENT.active_of(self.slots())
    }

    /// Calls `write` for those of them that still record, in the slots of
    /// [`active_slots`](Self::active_slots).
    #[inline(always)]
    pub fn each(self, active_slots: u32, write: impl FnMut(&mut EventThread)) {
        Self::each_of_words(self.to_words(), active_slots, write);
    }

    /// Calls `write` for those of them that the words stand for.
    #[inline(always)]
    pub(super) fn each_of_words(
        words: [u64; 2],
        active_slots: u32,
        write: impl FnMut(&mut EventThread),
    ) {
        let [slots_and_realm, generation] = words;
        if producer::CAPTURES {
            let capture = Realm::of_number((slots_and_realm >> u32::BITS) as u32);
            if producer::is_in_other_capture(active_slots, capture) {
                return Self::each_in_capture(capture, generation, active_slots, write);
            }
        }
        Self::write(generation, active_slots, write);
    }

    /// Calls `write` where this thread writes to another capture by now, or to none.
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
