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
/// others lie in the current range, and only their payload address counts.
///
/// The order of the members is kept, so that begin and end of a message find what they look at in
/// one cache line.
#[repr(C)]
pub(super) struct OpenSlots {
    /// First byte of each message's payload; the slot is the 4 bytes before. Written when the
    /// message begins: to initialize all of them makes a new stream dearer than a field.
    payloads: [MaybeUninit<*mut u8>; INLINE_DEPTH],
    /// The payloads of the slots from `INLINE_DEPTH` on.
    spilled_payloads: SpilledPayloads,
    /// At most as many as there are open messages.
    elsewhere: ElsewhereStack,
    /// Messages of a greater depth have their slots inline and in the current range: the length of
    /// `elsewhere`, or `usize::MAX` if there are slots from `INLINE_DEPTH` on. Whatever changes
    /// one of the two ends with [`OpenSlots::note_here`].
    here_above: usize,
    /// Number of open messages; at most `MAX_DEPTH`, or `usize::MAX` while suspended.
    len: usize,
}

/// A slot that was taken off the stack.
pub(super) enum Popped {
    /// In the current range, with this payload address.
    Here(*mut u8),
    /// In a range that was given up, where it had this payload address.
    Elsewhere(*mut u8, Elsewhere),
}

impl OpenSlots {
    pub(super) const fn new() -> Self {
        Self {
            payloads: [const { MaybeUninit::uninit() }; INLINE_DEPTH],
            spilled_payloads: SpilledPayloads::new(),
            elsewhere: ElsewhereStack::new(),
            here_above: 0,
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

    /// Pushes a slot of the current range as number `depth`, which is `len` and inline.
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
        self.note_here();
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
        self.note_here();
    }

    fn note_here(&mut self) {
        self.here_above = if self.len > INLINE_DEPTH {
            usize::MAX
        } else {
            self.elsewhere.len()
        };
    }

    /// Takes the slot of the message of this depth if it is the innermost one, inline and in the
    /// current range; returns its payload address. The root, of depth 0, has none.
    #[inline(always)]
    pub(super) fn pop_inline_here(&mut self, depth: usize) -> Option<*mut u8> {
        let takes = depth == self.len && depth > self.here_above;
        takes.then(|| {
            self.len = depth - 1;
            // SAFETY: the message was open up to now; there are no slots from `INLINE_DEPTH` on.
            unsafe { self.inline_payload(depth - 1) }
        })
    }

    #[cold]
    pub(super) fn pop(&mut self) -> Option<Popped> {
        let index = self.len.checked_sub(1)?;
        let payload = if index < INLINE_DEPTH {
            // SAFETY: the message was open up to now, and the index was looked at.
            unsafe { self.inline_payload(index) }
        } else {
            self.spilled_payloads.pop()?
        };
        self.len = index;
        let popped = if index >= self.elsewhere.len() {
            Popped::Here(payload)
        } else {
            Popped::Elsewhere(payload, self.elsewhere.pop()?)
        };
        self.note_here();
        Some(popped)
    }

    /// Stream position at which the payload of the outermost open message begins, for a current
    /// range that begins at `begin` and at stream position `begin_position`.
    pub(super) fn outermost_position(&self, begin: *mut u8, begin_position: u64) -> Option<u64> {
        match self.elsewhere.first() {
            _ if self.len == 0 => None,
            Some(outermost) => Some(outermost.position),
            None => {
                // SAFETY: there is an open message.
                let payload = unsafe { self.inline_payload(0) };
                Some(begin_position + (payload.addr() - begin.addr()) as u64)
            }
        }
    }

    /// Gives up the current range, which begins at `begin` and at stream position
    /// `begin_position`: every open slot is elsewhere from now on. A target is asked for each slot
    /// that was in this range, from the outermost message inwards, with the slot's offset.
    pub(super) fn leave_range(
        &mut self,
        begin: *mut u8,
        begin_position: u64,
        mut target: impl FnMut(usize) -> SlotTarget,
    ) {
        for index in self.elsewhere.len()..self.len {
            let payload = match index.checked_sub(INLINE_DEPTH) {
                Some(spilled_index) => self.spilled_payloads[spilled_index],
                // SAFETY: the message is open, and the index was looked at.
                None => unsafe { self.inline_payload(index) },
            };
            let payload_offset = payload.addr() - begin.addr();
            self.elsewhere.push(Elsewhere {
                position: begin_position + payload_offset as u64,
                target: target(payload_offset - SLOT_BYTES),
            });
        }
        self.note_here();
    }

    /// Sets the stack aside: until [`OpenSlots::resume`], its length equals no depth, so nothing
    /// can be pushed or popped on the fast paths. Returns what to give to `resume`.
    pub(super) fn suspend(&mut self) -> usize {
        core::mem::replace(&mut self.len, usize::MAX)
    }

    /// Takes back [`OpenSlots::suspend`].
    pub(super) fn resume(&mut self, len: usize) {
        self.len = len;
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
