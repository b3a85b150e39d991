//! The scattered stream writer: a cursor in the current range of memory, and what is needed to
//! move on to the next one.
//!
//! ```text
//!            begin            cursor            usable end
//!              v                v                  v
//! current      [ written bytes  |  free            | held back ]   earlier ranges: written_before bytes
//!                  ^
//!                  a length slot that the end of a message fills in
//! ```
//!
//! A slot begins *compact*, as one byte: most messages have at most 127 bytes, and then their length is
//! stored and nothing moves. For each compact slot 3 bytes at the end of the range are held back. If
//! the message becomes longer, or is still open when the range is used up, the slot *grows*: what is
//! behind it moves by 3, and it has the 4 bytes of a padded length. So the bytes are cut into ranges
//! as if every slot had 4 bytes from the beginning, and those of short messages shrank at their end.
//!
//! Everything is counted in *stream positions*: bytes written so far, without the bytes that were
//! left unused at the end of a range. A message's length is the distance of two positions, so it
//! stays right however the message is cut.
//!
//! All unsafe code of this crate is in this module. Its invariants, numbered for the safety
//! arguments below:
//!
//! 1. `begin <= cursor <= usable end`, and all three point into, or to the end of, one range that is
//!    valid for reads and writes by this stream alone (promised by [`RangeSource`]), or are all equal
//!    and never accessed; null if there is no more memory ([`Range::NOWHERE`]). The range goes on for
//!    at least [`GROWTH_BYTES`] behind the usable end for each compact slot.
//! 2. A payload address of a slot in the current range lies in `begin + 1 ..= cursor`, or, if the slot
//!    has grown, in `begin + 4 ..= cursor`. An inner message's payload lies behind the slot of the
//!    outer one's; all messages lie behind the slot of the frame.
//! 3. The payload address of a slot elsewhere whose target is [`SlotTarget::InPlace`] follows 4
//!    bytes that are still valid for writes (promised by [`RangeSource`]).

#![allow(unsafe_code)] // The fence: raw writes at the cursor are what this crate exists for.

mod put; // stores at an address
mod slots; // the lengths that are still open
#[cfg(not(feature = "alloc"))]
mod bounded; // a stack without a heap
mod source; // where ranges come from
#[cfg(feature = "alloc")]
mod heap; // a source that grows
mod fixed; // a source of one slice
mod null; // a source of nothing

use core::ptr;

use crate::wire::{
    MAX_COMPACT_BYTES, MAX_TAG_BYTES, MAX_VARINT_BYTES, SLOT_BYTES, Tag, encode_varint,
    redundant_varint,
};
pub use fixed::FixedSource;
#[cfg(feature = "alloc")]
pub use heap::HeapSource;
pub use null::NullSource;
use put::{put_at, put_compact_at, put_short_at, put_varint_at};
pub use slots::MAX_DEPTH;
use slots::{Elsewhere, INLINE_DEPTH, OpenSlots, Outermost, Popped};
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

/// Bytes by which a compact slot grows.
const GROWTH_BYTES: usize = SLOT_BYTES - 1;

/// Appends bytes to ranges of memory that its source provides.
///
/// Most users meet it inside [`HeapBuffered`](crate::HeapBuffered) or
/// [`StaticBuffered`](crate::StaticBuffered); it is the place to start from for a source of one's
/// own.
pub struct StreamWriter<S: ?Sized> {
    cursor: *mut u8,
    /// Address before which a cursor has at least [`SHORT_FIELD_BYTES`] before the usable end: the
    /// check of room that most fields need, as one comparison. The usable end itself is
    /// `SHORT_FIELD_BYTES - 1` further on. Less than `begin`, or even wrapped, for short ranges.
    short_end: usize,
    begin: *mut u8,
    /// Stream position of `begin`.
    written_before: u64,
    frame: Frame,
    slots: OpenSlots,
    dropping: Option<Dropping>,
    dropped_fields: u64,
    source: S,
}

/// The slot outside any message.
#[derive(Clone, Copy)]
enum Frame {
    /// There is none, or its range was given up.
    None,
    /// Of one byte, with this payload address.
    Compact(*mut u8),
    /// Of 4 bytes, with this payload address.
    Grown(*mut u8),
}

/// A message is being dropped: until it ends, the range seems to be full, so that every append
/// takes the cold path and comes to nothing there.
struct Dropping {
    /// Depth of the message that the dropped one is nested in.
    parent_depth: usize,
    /// What `short_end` truly is.
    short_end: usize,
}

// SAFETY: the pointers lead to memory that only this stream writes to (invariant 1), wherever the
// stream lives; the source is `Send` by itself.
unsafe impl<S: Send + ?Sized> Send for StreamWriter<S> {}

impl<S: RangeSource> StreamWriter<S> {
    /// A stream without a range: the first write asks `source` for one.
    pub const fn new(source: S) -> Self {
        let nowhere = ptr::without_provenance_mut(NOWHERE_YET);
        Self {
            cursor: nowhere,
            short_end: short_end_before(NOWHERE_YET),
            begin: nowhere,
            written_before: 0,
            frame: Frame::None,
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
        stream.short_end = short_end_before(end.addr());
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
        self.give_up_frame();
        self.written_before += self.used_bytes() as u64;
        let nowhere = ptr::without_provenance_mut(NOWHERE_YET);
        (self.begin, self.cursor) = (nowhere, nowhere);
        self.short_end = short_end_before(NOWHERE_YET);
    }

    /// Forgets what was written to the current range, and begins it anew.
    ///
    /// Messages that are still open end here.
    #[cfg(feature = "alloc")]
    pub(crate) fn rewind_range(&mut self) {
        self.end_messages();
        self.give_up_frame();
        self.written_before += self.used_bytes() as u64;
        self.cursor = self.begin;
    }

    /// Ends every message that is still open, for instance because its writer was leaked.
    #[inline]
    pub fn end_messages(&mut self) {
        self.end_message(0);
    }

    /// Reserves a length slot outside any message, of which there is one at a time.
    ///
    /// Fill it in with [`StreamWriter::close_slot`]. One that is not filled in, because the range was
    /// given up before, is left to its owner as 4 bytes of 0, in the place where it was reserved.
    /// Where memory has ended ([`Range::NOWHERE`]), there is no slot.
    #[inline]
    pub fn append_slot(&mut self) {
        let is_outermost = self.slots.len() == 0 && matches!(self.frame, Frame::None);
        if is_outermost && self.has_room(SLOT_BYTES) {
            self.reserve_frame();
        } else {
            self.append_slot_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn append_slot_slow(&mut self) {
        self.end_messages();
        self.give_up_frame();
        if self.make_room_for_slot() {
            self.reserve_frame();
        }
    }

    /// Appends the slot of the frame, for which there must be room.
    #[inline(always)]
    fn reserve_frame(&mut self) {
        self.advance_over_slot();
        self.frame = Frame::Compact(self.cursor);
    }

    /// Fills in the slot outside any message with a length of one byte, if no message is open and at
    /// most `compact_max` bytes follow the slot, all in the current range. Returns how many bytes slot
    /// and payload take together. If it returns `None`, nothing was done.
    ///
    /// # Panics
    ///
    /// If `compact_max` exceeds 127.
    #[inline]
    pub fn close_short_slot(&mut self, compact_max: usize) -> Option<usize> {
        assert!(compact_max <= MAX_COMPACT_BYTES);
        let Frame::Compact(payload) = self.frame else {
            return None;
        };
        let len = self.distance(payload);
        if self.slots.len() != 0 || len > compact_max {
            return None;
        }
        self.frame = Frame::None;
        self.close_compact(payload, len);
        Some(1 + len)
    }

    /// Fills in the slot outside any message, if it lies in the current range, and ends messages that
    /// are still open. If more than `compact_max` bytes follow the slot, the length takes 4 bytes.
    /// Returns how many bytes slot and payload take together.
    ///
    /// # Panics
    ///
    /// If `compact_max` exceeds 127.
    #[cold]
    pub fn close_slot(&mut self, compact_max: usize) -> Option<usize> {
        self.end_messages();
        self.close_short_slot(compact_max).or_else(|| {
            self.grow_slots();
            let Frame::Grown(payload) = self.frame else {
                return None;
            };
            self.frame = Frame::None;
            Some(SLOT_BYTES + self.close_grown(payload))
        })
    }

    /// Appends a length of one byte and that many `bytes`, if they are at most 127 and the current
    /// range has [`DELIMITED_ROOM_BYTES`] left, whatever they need; so it is not full afterwards.
    /// Returns whether it did.
    #[inline(always)]
    pub fn append_delimited(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= MAX_COMPACT_BYTES && self.has_room(DELIMITED_ROOM_BYTES);
        if fits {
            // SAFETY: there is room for a length and for 127 bytes (invariant 1).
            let bytes_at = unsafe { put_at(self.cursor, &[bytes.len() as u8]) };
            // SAFETY: as above.
            self.cursor = unsafe { put_compact_at(bytes_at, bytes) };
        }
        fits
    }

    /// Does what [`StreamWriter::append_delimited`] does for the first `head_len` bytes of `head` and
    /// the first `tail_len` of `tail`. Both are stored whole, which takes neither a loop nor a call;
    /// what is stored too much is written over later.
    #[inline]
    pub fn append_delimited_pieces<const HEAD: usize, const TAIL: usize>(
        &mut self,
        (head, head_len): ([u8; HEAD], usize),
        (tail, tail_len): (&[u8; TAIL], usize),
    ) -> bool {
        const { assert!(1 + HEAD + TAIL < DELIMITED_ROOM_BYTES) };
        let fits = head_len <= HEAD && tail_len <= TAIL && self.has_room(DELIMITED_ROOM_BYTES);
        if fits {
            // SAFETY: there is room for a length and for both pieces, checked when this was
            // compiled (invariant 1).
            let head_at = unsafe { put_at(self.cursor, &[(head_len + tail_len) as u8]) };
            // SAFETY: as above.
            unsafe { put_at(head_at, &head) };
            // SAFETY: the head has so many bytes.
            let tail_at = unsafe { head_at.add(head_len) };
            // SAFETY: as above; the tail begins no later than the head ends.
            unsafe { put_at(tail_at, tail) };
            // SAFETY: the tail has so many bytes.
            self.cursor = unsafe { tail_at.add(tail_len) };
        }
        fits
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
        let usable_end = self.short_end.wrapping_add(SHORT_FIELD_BYTES - 1);
        usable_end.wrapping_sub(self.cursor.addr())
    }

    /// The stream position: bytes written so far, over all ranges. A length that is still open
    /// counts as 4.
    pub fn written_bytes(&self) -> u64 {
        self.written_before + (self.used_bytes() + self.growth_bytes()) as u64
    }

    /// Bytes that are held back for compact slots.
    fn growth_bytes(&self) -> usize {
        let compact_count = self.slots.compact_count() + self.compact_frames();
        GROWTH_BYTES * compact_count
    }

    fn compact_frames(&self) -> usize {
        usize::from(matches!(self.frame, Frame::Compact(_)))
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
        self.give_up_frame();
        let used_bytes = self.used_bytes();
        let outgoing = Outgoing::new(self.begin, used_bytes, self.written_before, &mut self.slots);
        let range = self.source.next_range(outgoing);
        self.written_before += used_bytes as u64;
        self.begin = range.begin;
        self.cursor = range.begin;
        self.short_end = short_end_before(range.begin.addr() + range.len);
    }

    /// Whether there is room for a field of at most [`SHORT_FIELD_BYTES`]. If not, there may be
    /// room for a shorter one all the same.
    #[inline(always)]
    fn has_room_for_short_field(&self) -> bool {
        // Signed, because `short_end` may be before the range.
        (self.cursor.addr().wrapping_sub(self.short_end) as isize) < 0
    }

    /// Whether there is room for `len` bytes, at most `isize::MAX`.
    #[inline(always)]
    fn has_room(&self, len: usize) -> bool {
        let behind_short_end = len as isize - (SHORT_FIELD_BYTES as isize - 1);
        self.short_end.wrapping_sub(self.cursor.addr()) as isize >= behind_short_end
    }

    /// Appends bytes as they are, over as many ranges as it takes.
    #[inline]
    pub fn append_raw(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.put(bytes);
        } else if self.admits(bytes.len()) {
            self.write_split(bytes);
        }
    }

    /// Appends the first `len` bytes of `bytes`, at most 8.
    #[inline(always)]
    pub(crate) fn append_some(&mut self, bytes: [u8; 8], len: usize) {
        let len = len.min(bytes.len());
        if !self.has_room_for_short_field() {
            return self.append_short_split(&bytes[..len]);
        }
        // SAFETY: there is room for a short field, which may have more than 8 bytes (invariant 1).
        unsafe { put_at(self.cursor, &bytes) };
        self.advance(len);
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
        if len > MAX_COMPACT_BYTES || !self.has_room(tag.len() + 1 + len) {
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
            if len > MAX_COMPACT_BYTES {
                // No open message is short any more, and now there is less to move than later.
                self.grow_slots();
            }
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
        let payload = unsafe { slot.add(1) };
        self.cursor = payload;
        self.hold_back();
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
            self.advance_over_slot();
            self.slots.push(self.cursor);
        } else {
            self.slots.push_nowhere(self.written_before);
        }
    }

    /// Sees to it that the current range has room for a slot. If there is no more memory, counts
    /// the slot's bytes instead and returns `false`.
    fn make_room_for_slot(&mut self) -> bool {
        if !self.has_room(SLOT_BYTES) && !self.begin.is_null() {
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
        self.slots.suspend();
        self.dropping = Some(Dropping {
            parent_depth,
            short_end: self.short_end,
        });
        self.short_end = short_end_before(self.cursor.addr());
    }

    /// Ends the message of this depth, and every deeper one that is still open.
    #[inline(always)]
    pub(crate) fn end_message(&mut self, depth: usize) {
        if let Some(payload) = self.slots.inline_compact(depth) {
            let len = self.distance(payload);
            if len <= MAX_COMPACT_BYTES {
                self.slots.pop_inline_compact(depth);
                return self.close_compact(payload, len);
            }
        } else if depth == 0 && self.slots.len() == 0 {
            return;
        }
        self.end_message_slow(depth);
    }

    #[cold]
    #[inline(never)]
    fn end_message_slow(&mut self, depth: usize) {
        if !self.slots.is_inline_here(depth) {
            return self.close_down_to(depth.saturating_sub(1));
        }
        // Of the innermost message: it is too long for a compact slot.
        self.grow_slots();
        let payload = self.slots.pop_inline_grown(depth);
        self.close_grown(payload);
    }

    /// Ends messages, innermost first, until `depth` of them are open.
    fn close_down_to(&mut self, depth: usize) {
        if let Some(Dropping {
            parent_depth,
            short_end,
        }) = self.dropping
        {
            if depth > parent_depth {
                // Nested in the dropped message.
                return;
            }
            self.short_end = short_end;
            self.slots.resume();
            self.dropping = None;
        }
        while self.slots.len() > depth {
            if let Some(payload) = self.slots.innermost_compact()
                && self.distance(payload) > MAX_COMPACT_BYTES
            {
                self.grow_slots();
            }
            match self.slots.pop() {
                Some(Popped::Compact(payload)) => {
                    self.close_compact(payload, self.distance(payload));
                }
                Some(Popped::Grown(payload)) => {
                    self.close_grown(payload);
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

    /// Bytes from `payload`, which lies in the current range, to the cursor.
    #[inline(always)]
    fn distance(&self, payload: *mut u8) -> usize {
        self.cursor.addr() - payload.addr()
    }

    /// Holds back what a new compact slot may grow by: the usable end comes closer.
    #[inline(always)]
    fn hold_back(&mut self) {
        self.short_end = self.short_end.wrapping_sub(GROWTH_BYTES);
    }

    /// Fills in a compact slot, which is not open any more, with the length of its payload, at most
    /// 127.
    #[inline(always)]
    fn close_compact(&mut self, payload: *mut u8, len: usize) {
        self.short_end = self.short_end.wrapping_add(GROWTH_BYTES);
        // SAFETY: the slot before `payload` is in the range (invariant 2).
        let slot = unsafe { payload.sub(1) };
        // SAFETY: as above.
        unsafe { slot.write(len as u8) };
    }

    /// Fills in a slot of 4 bytes; returns the length of its payload.
    fn close_grown(&self, payload: *mut u8) -> usize {
        let len = self.distance(payload);
        // SAFETY: the slot before `payload` is in the range (invariant 2).
        unsafe { write_before(payload, redundant_varint(len as u32)) };
        len
    }

    /// Leaves the slot outside any message to its owner.
    fn give_up_frame(&mut self) {
        self.grow_slots();
        self.frame = Frame::None;
    }

    /// Lets all slots of the current range grow to 4 bytes.
    fn grow_slots(&mut self) {
        let growth_bytes = self.growth_bytes();
        if growth_bytes == 0 {
            return;
        }
        let mut end = self.cursor;
        // Zeroes the slot before `payload` and moves what is between there and `end`.
        let mut shift = growth_bytes;
        let mut grow = |payload: *mut u8| {
            let len = end.addr() - payload.addr();
            // SAFETY: `shift` bytes behind the cursor are held back (invariant 1).
            let moved = unsafe { payload.add(shift) };
            // SAFETY: as above: `end` is at most the cursor.
            unsafe { ptr::copy(payload, moved, len) };
            // SAFETY: `moved` is at least 3 bytes behind `payload`, which follows one byte of slot.
            unsafe { write_before(moved, [0; SLOT_BYTES]) };
            // SAFETY: a slot of one byte is before `payload` (invariant 2).
            end = unsafe { payload.sub(1) };
            shift -= GROWTH_BYTES;
            moved
        };
        self.slots.grow_all(&mut grow);
        if let Frame::Compact(payload) = self.frame {
            self.frame = Frame::Grown(grow(payload));
        }
        self.short_end = self.short_end.wrapping_add(growth_bytes);
        self.advance(growth_bytes);
    }

    /// Whether a field of `len` bytes may be appended: it is in no dropped message, and no
    /// enclosing message gets too long.
    fn admits(&mut self, len: usize) -> bool {
        if self.dropping.is_some() {
            return false;
        }
        let admitted = self.outermost_len() + len as u64 <= MAX_MESSAGE_BYTES;
        self.dropped_fields += u64::from(!admitted);
        admitted
    }

    /// Length so far of the outermost message that is open. Lengths in it that are still open count
    /// as 4.
    fn outermost_len(&self) -> u64 {
        match self.slots.outermost() {
            None => 0,
            Some(Outermost::Elsewhere(position)) => self.written_bytes() - position,
            Some(Outermost::Here {
                payload,
                compact_inside,
            }) => (self.distance(payload) + GROWTH_BYTES * compact_inside) as u64,
        }
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
        self.cursor = unsafe { put_short_at(self.cursor, bytes) };
    }

    /// Appends a compact slot, for which there must be room as if it had 4 bytes.
    #[inline(always)]
    fn advance_over_slot(&mut self) {
        self.advance(1);
        self.hold_back();
    }

    /// Moves the cursor over bytes for which there is room.
    #[inline(always)]
    fn advance(&mut self, len: usize) {
        debug_assert!(len <= self.available_bytes());
        // SAFETY: callers have checked the room, so this stays within the range (invariant 1).
        self.cursor = unsafe { self.cursor.add(len) };
    }
}

/// Address of a range that was not asked for yet, for [`StreamWriter::new`]: not null.
const NOWHERE_YET: usize = 1;

/// What [`StreamWriter::short_end`] is for a usable end.
#[inline(always)]
const fn short_end_before(usable_end: usize) -> usize {
    usable_end.wrapping_sub(SHORT_FIELD_BYTES - 1)
}

// The fields that need one check of room for several parts are written through the functions below:
// they keep the address in a register, where the cursor itself would have to be stored and loaded
// again between the parts, since the bytes that are written could be those of the cursor for all
// that the compiler knows.

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
