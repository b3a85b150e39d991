//! The scattered stream writer: a cursor in the current range of memory, and what is needed to
//! move on to the next one.
//!
//! ```text
//!            begin            cursor              end
//!              v                v                  v
//! current      [ written bytes  |  free            ]      earlier ranges: written_before bytes
//!                  ^
//!                  a length slot: 4 bytes that the end of a message fills in
//! ```
//!
//! Everything is counted in *stream positions*: bytes written so far, without the bytes that were
//! left unused at the end of a range. A message's length is the distance of two positions, so it
//! stays right however the message is cut.
//!
//! All unsafe code of this crate is in this module. Its invariants, numbered for the safety
//! arguments below:
//!
//! 1. `begin <= cursor <= end`, and all three point into, or to the end of, one range that is valid
//!    for reads and writes by this stream alone (promised by [`RangeSource`]), or are all equal and
//!    never accessed; null if there is no more memory ([`Range::NOWHERE`]). If `cursor < short_end`,
//!    then `cursor + SHORT_FIELD_BYTES <= end`.
//! 2. A payload address of a slot in the current range lies in `begin + 4 ..= cursor`.
//! 3. The payload address of a slot elsewhere whose target is [`SlotTarget::InPlace`] follows 4
//!    bytes that are still valid for writes (promised by [`RangeSource`]).

#![allow(unsafe_code)] // The fence: raw writes at the cursor are what this crate exists for.

mod slots; // the lengths that are still open
#[cfg(not(feature = "alloc"))]
mod bounded; // a stack without a heap
mod source; // where ranges come from
#[cfg(feature = "alloc")]
mod heap; // a source that grows
mod fixed; // a source of one slice
mod null; // a source of nothing

use core::mem::MaybeUninit;
use core::ptr;

use crate::wire::{
    MAX_COMPACT_BYTES, MAX_TAG_BYTES, MAX_VARINT_BYTES, SLOT_BYTES, Tag, encode_varint,
    redundant_varint, spread_groups, spread_varint,
};
pub use fixed::FixedSource;
#[cfg(feature = "alloc")]
pub use heap::HeapSource;
pub use null::NullSource;
pub use slots::MAX_DEPTH;
use slots::{Elsewhere, INLINE_DEPTH, OpenSlots, Popped};
pub use source::{
    MAX_RANGE_BYTES, MIN_RANGE_BYTES, Outgoing, PatchId, Range, RangeSource, SlotTarget,
};

/// Largest nested message whose content is kept in full, in bytes: 128 MiB.
///
/// The wire form of a length slot ends at 2^28 - 1. Sizes are looked at once per range, so the
/// limit leaves room for one range of the largest size ([`MAX_RANGE_BYTES`]). A field that would
/// carry an enclosing message over the limit is dropped, whole, and counted by
/// [`StreamWriter::dropped_fields`].
pub const MAX_MESSAGE_BYTES: u64 = (1 << 28) - 1 - MAX_RANGE_BYTES as u64;

/// Room that [`StreamWriter::append_delimited`] asks for, in bytes: the longest value that it takes,
/// its length, and one more.
pub const DELIMITED_ROOM_BYTES: usize = 1 + MAX_COMPACT_BYTES + 1;

/// Longest field whose size does not depend on its value: a tag and a varint.
const SHORT_FIELD_BYTES: usize = MAX_TAG_BYTES + MAX_VARINT_BYTES;

/// Appends bytes to ranges of memory that its source provides.
///
/// Most users meet it inside [`HeapBuffered`](crate::HeapBuffered) or
/// [`StaticBuffered`](crate::StaticBuffered); it is the place to start from for a source of one's
/// own.
pub struct StreamWriter<S: ?Sized> {
    cursor: *mut u8,
    /// A cursor below it has at least [`SHORT_FIELD_BYTES`] before `end`: the check of room that most
    /// fields need, as one comparison. Set by [`StreamWriter::set_end`] alone.
    short_end: *mut u8,
    end: *mut u8,
    begin: *mut u8,
    /// Stream position of `begin`.
    written_before: u64,
    slots: OpenSlots,
    dropping: Option<Dropping>,
    dropped_fields: u64,
    source: S,
}

/// A message is being dropped: until it ends, the range seems to be full, so that every append
/// takes the cold path and comes to nothing there.
struct Dropping {
    /// Depth of the message that the dropped one is nested in.
    parent_depth: usize,
    /// The true end of the range.
    end: *mut u8,
    suspended_slots: usize,
}

// SAFETY: the pointers lead to memory that only this stream writes to (invariant 1), wherever the
// stream lives; the source is `Send` by itself.
unsafe impl<S: Send + ?Sized> Send for StreamWriter<S> {}

impl<S: RangeSource> StreamWriter<S> {
    /// A stream without a range: the first write asks `source` for one.
    pub const fn new(source: S) -> Self {
        let nowhere = ptr::dangling_mut();
        Self {
            cursor: nowhere,
            short_end: nowhere,
            end: nowhere,
            begin: nowhere,
            written_before: 0,
            slots: OpenSlots::new(),
            dropping: None,
            dropped_fields: 0,
            source,
        }
    }

    /// A stream in a range that its source has handed out already.
    #[inline(always)]
    fn starting_in(source: S, begin: *mut u8, end: *mut u8) -> Self {
        let mut stream = Self::new(source);
        (stream.begin, stream.cursor) = (begin, begin);
        stream.set_end(end);
        stream
    }

    /// The source of ranges.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// The source of ranges.
    pub const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Allocates now what messages that cross ranges need otherwise at their first crossing: room
    /// for 16 open messages.
    pub fn reserve(&mut self) {
        self.slots.reserve();
    }

    /// Gives up the current range without asking for another one; the next write does.
    ///
    /// Messages that are still open end here.
    pub fn release_range(&mut self) {
        self.end_messages();
        self.written_before += self.used_bytes() as u64;
        let nowhere = ptr::dangling_mut();
        (self.begin, self.cursor) = (nowhere, nowhere);
        self.set_end(nowhere);
    }

    /// Forgets what was written to the current range, and begins it anew.
    ///
    /// Messages that are still open end here.
    #[cfg(feature = "alloc")]
    pub(crate) fn rewind_range(&mut self) {
        self.end_messages();
        self.written_before += self.used_bytes() as u64;
        self.cursor = self.begin;
    }

    /// Ends every message that is still open, for instance because its writer was leaked.
    #[inline]
    pub fn end_messages(&mut self) {
        self.end_message(0);
    }

    /// Reserves a length slot outside any message. The slot is zeroed and contiguous.
    ///
    /// Close it with [`StreamWriter::close_slot`], unless the range was given up before: slots of
    /// this kind are known to their owner alone. Where memory has ended ([`Range::NOWHERE`]), there
    /// is no slot to close.
    pub fn append_slot(&mut self) {
        if self.available_bytes() < SLOT_BYTES {
            self.end_messages();
            if !self.make_room_for_slot() {
                return;
            }
        }
        // SAFETY: there is room for a slot: checked above (invariant 1).
        unsafe { ptr::write_bytes(self.cursor, 0, SLOT_BYTES) };
        self.advance(SLOT_BYTES);
    }

    /// Appends a length of one byte and that many `bytes`, if they are at most 127 and the current
    /// range has [`DELIMITED_ROOM_BYTES`] left, whatever they need; so it is not full afterwards.
    /// Returns whether it did.
    #[inline]
    pub fn append_delimited(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.available_bytes() >= DELIMITED_ROOM_BYTES;
        let fits = has_room && bytes.len() <= MAX_COMPACT_BYTES;
        if fits {
            // SAFETY: there is room for a length and for 127 bytes (invariant 1).
            let bytes_at = unsafe { put_at(self.cursor, &[bytes.len() as u8]) };
            // SAFETY: as above.
            self.cursor = unsafe { put_compact_at(bytes_at, bytes) };
        }
        fits
    }

    /// Fills in the slot whose payload begins `payload_offset` bytes after the start of the current
    /// range. A payload of at most `compact_max` bytes moves left, so that its length takes one
    /// byte. Returns the size of the payload.
    ///
    /// # Panics
    ///
    /// If there is no room for a slot before `payload_offset`, it lies behind the cursor, or
    /// `compact_max` exceeds 127.
    pub fn close_slot(&mut self, payload_offset: usize, compact_max: usize) -> usize {
        assert!((SLOT_BYTES..=self.used_bytes()).contains(&payload_offset));
        assert!(compact_max <= MAX_COMPACT_BYTES);
        // SAFETY: the offset is at most `used_bytes`, so the address stays in the range.
        let payload = unsafe { self.begin.add(payload_offset) };
        self.fill_slot_here(payload, compact_max)
    }
}

impl<S: RangeSource + ?Sized> StreamWriter<S> {
    /// Bytes written to the current range.
    #[inline(always)]
    pub fn used_bytes(&self) -> usize {
        self.cursor.addr() - self.begin.addr()
    }

    /// Bytes left in the current range.
    #[inline(always)]
    pub fn available_bytes(&self) -> usize {
        self.end.addr() - self.cursor.addr()
    }

    /// The stream position: bytes written so far, over all ranges.
    pub fn written_bytes(&self) -> u64 {
        self.written_before + self.used_bytes() as u64
    }

    /// Fields that were dropped because of [`MAX_DEPTH`] or [`MAX_MESSAGE_BYTES`]. A dropped
    /// message counts once, with everything in it.
    pub fn dropped_fields(&self) -> u64 {
        self.dropped_fields
    }

    /// Gives up the current range and takes the next one.
    #[cold]
    #[inline(never)]
    pub fn next_range(&mut self) {
        if self.dropping.is_some() {
            // There is nothing to write yet.
            return;
        }
        let used_bytes = self.used_bytes();
        let outgoing = Outgoing::new(self.begin, used_bytes, self.written_before, &mut self.slots);
        let range = self.source.next_range(outgoing);
        self.written_before += used_bytes as u64;
        self.begin = range.begin;
        self.cursor = range.begin;
        // SAFETY: the source promises that all `len` bytes from `begin` belong to one allocation;
        // a null `begin` has a `len` of 0.
        let end = unsafe { range.begin.add(range.len) };
        self.set_end(end);
    }

    /// Sets the end of the range that begins at `begin`, both as they have to be (invariant 1).
    #[inline(always)]
    fn set_end(&mut self, end: *mut u8) {
        self.end = end;
        let len = end.addr() - self.begin.addr();
        self.short_end = if len < SHORT_FIELD_BYTES {
            self.begin
        } else {
            // SAFETY: the range has that many bytes.
            unsafe { end.sub(SHORT_FIELD_BYTES - 1) }
        };
    }

    /// Whether there is room for a field of at most [`SHORT_FIELD_BYTES`]. If not, there may be
    /// room for a shorter one all the same.
    #[inline(always)]
    fn has_room_for_short_field(&self) -> bool {
        self.cursor < self.short_end
    }

    /// Appends bytes as they are, over as many ranges as it takes.
    #[inline]
    pub fn append_raw(&mut self, bytes: &[u8]) {
        if bytes.len() <= self.available_bytes() {
            self.put(bytes);
        } else if self.admits(bytes.len()) {
            self.write_split(bytes);
        }
    }

    /// Appends a field of which tag and value together have at most 15 bytes, near the end of a
    /// range.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_short_split(&mut self, field: &[u8]) {
        if self.admits(field.len()) {
            self.write_split(field);
        }
    }

    #[inline(always)]
    pub(crate) fn append_varint(&mut self, tag: Tag, value: u64) {
        if !self.has_room_for_short_field() {
            return self.append_varint_split(tag, value);
        }
        // SAFETY: there is room for the longest tag and varint (invariant 1).
        let value_at = unsafe { put_at(self.cursor, tag.as_bytes()) };
        // SAFETY: as above.
        self.cursor = unsafe { put_varint_at(value_at, value) };
    }

    /// A varint without a tag, as in packed fields.
    #[inline(always)]
    pub(crate) fn append_bare_varint(&mut self, value: u64) {
        if !self.has_room_for_short_field() {
            let mut bytes = [0; MAX_VARINT_BYTES];
            let len = encode_varint(value, &mut bytes);
            return self.append_short_split(&bytes[..len]);
        }
        // SAFETY: there is room for the longest tag and varint (invariant 1).
        self.cursor = unsafe { put_varint_at(self.cursor, value) };
    }

    #[inline(always)]
    pub(crate) fn append_fixed<const N: usize>(&mut self, tag: Tag, value: [u8; N]) {
        if !self.has_room_for_short_field() {
            let mut field = [0; MAX_TAG_BYTES + 8];
            field[..tag.len()].copy_from_slice(tag.as_bytes());
            field[tag.len()..tag.len() + N].copy_from_slice(&value);
            return self.append_short_split(&field[..tag.len() + N]);
        }
        // SAFETY: there is room for a short field (invariant 1): both are at most 13 bytes.
        let value_at = unsafe { put_at(self.cursor, tag.as_bytes()) };
        // SAFETY: as above.
        self.cursor = unsafe { put_at(value_at, &value) };
    }

    #[inline(always)]
    pub(crate) fn append_bytes(&mut self, tag: Tag, value: &[u8]) {
        let len = value.len();
        if len > MAX_COMPACT_BYTES || self.available_bytes() < tag.len() + 1 + len {
            return self.append_bytes_split(tag, &[value]);
        }
        // SAFETY: there is room for all three.
        let length_at = unsafe { put_at(self.cursor, tag.as_bytes()) };
        // SAFETY: as above.
        let value_at = unsafe { put_at(length_at, &[len as u8]) };
        // SAFETY: as above.
        self.cursor = unsafe { put_short_at(value_at, value) };
    }

    /// A length-delimited field of any size, its value in pieces.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_bytes_split(&mut self, tag: Tag, pieces: &[&[u8]]) {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if self.append_length(tag, len) {
            for piece in pieces {
                self.write_split(piece);
            }
        }
    }

    /// Appends tag and length of a length-delimited field, if the whole field may be appended.
    /// Returns whether it may; exactly `len` bytes must follow then.
    pub(crate) fn append_length(&mut self, tag: Tag, len: usize) -> bool {
        let mut length = [0; MAX_VARINT_BYTES];
        let length_len = encode_varint(len as u64, &mut length);
        let admitted = self.admits(tag.len() + length_len + len);
        if admitted {
            self.write_split(tag.as_bytes());
            self.write_split(&length[..length_len]);
        }
        admitted
    }

    #[cold]
    #[inline(never)]
    fn append_varint_split(&mut self, tag: Tag, value: u64) {
        let mut varint = [0; MAX_VARINT_BYTES];
        let len = encode_varint(value, &mut varint);
        let mut field = [0; MAX_TAG_BYTES + MAX_VARINT_BYTES];
        field[..tag.len()].copy_from_slice(tag.as_bytes());
        field[tag.len()..tag.len() + len].copy_from_slice(&varint[..len]);
        self.append_short_split(&field[..tag.len() + len]);
    }

    /// Opens a nested message in a message of depth `parent_depth`, whose depth is one more.
    #[inline(always)]
    pub(crate) fn begin_message(&mut self, tag: Tag, parent_depth: usize) {
        if parent_depth != self.slots.len()
            || parent_depth >= INLINE_DEPTH
            || !self.has_room_for_short_field()
        {
            return self.begin_message_slow(tag, parent_depth);
        }
        // SAFETY: there is room for a short field (invariant 1): both are at most 9 bytes.
        let slot = unsafe { put_at(self.cursor, tag.as_bytes()) };
        // SAFETY: as above.
        let payload = unsafe { slot.add(SLOT_BYTES) };
        self.cursor = payload;
        self.slots.push_inline(parent_depth, payload);
    }

    #[cold]
    #[inline(never)]
    fn begin_message_slow(&mut self, tag: Tag, parent_depth: usize) {
        // A leaked child of the same parent ends where its sibling begins.
        self.close_down_to(parent_depth);
        if self.dropping.is_some() {
            return;
        }
        if parent_depth >= MAX_DEPTH {
            self.dropped_fields += 1;
            return self.begin_dropped_message(parent_depth);
        }
        if !self.admits(tag.len() + SLOT_BYTES) {
            return self.begin_dropped_message(parent_depth);
        }
        self.write_split(tag.as_bytes());
        if self.make_room_for_slot() {
            self.advance(SLOT_BYTES);
            self.slots.push(self.cursor);
        } else {
            self.slots.push_nowhere(self.written_before);
        }
    }

    /// Sees to it that the current range has room for a slot. If there is no more memory, counts
    /// the slot's bytes instead and returns `false`.
    fn make_room_for_slot(&mut self) -> bool {
        if self.available_bytes() < SLOT_BYTES && !self.begin.is_null() {
            self.next_range();
        }
        if self.begin.is_null() {
            self.written_before += SLOT_BYTES as u64;
            return false;
        }
        true
    }

    /// Opens a message whose content leads nowhere.
    fn begin_dropped_message(&mut self, parent_depth: usize) {
        self.dropping = Some(Dropping {
            parent_depth,
            end: self.end,
            suspended_slots: self.slots.suspend(),
        });
        self.set_end(self.cursor);
    }

    /// Ends the message of this depth, and every deeper one that is still open.
    #[inline(always)]
    pub(crate) fn end_message(&mut self, depth: usize) {
        match self.slots.pop_inline_here(depth) {
            Some(payload) => {
                self.fill_slot_here(payload, MAX_COMPACT_BYTES);
            }
            None if depth == 0 && self.slots.len() == 0 => {}
            None => self.close_down_to(depth.saturating_sub(1)),
        }
    }

    /// Ends messages, innermost first, until `depth` of them are open.
    #[cold]
    #[inline(never)]
    fn close_down_to(&mut self, depth: usize) {
        if let Some(Dropping {
            parent_depth,
            end,
            suspended_slots,
        }) = self.dropping
        {
            if depth > parent_depth {
                // Nested in the dropped message.
                return;
            }
            self.set_end(end);
            self.slots.resume(suspended_slots);
            self.dropping = None;
        }
        while self.slots.len() > depth {
            match self.slots.pop() {
                Some(Popped::Here(payload)) => {
                    self.fill_slot_here(payload, MAX_COMPACT_BYTES);
                }
                Some(Popped::Elsewhere(payload, Elsewhere { position, target })) => {
                    let length = redundant_varint((self.written_bytes() - position) as u32);
                    match target {
                        // SAFETY: the 4 bytes before the payload are still valid (invariant 3).
                        SlotTarget::InPlace => unsafe { write_before(payload, length) },
                        SlotTarget::Patch(patch) => self.source.patch(patch, length),
                        SlotTarget::Discard => {}
                    }
                }
                None => return,
            }
        }
    }

    /// Fills in the slot before `payload`, which lies in the current range. A payload of at most
    /// `compact_max` bytes (at most 127) moves left by 3, so that its length takes one byte.
    #[inline(always)]
    fn fill_slot_here(&mut self, payload: *mut u8, compact_max: usize) -> usize {
        debug_assert!(payload.addr() >= self.begin.addr() + SLOT_BYTES);
        let len = self.cursor.addr() - payload.addr();
        if (MAX_COMPACT_BYTES + 1..1 << 14).contains(&len) {
            // SAFETY: the slot before `payload` is in the range (invariant 2).
            unsafe { write_before(payload, redundant_varint(len as u32)) };
        } else {
            self.fill_unusual_slot(payload, len, compact_max);
        }
        len
    }

    /// [`StreamWriter::fill_slot_here`] for a payload that is compacted, or is long.
    #[inline(never)]
    fn fill_unusual_slot(&mut self, payload: *mut u8, len: usize, compact_max: usize) {
        if len <= compact_max {
            return self.compact(payload, len);
        }
        // SAFETY: the slot before `payload` is in the range (invariant 2).
        unsafe { write_before(payload, redundant_varint(len as u32)) };
    }

    /// Moves the `len` bytes from `payload` to the cursor, at most 127, to the left by 3, and puts
    /// their length in front.
    #[inline(always)]
    fn compact(&mut self, payload: *mut u8, len: usize) {
        // SAFETY: the slot before `payload` is in the range (invariant 2).
        let slot = unsafe { payload.sub(SLOT_BYTES) };
        // SAFETY: as above; `len` is at most 127.
        unsafe { slot.write(len as u8) };
        // SAFETY: the second byte of the slot is in the range, too.
        let moved = unsafe { slot.add(1) };
        self.move_left(payload, moved, len);
        // SAFETY: `moved + len` is 3 bytes before the cursor.
        self.cursor = unsafe { moved.add(len) };
    }

    /// Moves `len` bytes from `from` to `to`, 3 bytes further left; `from + len` is the cursor.
    #[inline(always)]
    fn move_left(&self, from: *mut u8, to: *mut u8, len: usize) {
        const BLOCK: usize = 16;
        if self.available_bytes() < BLOCK {
            // SAFETY: both stretches lie in the current range.
            unsafe { ptr::copy(from, to, len) };
            return;
        }
        // Whole blocks are faster than a call for the exact number of bytes. What a block moves
        // beyond the payload is free space.
        let mut moved = 0;
        while moved < len {
            // SAFETY: `moved` is below `len`, so the address is before the cursor.
            let block_from = unsafe { from.add(moved) };
            // SAFETY: as above, further left.
            let block_to = unsafe { to.add(moved) };
            // SAFETY: a block beyond the cursor still ends in the range: it has room for one.
            let block = unsafe { block_from.cast::<[MaybeUninit<u8>; BLOCK]>().read() };
            // SAFETY: as above; the bytes of the next block, 13 further on, are not touched.
            unsafe { block_to.cast::<[MaybeUninit<u8>; BLOCK]>().write(block) };
            moved += BLOCK;
        }
    }

    /// Whether a field of `len` bytes may be appended: it is in no dropped message, and no
    /// enclosing message gets too long.
    fn admits(&mut self, len: usize) -> bool {
        if self.dropping.is_some() {
            return false;
        }
        let position = self.written_bytes();
        let message_begin = self
            .slots
            .outermost_position(self.begin, self.written_before)
            .unwrap_or(position);
        let admitted = position - message_begin + len as u64 <= MAX_MESSAGE_BYTES;
        self.dropped_fields += u64::from(!admitted);
        admitted
    }

    /// Fills each range to its last byte before it asks for the next one.
    fn write_split(&mut self, mut bytes: &[u8]) {
        loop {
            let (now, later) = bytes.split_at(bytes.len().min(self.available_bytes()));
            self.put(now);
            if later.is_empty() {
                return;
            }
            bytes = later;
            if !self.begin.is_null() {
                self.next_range();
            }
            if self.begin.is_null() {
                self.written_before += bytes.len() as u64;
                return;
            }
        }
    }

    /// Copies bytes to the cursor. There must be room for them.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.available_bytes());
        // SAFETY: callers have checked the room (invariant 1).
        self.cursor = unsafe { put_at(self.cursor, bytes) };
    }

    /// Moves the cursor over bytes for which there is room.
    #[inline(always)]
    fn advance(&mut self, len: usize) {
        debug_assert!(len <= self.available_bytes());
        // SAFETY: callers have checked the room, so this stays within the range (invariant 1).
        self.cursor = unsafe { self.cursor.add(len) };
    }
}

// The fields that need one check of room for several parts are written through the functions below:
// they keep the address in a register, where the cursor itself would have to be stored and loaded
// again between the parts, since the bytes that are written could be those of the cursor for all
// that the compiler knows.

/// Copies bytes to `at`; returns the address behind them.
///
/// # Safety
///
/// All `bytes.len()` bytes from `at` must be free bytes of the current range, which nobody but its
/// stream accesses.
#[inline(always)]
unsafe fn put_at(at: *mut u8, bytes: &[u8]) -> *mut u8 {
    // SAFETY: promised by the caller; `bytes` cannot overlap memory that nobody else accesses.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    // SAFETY: promised by the caller.
    unsafe { at.add(bytes.len()) }
}

/// Does what [`put_at`] does. Most strings of a trace are this short: they need no call.
///
/// # Safety
///
/// As for [`put_at`].
#[inline(always)]
unsafe fn put_short_at(at: *mut u8, bytes: &[u8]) -> *mut u8 {
    match bytes.len() {
        // SAFETY: promised by the caller.
        17..=32 => unsafe { put_halves_at::<16>(at, bytes) },
        // SAFETY: promised by the caller.
        8..=16 => unsafe { put_halves_at::<8>(at, bytes) },
        // SAFETY: promised by the caller.
        _ => unsafe { put_at(at, bytes) },
    }
}

/// Does what [`put_at`] does for at most 127 bytes, without a call.
///
/// # Safety
///
/// As for [`put_at`].
#[inline(always)]
unsafe fn put_compact_at(at: *mut u8, bytes: &[u8]) -> *mut u8 {
    match bytes.len() {
        // SAFETY: promised by the caller.
        8..=16 => unsafe { put_halves_at::<8>(at, bytes) },
        // SAFETY: promised by the caller.
        17..=32 => unsafe { put_halves_at::<16>(at, bytes) },
        // SAFETY: promised by the caller.
        33..=64 => unsafe { put_halves_at::<32>(at, bytes) },
        // SAFETY: promised by the caller.
        65.. => unsafe { put_halves_at::<64>(at, bytes) },
        // SAFETY: promised by the caller.
        4..=7 => unsafe { put_halves_at::<4>(at, bytes) },
        // SAFETY: promised by the caller.
        2..=3 => unsafe { put_halves_at::<2>(at, bytes) },
        // SAFETY: promised by the caller.
        1 => unsafe { put_halves_at::<1>(at, bytes) },
        0 => at,
    }
}

/// Does what [`put_at`] does for `N` to `2 * N` bytes: the first `N` and the last `N`, which may
/// overlap.
///
/// # Safety
///
/// As for [`put_at`].
#[inline(always)]
unsafe fn put_halves_at<const N: usize>(at: *mut u8, bytes: &[u8]) -> *mut u8 {
    debug_assert!((N..=2 * N).contains(&bytes.len()));
    if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        // SAFETY: promised by the caller; the chunk is a part of `bytes`.
        unsafe { put_at(at, first) };
        // SAFETY: promised by the caller; there are at least N bytes.
        let last_at = unsafe { at.add(bytes.len() - N) };
        // SAFETY: as above.
        unsafe { put_at(last_at, last) };
    }
    // SAFETY: promised by the caller.
    unsafe { at.add(bytes.len()) }
}

/// Encodes a varint at `at`; returns the address behind it.
///
/// The length is found by branches, though it could be computed without: the lengths at one call
/// site are usually alike, and a branch that is predicted tells where the next field goes before
/// the value is there.
///
/// # Safety
///
/// As for [`put_at`], with [`MAX_VARINT_BYTES`] bytes, whatever the value is.
#[inline(always)]
unsafe fn put_varint_at(at: *mut u8, value: u64) -> *mut u8 {
    if value < 1 << 7 {
        // SAFETY: promised by the caller.
        return unsafe { put_at(at, &[value as u8]) };
    }
    if value >= 1 << 35 {
        // SAFETY: promised by the caller.
        return unsafe { put_long_varint_at(at, value) };
    }
    let groups = spread_groups(value as u32);
    if value < 1 << 14 {
        // SAFETY: promised by the caller.
        return unsafe { put_at(at, &(groups as u16 | 0x80).to_le_bytes()) };
    }
    if value < 1 << 21 {
        // All 4 bytes are stored: the room is there.
        // SAFETY: promised by the caller.
        unsafe { put_at(at, &(groups | 0x8080).to_le_bytes()) };
        // SAFETY: promised by the caller.
        return unsafe { at.add(3) };
    }
    if value < 1 << 28 {
        // SAFETY: promised by the caller.
        return unsafe { put_at(at, &(groups | 0x0080_8080).to_le_bytes()) };
    }
    // SAFETY: promised by the caller.
    let last = unsafe { put_at(at, &(groups | 0x8080_8080).to_le_bytes()) };
    // SAFETY: promised by the caller.
    unsafe { put_at(last, &[(value >> 28) as u8]) }
}

/// A varint of more than 35 bits: time stamps, addresses, negative numbers. Not inlined, because
/// every field of 64 bits would have it.
///
/// # Safety
///
/// As for [`put_varint_at`].
#[inline(never)]
unsafe fn put_long_varint_at(at: *mut u8, value: u64) -> *mut u8 {
    if value >= 1 << 56 {
        let mut bytes = [0; MAX_VARINT_BYTES];
        let len = encode_varint(value, &mut bytes);
        // SAFETY: promised by the caller.
        return unsafe { put_at(at, &bytes[..len]) };
    }
    let (word, len) = spread_varint(value);
    // All 8 bytes are stored, whatever the length: the room is there.
    // SAFETY: promised by the caller.
    unsafe { put_at(at, &word.to_le_bytes()) };
    // SAFETY: promised by the caller.
    unsafe { at.add(len) }
}

/// Writes a length to the slot before `payload`.
///
/// # Safety
///
/// The 4 bytes before `payload` must be valid for writes.
#[inline(always)]
unsafe fn write_before(payload: *mut u8, length: [u8; SLOT_BYTES]) {
    // SAFETY: promised by the caller.
    let slot = unsafe { payload.sub(SLOT_BYTES) };
    // SAFETY: promised by the caller; an array of bytes has no alignment.
    unsafe { slot.cast::<[u8; SLOT_BYTES]>().write(length) };
}

impl<S: ?Sized> core::fmt::Debug for StreamWriter<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StreamWriter")
            .field("written_before", &self.written_before)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}
