//! Tests of `IndexedMessage`: a lookup must return what a scan with `Decoder` returns.
#![cfg(feature = "alloc")]

mod support;

use protozero::types::{Bytes, FieldType, Sint64, Str, Uint32, Uint64};
use protozero::{DecodeError, Decoder, Field, GROUPS_MAX_DEPTH, IndexedMessage};
use support::random_message::write_random;
use support::{Random, encode};

/// The field number of each slot: singular fields, then repeated fields. Messages of `write_random`
/// have other fields as well.
const NUMBERS: [u32; 6] = [1, 300, 9, 1, 300, 5];
const SINGULAR: usize = 3;

fn indexed(bytes: &[u8], is_singular: bool) -> IndexedMessage<'_, 6> {
    let from = if is_singular { 0 } else { SINGULAR };
    IndexedMessage::new(bytes, SINGULAR, move |number| {
        let known = NUMBERS[from..].iter().position(|it| *it == number);
        known.map_or(6, |slot| from + slot)
    })
}

fn assert_last<T: FieldType>(bytes: &[u8], slot: usize)
where
    for<'a> T::Value<'a>: PartialEq + std::fmt::Debug,
{
    let searched = Decoder::new(bytes).last::<T>(NUMBERS[slot]);
    assert_eq!(indexed(bytes, true).last::<T>(slot), searched);
}

fn assert_repeated<T: FieldType>(bytes: &[u8], slot: usize)
where
    for<'a> T::Value<'a>: PartialEq + std::fmt::Debug,
{
    let searched = Decoder::new(bytes).repeated::<T>(NUMBERS[slot]);
    let found = indexed(bytes, false).repeated::<T>(slot, NUMBERS[slot]);
    assert_eq!(Vec::from_iter(found), Vec::from_iter(searched));
}

fn assert_as_searched(bytes: &[u8]) {
    for slot in 0..SINGULAR {
        assert_last::<Uint64>(bytes, slot);
        assert_last::<Bytes>(bytes, slot);
    }
    for slot in SINGULAR..NUMBERS.len() {
        assert_repeated::<Sint64>(bytes, slot);
        assert_repeated::<Str>(bytes, slot);
    }
}

#[test]
fn lookup_finds_what_a_scan_finds() {
    let mut random = Random(7);
    for _ in 0..500 {
        let mut bytes = encode(|message| drop(write_random(message, &mut random, 3)));
        assert_as_searched(&bytes);
        // Check damaged messages, too.
        for _ in 0..4 {
            if !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            assert_as_searched(&bytes);
            assert_as_searched(&bytes[..bytes.len() / 2]);
        }
    }
}

#[test]
fn groups_before_a_field_are_skipped() {
    // Field 1, a group with field 1 in it, field 1.
    let bytes = [0x08, 1, 0x13, 0x08, 2, 0x14, 0x08, 3];
    assert_eq!(indexed(&bytes, true).last::<Uint32>(0), Ok(Some(3)));
    let repeated = indexed(&bytes, false).repeated::<Uint32>(3, 1);
    assert!(repeated.eq([Ok(1), Ok(3)]));
    let deep = vec![0x13; GROUPS_MAX_DEPTH + 1];
    let error = indexed(&deep, true).last::<Uint32>(0);
    assert_eq!(error, Err(DecodeError::GroupsTooDeep { offset: 0 }));
}

#[test]
fn last_of_finds_the_field_that_was_written_last() {
    let bytes = [0x08, 1, 0x4a, 1, b'x', 0x08, 2];
    let found = |bytes| {
        let field = indexed(bytes, true).last_of([0, 2]).unwrap();
        field.map(|Field { number, .. }| number)
    };
    assert_eq!(found(&bytes), Some(1));
    assert_eq!(found(&bytes[..5]), Some(9));
    assert_eq!(found(&[]), None);
}

#[test]
fn elements_before_the_malformed_bytes_come_before_the_error() {
    let bytes = [0x08, 1, 0x08, 2, 0x0a, 9];
    let mut elements = indexed(&bytes, false).repeated::<Uint32>(3, 1);
    let truncated = DecodeError::Truncated { offset: 4 };
    let expected = [Some(Ok(1)), Some(Ok(2)), Some(Err(truncated)), None];
    assert_eq!(expected.map(|_| elements.next()), expected);
    assert_eq!(indexed(&bytes, true).last::<Uint32>(0), Err(truncated));
}

#[test]
fn unknown_slot_is_empty() {
    let message = indexed(&[0x08, 1], true);
    assert_eq!(message.last::<Uint32>(6), Ok(None));
    assert_eq!(message.repeated::<Uint32>(6, 1).count(), 0);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_message_of_4_gib_is_refused_before_it_is_read() {
    // Zeroed memory that is never accessed is not committed by the system.
    let bytes = vec![0; 1 << 32];
    let error = indexed(&bytes, true).last::<Uint32>(0);
    assert_eq!(error, Err(DecodeError::MessageTooLong));
}
