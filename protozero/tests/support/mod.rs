//! A source of tiny ranges, to cut messages at any byte, and other helpers of tests.

#![allow(unsafe_code)] // To implement `RangeSource`.
#![allow(dead_code)] // Each test file uses a part of this.

#[cfg(feature = "alloc")]
pub mod random_message;

use protozero::{Message, Outgoing, PatchId, Range, RangeSource, SlotTarget, StreamWriter};

/// The treatment of length slots in earlier ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slots {
    /// The stream fills the slots in place.
    Stay,
    /// The slots become patches, which are applied when the bytes are collected.
    Patched,
}

/// A source that hands out zeroed ranges of one size, and keeps all of them.
pub struct TinyRanges {
    range_bytes: usize,
    slots: Slots,
    /// Leaked boxes of `range_bytes` bytes.
    ranges: Vec<*mut [u8]>,
    used_bytes: Vec<usize>,
    /// For each patch, the index of its range, its offset there, and the length once it is known.
    patches: Vec<(usize, usize, Option<[u8; 4]>)>,
}

impl TinyRanges {
    pub fn stream(range_bytes: usize, slots: Slots) -> StreamWriter<Self> {
        StreamWriter::new(Self {
            range_bytes,
            slots,
            ranges: Vec::new(),
            used_bytes: Vec::new(),
            patches: Vec::new(),
        })
    }
}

// SAFETY: each range is a separate leaked box, and all of them live as long as the source.
unsafe impl RangeSource for TinyRanges {
    fn next_range(&mut self, mut outgoing: Outgoing<'_>) -> Range {
        if let Some(range_index) = self.ranges.len().checked_sub(1) {
            self.used_bytes.push(outgoing.used_bytes());
            let patches = &mut self.patches;
            let slots = self.slots;
            outgoing.redirect(|offset| match slots {
                Slots::Stay => SlotTarget::InPlace,
                Slots::Patched => {
                    patches.push((range_index, offset, None));
                    SlotTarget::Patch(PatchId(patches.len() as u32 - 1))
                }
            });
        }
        let range = Box::leak(vec![0; self.range_bytes].into_boxed_slice());
        let range: *mut [u8] = range;
        self.ranges.push(range);
        Range::new(range.cast(), self.range_bytes)
    }

    fn patch(&mut self, patch: PatchId, length: [u8; 4]) {
        let slot = &mut self.patches[patch.0 as usize].2;
        assert_eq!(*slot, None, "a slot is patched once");
        *slot = Some(length);
    }
}

impl Drop for TinyRanges {
    fn drop(&mut self) {
        for &range in &self.ranges {
            // SAFETY: `range` is a leaked box, freed only here.
            drop(unsafe { Box::from_raw(range) });
        }
    }
}

/// Returns the used bytes of each range of a finished stream.
pub fn ranges(stream: &mut StreamWriter<TinyRanges>) -> Vec<Vec<u8>> {
    let mut ranges = memory(stream);
    for (range, &used_bytes) in ranges.iter_mut().zip(&stream.source().used_bytes) {
        range.truncate(used_bytes);
    }
    ranges
}

/// Returns the ranges of a finished stream: the last range up to its last used byte, the others
/// whole.
pub fn memory(stream: &mut StreamWriter<TinyRanges>) -> Vec<Vec<u8>> {
    stream.end_messages();
    let last_used_bytes = stream.used_bytes();
    let source = stream.source();
    let mut ranges: Vec<Vec<u8>> = source
        .ranges
        .iter()
        // SAFETY: the range was filled by the stream, which is not writing now.
        .map(|&range| unsafe { &*range }.to_vec())
        .collect();
    if let Some(last) = ranges.last_mut() {
        last.truncate(last_used_bytes);
    }
    for &(range, offset, length) in &source.patches {
        let length = length.expect("every message has ended");
        ranges[range][offset..][..4].copy_from_slice(&length);
    }
    ranges
}

/// Returns all used bytes of a finished stream.
pub fn bytes(stream: &mut StreamWriter<TinyRanges>) -> Vec<u8> {
    ranges(stream).concat()
}

/// Encodes a message on the heap.
#[cfg(feature = "alloc")]
pub fn encode(write: impl FnOnce(&mut Message<'_>)) -> Vec<u8> {
    let mut buffer = protozero::HeapBuffered::<Message>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

/// Encodes a message in ranges of `range_bytes`. Returns the used bytes of each range.
pub fn encode_in_ranges(range_bytes: usize, write: impl FnOnce(&mut Message<'_>)) -> Vec<Vec<u8>> {
    let mut stream = TinyRanges::stream(range_bytes, Slots::Stay);
    write(&mut stream.message());
    ranges(&mut stream)
}

/// A small deterministic generator of random numbers (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
