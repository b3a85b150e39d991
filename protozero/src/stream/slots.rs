//! The length slots of open messages: a stack, outermost message first.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ptr;

#[cfg(not(feature = "alloc"))]
use super::bounded::BoundedStack;
use super::source::SlotTarget;
use crate::wire::SLOT_BYTES;

/// The number of open messages up to which the stack needs no heap.
pub(super) const INLINE_DEPTH: usize = 16;

/// The maximum number of nested messages that can be open at once: 16384, or 16 without the feature
/// `alloc`. Packed fields and strings count as messages while they are written piece by piece. A
/// deeper message is dropped with all its content, and
/// [`StreamWriter::dropped_fields`](super::StreamWriter::dropped_fields) counts it.
pub const MESSAGES_MAX_DEPTH: usize = if cfg!(feature = "alloc") {
    1 << 14
} else {
    INLINE_DEPTH
};

/// The payload addresses of slots from `INLINE_DEPTH` on.
#[cfg(feature = "alloc")]
type SpilledPayloads = Vec<*mut u8>;
#[cfg(not(feature = "alloc"))]
type SpilledPayloads = BoundedStack<*mut u8, 0>;

/// The slots in earlier ranges, outermost first.
#[cfg(feature = "alloc")]
type EarlierSlots = Vec<EarlierSlot>;
#[cfg(not(feature = "alloc"))]
type EarlierSlots = BoundedStack<EarlierSlot, INLINE_DEPTH>;

/// An open slot whose range was given up.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlierSlot {
    /// The stream position at which the payload of the message begins.
    pub(super) position: u64,
    /// The destination of the length.
    pub(super) target: SlotTarget,
}

/// The stack of the length slots of open messages, in three consecutive parts:
///
/// 1. Slots in earlier ranges, which were given up. Each has an [`EarlierSlot`].
/// 2. Slots in the current range that have grown to 4 bytes. Only their payload address is stored.
/// 3. Slots in the current range that are compact, of one byte. Only their payload address is
///    stored.
///
/// `repr(C)` keeps the order of the members, so that the members that are accessed when a message
/// begins or ends share a cache line.
#[repr(C)]
pub(super) struct OpenSlots {
    /// The address of each message's payload; the slot lies before it. An element is uninitialized
    /// until its message begins: to initialize all elements would cost a new stream more than to
    /// write a field.
    payloads: [MaybeUninit<*mut u8>; INLINE_DEPTH],
    /// The payload addresses of the slots from `INLINE_DEPTH` on.
    spilled_payloads: SpilledPayloads,
    /// The slots of part 1; at most `grown`.
    earlier: EarlierSlots,
    /// The number of slots in parts 1 and 2, which have 4 bytes each. At most the number of open
    /// messages.
    grown: usize,
    /// The number of open messages while the stack is suspended.
    suspended_len: usize,
    /// The depth above which all slots are inline and compact: `grown`, or `usize::MAX` if there
    /// are slots from `INLINE_DEPTH` on. [`OpenSlots::note_compact`] updates it after each change
    /// of `grown` or of the number of slots.
    compact_above: usize,
    /// The number of open messages; at most `MESSAGES_MAX_DEPTH`, or `usize::MAX` while suspended.
    len: usize,
}

/// The start of the payload of the outermost open message.
pub(super) enum Outermost {
    /// The payload begins in the current range.
    CurrentRange {
        payload: *mut u8,
        /// The number of open messages inside it that have compact slots.
        compact_inside: usize,
    },
    /// The payload begins in an earlier range, at this stream position.
    EarlierRange(u64),
}

/// A slot that was popped from the stack.
pub(super) enum PoppedSlot {
    /// A slot of one byte in the current range, with this payload address.
    Compact(*mut u8),
    /// A slot of 4 bytes in the current range, with this payload address.
    Grown(*mut u8),
    /// A slot in an earlier range, with its payload address there.
    EarlierRange(*mut u8, EarlierSlot),
}

impl OpenSlots {
    pub(super) const fn new() -> Self {
        Self {
            payloads: [const { MaybeUninit::uninit() }; INLINE_DEPTH],
            spilled_payloads: SpilledPayloads::new(),
            earlier: EarlierSlots::new(),
            grown: 0,
            suspended_len: 0,
            compact_above: 0,
            len: 0,
        }
    }

    /// Allocates the room that messages of inline depth need when they cross into another range.
    pub(super) fn reserve(&mut self) {
        self.earlier.reserve(INLINE_DEPTH);
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of compact slots, also while the stack is suspended.
    pub(super) fn compact_count(&self) -> usize {
        let len = if self.len == usize::MAX {
            self.suspended_len
        } else {
            self.len
        };
        len - self.grown
    }

    /// Returns the payload address of the slot number `index`, which must be inline.
    ///
    /// # Safety
    ///
    /// The slot must have been pushed, and `index` must be below `INLINE_DEPTH`.
    #[inline(always)]
    unsafe fn inline_payload(&self, index: usize) -> *mut u8 {
        debug_assert!(index < INLINE_DEPTH);
        // SAFETY: promised by the caller.
        let payload = unsafe { self.payloads.get_unchecked(index) };
        // SAFETY: `push_inline` initialized the element when the slot was pushed.
        unsafe { payload.assume_init() }
    }

    /// Returns the payload address of the open slot number `index`.
    fn payload(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.len);
        match index.checked_sub(INLINE_DEPTH) {
            Some(spilled_index) => self.spilled_payloads[spilled_index],
            // SAFETY: callers pass the index of an open message, whose slot was pushed; the index
            // is below `INLINE_DEPTH`.
            None => unsafe { self.inline_payload(index) },
        }
    }

    /// Pushes a compact slot as number `depth`, which must equal `len` and be inline.
    #[inline(always)]
    pub(super) fn push_inline(&mut self, depth: usize, payload: *mut u8) {
        debug_assert!(depth == self.len);
        self.payloads[depth] = MaybeUninit::new(payload);
        self.len = depth + 1;
    }

    #[cold]
    pub(super) fn push(&mut self, payload: *mut u8) {
        debug_assert!(self.len < MESSAGES_MAX_DEPTH);
        if self.len < INLINE_DEPTH {
            self.push_inline(self.len, payload);
        } else {
            self.spilled_payloads.push(payload);
            self.len += 1;
        }
        self.note_compact();
    }

    /// Pushes a slot for which there is no memory. Its payload begins at stream position
    /// `position`. All slots before it already have an [`EarlierSlot`], because their ranges were
    /// given up.
    pub(super) fn push_nowhere(&mut self, position: u64) {
        debug_assert!(self.earlier.len() == self.len);
        self.push(ptr::null_mut());
        self.earlier.push(EarlierSlot {
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

    /// Returns the payload address of the message of this depth, if it is the innermost message and
    /// its slot is inline and compact. The root message, of depth 0, has no slot.
    #[inline(always)]
    pub(super) fn inline_compact(&self, depth: usize) -> Option<*mut u8> {
        let is_innermost_compact = depth == self.len && depth > self.compact_above;
        // SAFETY: the message is open, because `depth` is at least 1 and equals the number of open
        // messages. `depth` is at most `INLINE_DEPTH`, because otherwise `compact_above` would be
        // `usize::MAX`.
        is_innermost_compact.then(|| unsafe { self.inline_payload(depth - 1) })
    }

    /// Pops the slot that [`OpenSlots::inline_compact`] found for this depth.
    #[inline(always)]
    pub(super) fn pop_inline_compact(&mut self, depth: usize) {
        debug_assert!(depth == self.len && depth > self.compact_above);
        self.len = depth - 1;
    }

    /// Returns true if the message of this depth is the innermost message, and its slot is inline
    /// and in the current range, compact or grown.
    pub(super) fn is_inline_here(&self, depth: usize) -> bool {
        depth == self.len && depth > self.earlier.len() && depth <= INLINE_DEPTH
    }

    /// Pops the slot of the innermost message, which has this depth; the slot must be inline and
    /// grown, in the current range. Returns its payload address.
    pub(super) fn pop_inline_grown(&mut self, depth: usize) -> *mut u8 {
        debug_assert!(self.is_inline_here(depth) && depth == self.grown);
        self.len = depth - 1;
        self.grown = depth - 1;
        self.compact_above = depth - 1;
        // SAFETY: the message was open until now, and its slot is inline.
        unsafe { self.inline_payload(depth - 1) }
    }

    /// Returns the payload address of the innermost message, if its slot is compact.
    pub(super) fn innermost_compact(&self) -> Option<*mut u8> {
        (self.len > self.grown).then(|| self.payload(self.len - 1))
    }

    #[cold]
    pub(super) fn pop(&mut self) -> Option<PoppedSlot> {
        let index = self.len.checked_sub(1)?;
        let payload = self.payload(index);
        if index >= INLINE_DEPTH {
            self.spilled_payloads.pop();
        }
        self.len = index;
        let popped = if index >= self.grown {
            PoppedSlot::Compact(payload)
        } else if index >= self.earlier.len() {
            PoppedSlot::Grown(payload)
        } else {
            PoppedSlot::EarlierRange(payload, self.earlier.pop()?)
        };
        self.grown = self.grown.min(index);
        self.note_compact();
        Some(popped)
    }

    /// Returns the start of the outermost open message.
    pub(super) fn outermost(&self) -> Option<Outermost> {
        match self.earlier.first() {
            _ if self.len == 0 => None,
            Some(outermost) => Some(Outermost::EarlierRange(outermost.position)),
            None => Some(Outermost::CurrentRange {
                payload: self.payload(0),
                compact_inside: self.compact_count() - usize::from(self.grown == 0),
            }),
        }
    }

    /// Grows every compact slot, from the innermost message outwards. Each call of `grow` gets the
    /// address of a payload, and returns its new address.
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

    /// Turns the slots of the current range into slots of an earlier range ([`EarlierSlot`]). All
    /// these slots must have grown. The range begins at `begin` and at stream position
    /// `begin_position`. `target` gets the offset of each slot in the range, from the outermost
    /// message inwards.
    pub(super) fn leave_range(
        &mut self,
        begin: *mut u8,
        begin_position: u64,
        mut target: impl FnMut(usize) -> SlotTarget,
    ) {
        for index in self.earlier.len()..self.len {
            let payload_offset = self.payload(index).addr() - begin.addr();
            self.earlier.push(EarlierSlot {
                position: begin_position + payload_offset as u64,
                target: target(payload_offset - SLOT_BYTES),
            });
        }
    }

    /// Suspends the stack: until [`OpenSlots::resume`], its length equals no depth, so the fast
    /// paths push and pop nothing.
    pub(super) fn suspend(&mut self) {
        self.suspended_len = core::mem::replace(&mut self.len, usize::MAX);
    }

    /// Reverts [`OpenSlots::suspend`].
    pub(super) fn resume(&mut self) {
        self.len = self.suspended_len;
    }
}

impl core::fmt::Debug for OpenSlots {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OpenSlots")
            .field("len", &self.len)
            .field("earlier", &self.earlier)
            .finish_non_exhaustive()
    }
}
