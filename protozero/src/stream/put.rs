//! Raw stores at an address: bytes, short byte strings without a call, varints, and lengths.
//!
//! The stream writes a field of several parts with these functions, after one check of room. They
//! take and return the address, so that it stays in a register. The compiler would store and reload
//! the stream's cursor between the parts, because it cannot know that the written bytes do not
//! overlap the cursor.

use core::ptr;

use crate::varint::{VARINT_MAX_BYTES, encode_varint, spread_groups, spread_varint};
use crate::wire::SLOT_BYTES;

/// Copies bytes to `at`; returns the address behind them.
///
/// # Safety
///
/// All `bytes.len()` bytes from `at` must be free bytes of the current range, which nobody but its
/// stream accesses.
#[inline(always)]
pub(super) unsafe fn put_at(at: *mut u8, bytes: &[u8]) -> *mut u8 {
    // SAFETY: promised by the caller; `bytes` cannot overlap memory that nobody else accesses.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    // SAFETY: promised by the caller.
    unsafe { at.add(bytes.len()) }
}

/// Copies bytes like [`put_at`], without a call to `memcpy` for 8 to 32 bytes: most strings of a
/// trace are that short.
///
/// # Safety
///
/// As for [`put_at`].
#[inline(always)]
pub(super) unsafe fn put_short_at(at: *mut u8, bytes: &[u8]) -> *mut u8 {
    match bytes.len() {
        // SAFETY: promised by the caller.
        17..=32 => unsafe { put_halves_at::<16>(at, bytes) },
        // SAFETY: promised by the caller.
        8..=16 => unsafe { put_halves_at::<8>(at, bytes) },
        // SAFETY: promised by the caller.
        _ => unsafe { put_at(at, bytes) },
    }
}

/// Copies at most 127 bytes like [`put_at`], without a call to `memcpy`.
///
/// # Safety
///
/// As for [`put_at`].
#[inline(always)]
pub(super) unsafe fn put_compact_at(at: *mut u8, bytes: &[u8]) -> *mut u8 {
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

/// Copies `N` to `2 * N` bytes like [`put_at`], as the first `N` and the last `N`, which may
/// overlap.
///
/// # Safety
///
/// As for [`put_at`].
#[inline(always)]
pub(super) unsafe fn put_halves_at<const N: usize>(at: *mut u8, bytes: &[u8]) -> *mut u8 {
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
/// The length is found with branches, although it could be computed without them. The lengths at
/// one call site are usually alike. So the processor predicts the branch, and knows the address of
/// the next field before it knows the value.
///
/// # Safety
///
/// As for [`put_at`], with [`VARINT_MAX_BYTES`] bytes, independent of the value.
#[inline(always)]
pub(super) unsafe fn put_varint_at(at: *mut u8, value: u64) -> *mut u8 {
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
        // All 4 bytes are stored, because there is room for them.
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

/// Encodes a varint of more than 35 bits: time stamps, addresses, negative numbers. Not inlined,
/// because otherwise the setter of every 64-bit field would contain a copy.
///
/// # Safety
///
/// As for [`put_varint_at`].
#[inline(never)]
pub(super) unsafe fn put_long_varint_at(at: *mut u8, value: u64) -> *mut u8 {
    if value >= 1 << 56 {
        let mut bytes = [0; VARINT_MAX_BYTES];
        let len = encode_varint(value, &mut bytes);
        // SAFETY: promised by the caller.
        return unsafe { put_at(at, &bytes[..len]) };
    }
    let (word, len) = spread_varint(value);
    // All 8 bytes are stored, whatever the length, because there is room for them.
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
pub(super) unsafe fn write_before(payload: *mut u8, length: [u8; SLOT_BYTES]) {
    // SAFETY: promised by the caller.
    let slot = unsafe { payload.sub(SLOT_BYTES) };
    // SAFETY: promised by the caller; an array of bytes has alignment 1.
    unsafe { slot.cast::<[u8; SLOT_BYTES]>().write(length) };
}
