//! The length slots of messages that are open: a stack, outermost message first.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr;

#[cfg(not(feature = "alloc"))]
use super::bounded::Bounded;
use super::source::SlotTarget;
use crate::wire::SLOT_BYTES;

/// Messages that can be open at once before the stack spills to the heap.
pub(super) const INLINE_DEPTH: usize = 16;

/// Messages that can be open at once at all: 16384, or 16 without the feature `alloc`. Packed fields
/// and strings count as messages while they are written piece by piece. A deeper one is dropped with all its content, and counted by
/// [`StreamWriter::dropped_fields`](super::StreamWriter::dropped_fields).
pub const MAX_DEPTH: usize = if cfg!(feature = "alloc") {
    1 << 14
} else {
    INLINE_DEPTH
};

/// The payloads of slots beyond `INLINE_DEPTH`.
#[cfg(feature = "alloc")]
type SpilledPayloads = Vec<*mut u8>;
#[cfg(not(feature = "alloc"))]
type SpilledPayloads = Bounded<*mut u8, 0>;

/// What is known of slots in ranges that were given up.
#[cfg(feature = "alloc")]
type ElsewhereStack = Vec<Elsewhere>;
#[cfg(not(feature = "alloc"))]
type ElsewhereStack = Bounded<Elsewhere, INLINE_DEPTH>;

/// What is left of a slot whose range was given up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elsewhere {
    /// Stream position at which the message's payload begins.
    pub(super) position: u64,
    /// What to do with its length.
    pub(super) target: SlotTarget,
}

/// The stack. The first slots lie in ranges that were given up and have an [`Elsewhere`]; the
/// next ones have grown to 4 bytes in the current range; the last ones are compact, of one byte, and
/// lie there, too. Of those in the current range only the payload address counts.
///
/// The order of the members is kept, so that begin and end of a message find what they look at in
/// one cache line.
#[repr(C)]
pub(super) struct OpenSlots {
    /// First byte of each message's payload; the slot lies before it. Written when the message
    /// begins: to initialize all of them makes a new stream dearer than a field.
    payloads: [MaybeUninit<*mut u8>; INLINE_DEPTH],
    /// The payloads of the slots from `INLINE_DEPTH` on.
    spilled_payloads: SpilledPayloads,
    /// At most `grown`.
    elsewhere: ElsewhereStack,
    /// Number of slots that have 4 bytes, elsewhere or not; at most as many as there are open
    /// messages.
    grown: usize,
    /// The number of open messages while the stack is suspended.
    suspended_len: usize,
    /// Messages of a greater depth have slots that are inline and compact: `grown`, or
    /// `usize::MAX` if there are slots from `INLINE_DEPTH` on. Whatever changes one of the two ends
    /// with [`OpenSlots::note_compact`].
    compact_above: usize,
    /// Number of open messages; at most `MAX_DEPTH`, or `usize::MAX` while suspended.
    len: usize,
}

/// Where the payload of the outermost open message begins.
pub(super) enum Outermost {
    /// In the current range.
    Here {
        payload: *mut u8,
        /// Number of open messages in it with compact slots.
        compact_inside: usize,
    },
    /// At this stream position.
    Elsewhere(u64),
}

/// A slot that was taken off the stack.
pub(super) enum Popped {
    /// Of one byte, in the current range, with this payload address.
    Compact(*mut u8),
    /// Of 4 bytes, in the current range, with this payload address.
    Grown(*mut u8),
    /// In a range that was given up, where it had this payload address.
    Elsewhere(*mut u8, Elsewhere),
}

impl OpenSlots {
    pub(super) const fn new() -> Self {
        Self {
            payloads: [const { MaybeUninit::uninit() }; INLINE_DEPTH],
            spilled_payloads: SpilledPayloads::new(),
            elsewhere: ElsewhereStack::new(),
            grown: 0,
            suspended_len: 0,
            compact_above: 0,
            len: 0,
        }
    }

    /// Allocates what messages of inline depth need when they cross ranges.
    pub(super) fn reserve(&mut self) {
        self.elsewhere.reserve(INLINE_DEPTH);
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of slots of one byte.
    pub(super) fn compact_count(&self) -> usize {
        let len = if self.len == usize::MAX {
            self.suspended_len
        } else {
            self.len
        };
        len - self.grown
    }

    /// The payload address of the slot number `index`, which is inline.
    ///
    /// # Safety
    ///
    /// The slot must have been pushed, and `index` be below `INLINE_DEPTH`.
    #[inline(always)]
    unsafe fn inline_payload(&self, index: usize) -> *mut u8 {
        debug_assert!(index < INLINE_DEPTH);
        // SAFETY: promised by the caller.
        let payload = unsafe { self.payloads.get_unchecked(index) };
        // SAFETY: `push_inline` wrote it.
        unsafe { payload.assume_init() }
    }

    /// The payload address of the slot number `index`, which is open.
    fn payload(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.len);
        match index.checked_sub(INLINE_DEPTH) {
            Some(spilled_index) => self.spilled_payloads[spilled_index],
            // SAFETY: the message is open, and the index was looked at.
            None => unsafe { self.inline_payload(index) },
        }
    }

    /// Pushes a compact slot as number `depth`, which is `len` and inline.
    #[inline(always)]
    pub(super) fn push_inline(&mut self, depth: usize, payload: *mut u8) {
        debug_assert!(depth == self.len);
        self.payloads[depth] = MaybeUninit::new(payload);
        self.len = depth + 1;
    }

    #[cold]
    pub(super) fn push(&mut self, payload: *mut u8) {
        debug_assert!(self.len < MAX_DEPTH);
        if self.len < INLINE_DEPTH {
            self.push_inline(self.len, payload);
        } else {
            self.spilled_payloads.push(payload);
            self.len += 1;
        }
        self.note_compact();
    }

    /// Pushes a slot for which there is no memory; its payload begins at stream position
    /// `position`. All slots before it have an [`Elsewhere`] already, because their range was given
    /// up.
    pub(super) fn push_nowhere(&mut self, position: u64) {
        debug_assert!(self.elsewhere.len() == self.len);
        self.push(ptr::null_mut());
        self.elsewhere.push(Elsewhere {
            position,
            target: SlotTarget::Discard,
        });
        self.grown = self.len;
        self.note_compact();
    }

    fn note_compact(&mut self) {
        self.compact_above = if self.len > INLINE_DEPTH {
            usize::MAX
        } else {
            self.grown
        };
    }

    /// The payload address of the message of this depth, if it is the innermost one and its slot is
    /// inline and compact. The root, of depth 0, has none.
    #[inline(always)]
    pub(super) fn inline_compact(&self, depth: usize) -> Option<*mut u8> {
        let is_it = depth == self.len && depth > self.compact_above;
        // SAFETY: the message is open; there are no slots from `INLINE_DEPTH` on.
        is_it.then(|| unsafe { self.inline_payload(depth - 1) })
    }

    /// Takes the slot that [`OpenSlots::inline_compact`] found for this depth.
    #[inline(always)]
    pub(super) fn pop_inline_compact(&mut self, depth: usize) {
        debug_assert!(depth == self.len && depth > self.compact_above);
        self.len = depth - 1;
    }

    /// Whether the message of this depth is the innermost one and its slot inline and in the current
    /// range, compact or not.
    pub(super) fn is_inline_here(&self, depth: usize) -> bool {
        depth == self.len && depth > self.elsewhere.len() && depth <= INLINE_DEPTH
    }

    /// Takes the slot of the message of this depth, which is inline and has grown here; returns its
    /// payload address.
    pub(super) fn pop_inline_grown(&mut self, depth: usize) -> *mut u8 {
        debug_assert!(self.is_inline_here(depth) && depth == self.grown);
        self.len = depth - 1;
        self.grown = depth - 1;
        self.compact_above = depth - 1;
        // SAFETY: the message was open up to now, and is inline.
        unsafe { self.inline_payload(depth - 1) }
    }

    /// The payload address of the innermost message, if its slot is compact.
    pub(super) fn innermost_compact(&self) -> Option<*mut u8> {
        (self.len > self.grown).then(|| self.payload(self.len - 1))
    }

    #[cold]
    pub(super) fn pop(&mut self) -> Option<Popped> {
        let index = self.len.checked_sub(1)?;
        let payload = self.payload(index);
        if index >= INLINE_DEPTH {
            self.spilled_payloads.pop();
        }
        self.len = index;
        let popped = if index >= self.grown {
            Popped::Compact(payload)
        } else if index >= self.elsewhere.len() {
            Popped::Grown(payload)
        } else {
            Popped::Elsewhere(payload, self.elsewhere.pop()?)
        };
        self.grown = self.grown.min(index);
        self.note_compact();
        Some(popped)
    }

    /// Where the outermost open message begins.
    pub(super) fn outermost(&self) -> Option<Outermost> {
        match self.elsewhere.first() {
            _ if self.len == 0 => None,
            Some(outermost) => Some(Outermost::Elsewhere(outermost.position)),
            None => Some(Outermost::Here {
                payload: self.payload(0),
                compact_inside: self.compact_count() - usize::from(self.grown == 0),
            }),
        }
    }

    /// Lets every compact slot grow. `grow` is asked for each, from the innermost message outwards:
    /// it gets the payload's address and returns where the payload is from now on.
    pub(super) fn grow_all(&mut self, mut grow: impl FnMut(*mut u8) -> *mut u8) {
        for index in (self.grown..self.len).rev() {
            let payload = grow(self.payload(index));
            match index.checked_sub(INLINE_DEPTH) {
                Some(spilled_index) => self.spilled_payloads[spilled_index] = payload,
                None => self.payloads[index] = MaybeUninit::new(payload),
            }
        }
        self.grown = self.len;
        self.note_compact();
    }

    /// Gives up the current range, which begins at `begin` and at stream position
    /// `begin_position` and in which all slots have grown: each is elsewhere from now on. A target is asked for each slot
    /// that was in this range, from the outermost message inwards, with the slot's offset.
    pub(super) fn leave_range(
        &mut self,
        begin: *mut u8,
        begin_position: u64,
        mut target: impl FnMut(usize) -> SlotTarget,
    ) {
        for index in self.elsewhere.len()..self.len {
            let payload_offset = self.payload(index).addr() - begin.addr();
            self.elsewhere.push(Elsewhere {
                position: begin_position + payload_offset as u64,
                target: target(payload_offset - SLOT_BYTES),
            });
        }
    }

    /// Sets the stack aside: until [`OpenSlots::resume`], its length equals no depth, so nothing
    /// can be pushed or popped on the fast paths.
    pub(super) fn suspend(&mut self) {
        self.suspended_len = core::mem::replace(&mut self.len, usize::MAX);
    }

    /// Takes back [`OpenSlots::suspend`].
    pub(super) fn resume(&mut self) {
        self.len = self.suspended_len;
    }
}

impl core::fmt::Debug for OpenSlots {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OpenSlots")
            .field("len", &self.len)
            .field("elsewhere", &self.elsewhere)
            .finish_non_exhaustive()
    }
}
