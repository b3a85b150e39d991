//! Stores at an address: bytes, short ones without a call, varints, and lengths.
//!
//! The fields that need one check of room for several parts are written through these functions: they
//! keep the address in a register, where the cursor itself would have to be stored and loaded again
//! between the parts, since the bytes that are written could be those of the cursor for all that the
//! compiler knows.

use core::ptr;

use crate::varint::{MAX_VARINT_BYTES, encode_varint, spread_groups, spread_varint};
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

/// Does what [`put_at`] does. Most strings of a trace are this short: they need no call.
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

/// Does what [`put_at`] does for at most 127 bytes, without a call.
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

/// Does what [`put_at`] does for `N` to `2 * N` bytes: the first `N` and the last `N`, which may
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
/// The length is found by branches, though it could be computed without: the lengths at one call
/// site are usually alike, and a branch that is predicted tells where the next field goes before
/// the value is there.
///
/// # Safety
///
/// As for [`put_at`], with [`MAX_VARINT_BYTES`] bytes, whatever the value is.
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
pub(super) unsafe fn put_long_varint_at(at: *mut u8, value: u64) -> *mut u8 {
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
pub(super) unsafe fn write_before(payload: *mut u8, length: [u8; SLOT_BYTES]) {
    // SAFETY: promised by the caller.
    let slot = unsafe { payload.sub(SLOT_BYTES) };
    // SAFETY: promised by the caller; an array of bytes has no alignment.
    unsafe { slot.cast::<[u8; SLOT_BYTES]>().write(length) };
}
