//! The stream writer: it appends bytes at a cursor in the current range of memory, and moves on to
//! the next range when one is full.
//!
//! ```text
//!            begin            cursor            usable end
//!              v                v                  v
//! current      [ written bytes  |  free            | held back ]   earlier ranges: written_before bytes
//!                  ^
//!                  a length slot, filled in when its message ends
//! ```
//!
//! Each nested message has a *length slot* before its payload. A slot begins *compact*, with one
//! byte. Most messages have at most 127 bytes: at their end the length is stored, and nothing
//! moves. For each compact slot, 3 bytes at the end of the range are held back. If a message
//! becomes longer, or is still open when the range is full, its slot *grows*: the bytes behind the
//! slot move by 3, and the slot then has 4 bytes for a padded length. So each range holds the same
//! bytes as if every slot had 4 bytes from the beginning, and a slot shrank to one byte when its
//! message ended with at most 127 bytes.
//!
//! A *stream position* is the number of bytes written so far, without bytes that were left unused
//! at the ends of ranges. The length of a message is the difference of two positions, so it is
//! right however many ranges the message spans.
//!
//! All unsafe code of this crate is in this module and the files of its folder. The safety comments
//! refer to these numbered invariants:
//!
//! 1. `begin <= cursor <= usable end`. All three point into, or to the end of, one range that is
//!    valid for reads and writes by this stream alone (promised by [`RangeSource`]). Without a
//!    range they are all equal and never accessed; they are null if there is no more memory
//!    ([`Range::NOWHERE`]). The range continues behind the usable end for at least [`GROWTH_BYTES`]
//!    per compact slot.
//! 2. The payload address of a compact slot in the current range lies in `begin + 1 ..= cursor`.
//!    The payload address of a grown slot there lies in `begin + 4 ..= cursor`. The slot of an
//!    inner message lies behind the slot of its outer message. All messages lie behind the root
//!    slot.
//! 3. A slot in an earlier range whose target is [`SlotTarget::InPlace`] lies in the 4 bytes before
//!    its payload address, and these bytes are still valid for writes (promised by
//!    [`RangeSource`]).

#![allow(unsafe_code)] // Raw writes at the cursor are the purpose of this module.

mod put; // raw stores at an address
mod slots; // the length slots of open messages
mod root_slot; // the length slot outside any message
mod compact; // short values, assembled in place before their length
mod nesting; // begin and end of nested messages
#[cfg(not(feature = "alloc"))]
mod bounded; // a stack without a heap
mod source; // the trait `RangeSource`
#[cfg(feature = "alloc")]
mod heap; // a source that allocates
mod fixed; // a source with one slice
mod null; // a source without memory

use core::ptr;

use crate::varint::{VARINT_MAX_BYTES, encode_varint};
use crate::wire::{COMPACT_MAX_BYTES, SLOT_BYTES, TAG_MAX_BYTES, Tag};
pub use compact::CompactValue;
pub use fixed::FixedSource;
#[cfg(feature = "alloc")]
pub use heap::HeapSource;
pub use null::NullSource;
use put::{put_at, put_short_at, put_varint_at};
use root_slot::RootSlot;
pub use slots::MESSAGES_MAX_DEPTH;
use slots::{OpenSlots, Outermost};
pub use source::{
    Outgoing, PatchId, RANGE_MAX_BYTES, RANGE_MIN_BYTES, Range, RangeSource, SlotTarget,
};

/// The largest size of a nested message, in bytes: 128 MiB.
///
/// A length slot can encode at most 2^28 - 1. The size is checked at least once per range, but not
/// at each field, so the limit leaves room for one range of the largest size ([`RANGE_MAX_BYTES`]).
/// A field that would make an enclosing message larger than the limit is dropped as a whole, and
/// [`StreamWriter::dropped_fields`] counts it.
pub const MESSAGE_MAX_BYTES: u64 = (1 << 28) - 1 - RANGE_MAX_BYTES as u64;

/// The room in bytes that [`StreamWriter::append_delimited`] requires: the longest value (127
/// bytes), its length byte, and one byte that stays free.
pub const DELIMITED_ROOM_BYTES: usize = 1 + COMPACT_MAX_BYTES + 1;

/// The largest size in bytes of a field that is not length-delimited: a tag and a varint.
const SHORT_FIELD_BYTES: usize = TAG_MAX_BYTES + VARINT_MAX_BYTES;

/// The number of bytes by which a compact slot grows.
const GROWTH_BYTES: usize = SLOT_BYTES - 1;

/// A writer that appends bytes to the memory ranges of its source.
///
/// [`HeapBuffered`](crate::HeapBuffered) and [`StaticBuffered`](crate::StaticBuffered) contain one.
/// Use it directly with your own [`RangeSource`], which has an example.
pub struct StreamWriter<S: ?Sized> {
    cursor: *mut u8,
    /// The usable end minus `SHORT_FIELD_BYTES - 1`. A cursor before this address has room for
    /// [`SHORT_FIELD_BYTES`], so the check for most fields is one comparison. For short ranges the
    /// address is less than `begin`, or even wrapped.
    short_end: usize,
    begin: *mut u8,
    /// The stream position of `begin`.
    written_before: u64,
    root_slot: RootSlot,
    slots: OpenSlots,
    dropping: Option<DroppedMessage>,
    dropped_fields: u64,
    source: S,
}

/// A nested message that is being dropped because of a limit. Until it ends, the stream acts as if
/// the range were full, so every append takes the cold path and is discarded there.
struct DroppedMessage {
    /// The depth of the parent of the dropped message.
    parent_depth: usize,
    /// The real value of `StreamWriter::short_end`, to restore at the end.
    short_end: usize,
}

// SAFETY: the pointers of the stream and of its slots lead to ranges that only this stream accesses
// (invariants 1 and 3), so they may move to another thread together with the stream. `S: Send` says
// the same of the source.
unsafe impl<S: Send + ?Sized> Send for StreamWriter<S> {}

impl<S: RangeSource> StreamWriter<S> {
    /// Creates a stream without a range. The first write takes one from `source`.
    pub const fn new(source: S) -> Self {
        let nowhere = ptr::without_provenance_mut(NO_RANGE_YET);
        Self {
            cursor: nowhere,
            short_end: short_end_before(NO_RANGE_YET),
            begin: nowhere,
            written_before: 0,
            root_slot: RootSlot::None,
            slots: OpenSlots::new(),
            dropping: None,
            dropped_fields: 0,
            source,
        }
    }

    /// Creates a stream in a range that its source has already handed out.
    #[inline(always)]
    fn starting_in(source: S, begin: *mut u8, end: *mut u8) -> Self {
        let mut stream = Self::new(source);
        (stream.begin, stream.cursor) = (begin, begin);
        stream.short_end = short_end_before(end.addr());
        stream
    }

    /// Returns the source that hands out this stream's ranges of memory.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// Returns the source that hands out this stream's ranges of memory, mutably.
    ///
    /// # Safety
    ///
    /// Until [`release_range`](Self::release_range), every range that the source has handed out
    /// must stay valid as [`RangeSource`] promises. The caller must not replace the source, and
    /// must not free, move or access a range. A new stream has no range. It gets its first range at
    /// the first write or call of [`next_range`](Self::next_range). Only a stream of
    /// [`FixedSource::stream`] has a range from the start.
    ///
    /// ```compile_fail,E0133
    /// use protozero::{HeapSource, StreamWriter};
    ///
    /// let mut stream = StreamWriter::new(HeapSource::new(64));
    /// stream.append_raw(b"the stream has a range now");
    /// *stream.source_mut() = HeapSource::new(64); // would free the range
    /// ```
    pub const unsafe fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Allocates, in advance, room for the state of 16 open messages. Without this call, the stream
    /// allocates it when an open message crosses from one range to the next for the first time.
    pub fn reserve(&mut self) {
        self.slots.reserve();
    }

    /// Gives up the current range and ends all open messages. The next write takes another range.
    pub fn release_range(&mut self) {
        self.end_messages();
        self.give_up_root_slot();
        self.written_before += self.used_bytes() as u64;
        let nowhere = ptr::without_provenance_mut(NO_RANGE_YET);
        (self.begin, self.cursor) = (nowhere, nowhere);
        self.short_end = short_end_before(NO_RANGE_YET);
    }

    /// Ends all open messages, discards the bytes in the current range, and starts again at its
    /// beginning.
    #[cfg(feature = "alloc")]
    pub(crate) fn rewind_range(&mut self) {
        self.end_messages();
        self.give_up_root_slot();
        self.written_before += self.used_bytes() as u64;
        self.cursor = self.begin;
    }

    /// Ends all open messages. A message is still open here if, for instance, its writer was
    /// leaked.
    #[inline]
    pub fn end_messages(&mut self) {
        self.end_message(0);
    }
}

impl<S: RangeSource + ?Sized> StreamWriter<S> {
    /// Returns the number of bytes written to the current range.
    #[inline(always)]
    pub fn used_bytes(&self) -> usize {
        self.cursor.addr() - self.begin.addr()
    }

    /// Returns the number of bytes left in the current range.
    #[inline(always)]
    pub fn available_bytes(&self) -> usize {
        let usable_end = self.short_end.wrapping_add(SHORT_FIELD_BYTES - 1);
        usable_end.wrapping_sub(self.cursor.addr())
    }

    /// Returns the stream position: the number of bytes written so far to all ranges. An open
    /// length slot counts as 4 bytes.
    pub fn written_bytes(&self) -> u64 {
        self.written_before + (self.used_bytes() + self.growth_bytes()) as u64
    }

    /// Returns the number of bytes that are held back for compact slots.
    fn growth_bytes(&self) -> usize {
        let compact_count = self.slots.compact_count() + self.compact_root_slots();
        GROWTH_BYTES * compact_count
    }

    fn compact_root_slots(&self) -> usize {
        usize::from(matches!(self.root_slot, RootSlot::Compact(_)))
    }

    /// Returns the number of fields that were dropped because of [`MESSAGES_MAX_DEPTH`] or
    /// [`MESSAGE_MAX_BYTES`]. A dropped message counts once, including everything in it.
    pub fn dropped_fields(&self) -> u64 {
        self.dropped_fields
    }

    /// Gives up the current range and takes the next one.
    #[cold]
    #[inline(never)]
    pub fn next_range(&mut self) {
        if self.dropping.is_some() {
            // A dropped message writes nothing, so it needs no range.
            return;
        }
        self.give_up_root_slot();
        let used_bytes = self.used_bytes();
        let outgoing = Outgoing::new(self.begin, used_bytes, self.written_before, &mut self.slots);
        let range = self.source.next_range(outgoing);
        self.written_before += used_bytes as u64;
        self.begin = range.begin;
        self.cursor = range.begin;
        self.short_end = short_end_before(range.begin.addr() + range.len);
    }

    /// Returns true if there is room for [`SHORT_FIELD_BYTES`]. If not, there may still be room for
    /// a shorter field.
    #[inline(always)]
    fn has_room_for_short_field(&self) -> bool {
        // Signed, because `short_end` may be before the range.
        (self.cursor.addr().wrapping_sub(self.short_end) as isize) < 0
    }

    /// Returns true if there is room for `len` bytes, which must be at most `isize::MAX`.
    #[inline(always)]
    fn has_room(&self, len: usize) -> bool {
        let behind_short_end = len as isize - (SHORT_FIELD_BYTES as isize - 1);
        self.short_end.wrapping_sub(self.cursor.addr()) as isize >= behind_short_end
    }

    /// Appends bytes unchanged, across as many ranges as they need.
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
        // SAFETY: there is room for `SHORT_FIELD_BYTES`, more than the 8 bytes that are stored
        // (invariant 1).
        unsafe { put_at(self.cursor, &bytes) };
        self.advance(len);
    }

    /// Appends a field of at most 15 bytes near the end of a range, where it may be split.
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

    /// Appends a varint without a tag, as in packed fields.
    #[inline(always)]
    pub(crate) fn append_bare_varint(&mut self, value: u64) {
        if !self.has_room_for_short_field() {
            let mut bytes = [0; VARINT_MAX_BYTES];
            let len = encode_varint(value, &mut bytes);
            return self.append_short_split(&bytes[..len]);
        }
        // SAFETY: there is room for the longest tag and varint (invariant 1).
        self.cursor = unsafe { put_varint_at(self.cursor, value) };
    }

    #[inline(always)]
    pub(crate) fn append_fixed<const N: usize>(&mut self, tag: Tag, value: [u8; N]) {
        if !self.has_room_for_short_field() {
            let mut field = [0; TAG_MAX_BYTES + 8];
            field[..tag.len()].copy_from_slice(tag.as_bytes());
            field[tag.len()..tag.len() + N].copy_from_slice(&value);
            return self.append_short_split(&field[..tag.len() + N]);
        }
        // SAFETY: there is room for a short field (invariant 1): tag and value are at most 13
        // bytes.
        let value_at = unsafe { put_at(self.cursor, tag.as_bytes()) };
        // SAFETY: as above.
        self.cursor = unsafe { put_at(value_at, &value) };
    }

    #[inline(always)]
    pub(crate) fn append_bytes(&mut self, tag: Tag, value: &[u8]) {
        let len = value.len();
        if len > COMPACT_MAX_BYTES || !self.has_room(tag.len() + 1 + len) {
            return self.append_bytes_split(tag, &[value]);
        }
        // SAFETY: there is room for tag, length and value (invariant 1).
        let length_at = unsafe { put_at(self.cursor, tag.as_bytes()) };
        // SAFETY: as above.
        let value_at = unsafe { put_at(length_at, &[len as u8]) };
        // SAFETY: as above.
        self.cursor = unsafe { put_short_at(value_at, value) };
    }

    /// Appends a length-delimited field of any size, whose value is the concatenation of `pieces`.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_bytes_split(&mut self, tag: Tag, pieces: &[&[u8]]) {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if self.append_length(tag, len) {
            if len > COMPACT_MAX_BYTES {
                // With this value, all open messages exceed 127 bytes, so their slots must grow.
                // Growing them before the value is written moves fewer bytes.
                self.grow_slots();
            }
            for piece in pieces {
                self.write_split(piece);
            }
        }
    }

    /// Appends the tag and the length of a length-delimited field, if the limits admit the whole
    /// field. Returns whether they do; if so, the caller must append exactly `len` bytes next.
    pub(crate) fn append_length(&mut self, tag: Tag, len: usize) -> bool {
        let mut length = [0; VARINT_MAX_BYTES];
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
        let mut varint = [0; VARINT_MAX_BYTES];
        let len = encode_varint(value, &mut varint);
        let mut field = [0; TAG_MAX_BYTES + VARINT_MAX_BYTES];
        field[..tag.len()].copy_from_slice(tag.as_bytes());
        field[tag.len()..tag.len() + len].copy_from_slice(&varint[..len]);
        self.append_short_split(&field[..tag.len() + len]);
    }

    /// Returns true if a field of `len` bytes may be appended: no enclosing message is being
    /// dropped or would become too long.
    fn admits(&mut self, len: usize) -> bool {
        if self.dropping.is_some() {
            return false;
        }
        let admitted = self.outermost_len() + len as u64 <= MESSAGE_MAX_BYTES;
        self.dropped_fields += u64::from(!admitted);
        admitted
    }

    /// Returns the length so far of the outermost open message. Open length slots in it count as 4
    /// bytes.
    fn outermost_len(&self) -> u64 {
        match self.slots.outermost() {
            None => 0,
            Some(Outermost::EarlierRange(position)) => self.written_bytes() - position,
            Some(Outermost::CurrentRange {
                payload,
                compact_inside,
            }) => (self.distance(payload) + GROWTH_BYTES * compact_inside) as u64,
        }
    }

    /// Appends bytes across ranges. Each range is filled to its last byte.
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

    /// Copies bytes to the cursor, and advances it. There must be room for them.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.available_bytes());
        // SAFETY: callers have checked the room (invariant 1).
        self.cursor = unsafe { put_short_at(self.cursor, bytes) };
    }

    /// Appends a compact slot. There must be room for 4 bytes.
    #[inline(always)]
    fn advance_over_slot(&mut self) {
        self.advance(1);
        self.hold_back();
    }

    /// Advances the cursor by `len` bytes. There must be room for them.
    #[inline(always)]
    fn advance(&mut self, len: usize) {
        debug_assert!(len <= self.available_bytes());
        // SAFETY: callers have checked the room, so this stays within the range (invariant 1).
        self.cursor = unsafe { self.cursor.add(len) };
    }
}

/// The address of the cursor while the stream has no range. Not null, because null means that
/// memory has ended.
const NO_RANGE_YET: usize = 1;

/// Computes [`StreamWriter::short_end`] from the usable end.
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
