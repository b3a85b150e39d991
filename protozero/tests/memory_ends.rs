//! Tests of the end of memory: the n-th request for a range fails, for every n. The bytes written
//! before must be well-formed.
#![cfg(feature = "alloc")]
#![allow(unsafe_code)] // To implement `RangeSource`.

mod support;

use protozero::{
    DecodeError, Decoder, FixedSource, Message, Outgoing, PatchId, Range, RangeSource, SlotTarget,
    StreamWriter, Value,
};
use support::Random;
use support::random_message::{Tree, tree, write_random};

/// The behavior of the source after its last range.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AfterTheEnd {
    /// The source returns `Range::NOWHERE`.
    Nowhere,
    /// The source returns the same memory again and again, and never reads it.
    Discarded,
}

/// A source that hands out ranges of one size until its memory ends. Slots of earlier ranges are
/// patches. At the end of memory, the source fills in open slots with the length up to there.
struct Ending {
    range_bytes: usize,
    ranges_left: usize,
    after_the_end: AfterTheEnd,
    /// The bytes written to earlier ranges.
    kept: Vec<u8>,
    /// A leaked box of `range_bytes` bytes: the current range, and later the discarded memory.
    memory: *mut [u8],
    /// For each patch, its offset in `kept`, and true if the length is known.
    patches: Vec<(usize, bool)>,
    ended: bool,
}

impl Ending {
    fn stream(range_bytes: usize, ranges: usize, after_the_end: AfterTheEnd) -> StreamWriter<Self> {
        StreamWriter::new(Self {
            range_bytes,
            ranges_left: ranges,
            after_the_end,
            kept: Vec::new(),
            memory: Box::leak(vec![0; range_bytes].into_boxed_slice()),
            patches: Vec::new(),
            ended: false,
        })
    }

    fn fill_in(&mut self, offset: usize, length: [u8; 4]) {
        self.kept[offset..][..4].copy_from_slice(&length);
    }

    fn end(&mut self) {
        self.ended = true;
        for (offset, known) in self.patches.clone() {
            if !known {
                let length = (self.kept.len() - offset - 4) as u32;
                self.fill_in(offset, protozero::redundant_varint(length));
            }
        }
    }
}

// SAFETY: the memory is a leaked box that lives as long as the source. It is used again for the
// next range only after its content was copied, and no slot stays in place.
unsafe impl RangeSource for Ending {
    fn next_range(&mut self, mut outgoing: Outgoing<'_>) -> Range {
        if self.ended {
            outgoing.redirect(|_| SlotTarget::Discard);
        } else {
            let begin = self.kept.len();
            // SAFETY: the stream does not write while it asks for a range.
            let range = unsafe { &*self.memory };
            self.kept.extend(&range[..outgoing.used_bytes()]);
            let patches = &mut self.patches;
            outgoing.redirect(|offset| {
                patches.push((begin + offset, false));
                SlotTarget::Patch(PatchId(patches.len() as u32 - 1))
            });
        }
        match self.ranges_left.checked_sub(1) {
            Some(left) => self.ranges_left = left,
            None if self.ended => {}
            None => self.end(),
        }
        match self.after_the_end {
            AfterTheEnd::Nowhere if self.ended => Range::NOWHERE,
            _ => Range::new(self.memory.cast(), self.range_bytes),
        }
    }

    fn patch(&mut self, patch: PatchId, length: [u8; 4]) {
        if !self.ended {
            let (offset, known) = &mut self.patches[patch.0 as usize];
            *known = true;
            let offset = *offset;
            self.fill_in(offset, length);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // SAFETY: `memory` is a leaked box, freed only here.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}

/// Checks that `bytes` are a prefix of the encoded fields `meant`. A message that was still open
/// ends where `bytes` end.
fn assert_cut_short(bytes: &[u8], meant: &[(u32, Tree)]) {
    let mut meant = meant.iter();
    let mut fields = Decoder::new(bytes).fields();
    loop {
        let offset = fields.offset();
        let field = match fields.next() {
            None => return,
            Some(Ok(field)) => field,
            Some(Err(error)) => {
                assert_eq!(error, DecodeError::Truncated { offset });
                // A message can lack its length slot, if memory ended behind the tag. A message
                // with a slot is not truncated: the source filled in a length that ends where
                // `bytes` end.
                if let Some((5 | 9, _)) = meant.next() {
                    assert_eq!(bytes.len() - offset, 1);
                }
                return;
            }
        };
        let (number, expected) = meant.next().expect("no more fields than meant");
        assert_eq!(field.number, *number);
        let is_last = fields.offset() == bytes.len();
        match (field.value, expected) {
            (Value::Bytes(payload), Tree::Message(nested)) if is_last => {
                assert_cut_short(payload, nested);
            }
            (Value::Bytes(payload), Tree::Message(nested)) => assert_eq!(tree(payload), *nested),
            // An unfinished packed field is cut like a message.
            (Value::Bytes(payload), Tree::Bytes(expected)) if is_last => {
                assert!(expected.starts_with(payload));
            }
            (Value::Bytes(payload), Tree::Bytes(expected)) => assert_eq!(payload, expected),
            (Value::Varint(value), expected) => assert_eq!(Tree::Varint(value), *expected),
            (Value::Fixed64(value), expected) => assert_eq!(Tree::Fixed64(value), *expected),
            (Value::Fixed32(value), expected) => assert_eq!(Tree::Fixed32(value), *expected),
            (value, expected) => panic!("{value:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn bytes_before_the_end_of_memory_are_well_formed() {
    for seed in 1..=40 {
        for range_bytes in [4, 5, 7, 16, 61, 256] {
            for after_the_end in [AfterTheEnd::Nowhere, AfterTheEnd::Discarded] {
                for ranges in 0.. {
                    let mut stream = Ending::stream(range_bytes, ranges, after_the_end);
                    let mut random = Random(seed * 0x9e37_79b9);
                    let meant = write_random(&mut stream.message(), &mut random, 5);
                    let written_bytes = stream.written_bytes();
                    stream.next_range();
                    let source = stream.source();
                    assert_cut_short(&source.kept, &meant);
                    assert!(source.kept.len() as u64 <= written_bytes);
                    if !source.ended || source.kept.len() as u64 == written_bytes {
                        assert_eq!(tree(&source.kept), meant);
                        break;
                    }
                    assert!(source.kept.len() <= ranges * range_bytes);
                }
            }
        }
    }
}

/// Checks that bytes after the end of memory are counted as if there were memory.
#[test]
fn discarded_bytes_are_counted_like_kept_bytes() {
    for seed in 1..=200 {
        let meant = |message: &mut Message<'_>| {
            let _ = write_random(message, &mut Random(seed), 5);
        };
        let mut nowhere = Ending::stream(4, 0, AfterTheEnd::Nowhere);
        meant(&mut nowhere.message());
        let mut kept = Ending::stream(4, usize::MAX, AfterTheEnd::Nowhere);
        meant(&mut kept.message());
        // Without memory, every length counts 4 bytes. In ranges of 4 bytes only the lengths of
        // empty messages can be shorter.
        assert!(nowhere.written_bytes() >= kept.written_bytes());
        assert!(nowhere.source().kept.is_empty());
        assert_eq!(nowhere.dropped_fields(), 0);
    }
}

#[test]
fn stream_writes_again_when_the_source_has_memory_again() {
    let mut stream = Ending::stream(8, 0, AfterTheEnd::Nowhere);
    stream.message().append_string::<1>("nowhere");
    assert_eq!((stream.used_bytes(), stream.available_bytes()), (0, 0));
    assert_eq!(stream.written_bytes(), 9);
    stream.release_range();
    // SAFETY: the stream has released its range.
    let source = unsafe { stream.source_mut() };
    (source.ranges_left, source.ended) = (1, false);
    stream.message().append_string::<1>("here");
    stream.next_range();
    assert_eq!(stream.source().kept, b"\x0a\x04here");
    assert_eq!(stream.written_bytes(), 15);
}

#[test]
fn root_slot_needs_memory() {
    let mut memory = [0; 6];
    let mut stream = FixedSource::stream(&mut memory);
    stream.append_slot();
    stream.append_slot();
    assert!(stream.source().overflowed());
    assert_eq!((stream.used_bytes(), stream.written_bytes()), (0, 8));
}
