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
//! All unsafe code of this crate is in this module and the files of its folder. Its invariants,
//! numbered for the safety arguments there:
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
mod frame; // the slot outside any message
mod compact; // short values with their lengths
mod nesting; // messages in messages
#[cfg(not(feature = "alloc"))]
mod bounded; // a stack without a heap
mod source; // where ranges come from
#[cfg(feature = "alloc")]
mod heap; // a source that grows
mod fixed; // a source of one slice
mod null; // a source of nothing

use core::ptr;

use crate::varint::{MAX_VARINT_BYTES, encode_varint};
use crate::wire::{MAX_COMPACT_BYTES, MAX_TAG_BYTES, SLOT_BYTES, Tag};
pub use compact::CompactValue;
pub use fixed::FixedSource;
use frame::Frame;
#[cfg(feature = "alloc")]
pub use heap::HeapSource;
pub use null::NullSource;
use put::{put_at, put_short_at, put_varint_at};
pub use slots::MAX_DEPTH;
use slots::{OpenSlots, Outermost};
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
    ///
    /// # Safety
    ///
    /// Until [`release_range`](Self::release_range), every range that the source has handed out stays
    /// valid as [`RangeSource`] promises: the caller does not replace the source, and does nothing that
    /// frees, moves or accesses such a range. A stream has a range from its first write or
    /// [`next_range`](Self::next_range) on; that of [`FixedSource::stream`] has one from the start.
    ///
    /// ```compile_fail,E0133
    /// use protozero::{HeapSource, StreamWriter};
    ///
    /// let mut stream = StreamWriter::new(HeapSource::new(64));
    /// stream.append_raw(b"the stream has a range now");
    /// *stream.source_mut() = HeapSource::new(64); // would free it
    /// ```
    pub const unsafe fn source_mut(&mut self) -> &mut S {
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

impl<S: ?Sized> core::fmt::Debug for StreamWriter<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StreamWriter")
            .field("written_before", &self.written_before)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}
