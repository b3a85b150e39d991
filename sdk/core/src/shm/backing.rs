//! The bytes of the shared memory: one mapping, anonymous or of a file, accessed by offsets.
//!
//! This module turns offsets into addresses. For each access, its callers prove that they may
//! access the bytes at that moment. `backing_loom.rs` replaces it in model tests.
#![allow(unsafe_code)] // Shared memory needs raw addresses.

use std::fs::File;
use std::io;

use memmap2::{MmapMut, MmapOptions, MmapRaw};

use super::layout::{ChunkHeader, PAGE_SIZE_MIN_BYTES};
use super::sync::{AtomicU8, AtomicU32, Ordering};
use crate::fork_guard;

/// A mapping of memory.
///
/// Invariants:
/// - (B1) The mapping is readable and writable, starts at a multiple of [`PAGE_SIZE_MIN_BYTES`],
///   and stays at the same address until `self` is dropped.
/// - (B2) Only the methods below make references to its bytes.
#[derive(Debug)]
pub(super) struct Backing {
    /// The entry by which a forked child replaces the mapping. `None` for anonymous memory, which a
    /// fork copies anyway, and for [foreign](Self::of_foreign) memory. Dropped before the mapping.
    _shared: Option<fork_guard::Entry>,
    map: MmapRaw,
}

impl Backing {
    pub(super) fn zeroed(size_bytes: usize) -> io::Result<Self> {
        let map = MmapRaw::from(MmapMut::map_anon(size_bytes)?);
        Self::of_map(map, None)
    }

    /// Maps the first `size_bytes` of a file, which must be at least that long.
    pub(super) fn of_file(file: &File, size_bytes: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(size_bytes).map_raw(file)?;
        // SAFETY: the mapping stays until the entry is dropped. In a quiet child, the only users of
        // the memory are packets that were open at the fork: they store and never read back.
        let shared = unsafe { fork_guard::Entry::new(map.as_ptr(), size_bytes)? };
        Self::of_map(map, Some(shared))
    }

    /// Maps the first `size_bytes` of a file that another process writes to, and which is at least
    /// that long.
    ///
    /// A forked child keeps this mapping, because a service may have more such mappings than the
    /// child could replace. No thread of the child accesses the mapping.
    pub(super) fn of_foreign(file: &File, size_bytes: usize) -> io::Result<Self> {
        Self::of_map(MmapOptions::new().len(size_bytes).map_raw(file)?, None)
    }

    /// Maps anonymous memory with this content.
    pub(super) fn of_bytes(bytes: &[u8]) -> io::Result<Self> {
        let mut map = MmapMut::map_anon(bytes.len())?;
        map.copy_from_slice(bytes);
        Self::of_map(map.into(), None)
    }

    fn of_map(map: MmapRaw, shared: Option<fork_guard::Entry>) -> io::Result<Self> {
        if !map.as_ptr().addr().is_multiple_of(PAGE_SIZE_MIN_BYTES) {
            return Err(io::Error::other("the mapping is not aligned to 4096 bytes"));
        }
        Ok(Self {
            _shared: shared,
            map,
        })
    }

    /// Returns the page word of the page that starts at `offset_bytes`.
    ///
    /// # Safety
    ///
    /// A page starts at `offset_bytes`.
    pub(super) unsafe fn page_word(&self, offset_bytes: usize) -> &AtomicU32 {
        // SAFETY: a page starts at the offset, so the offset is inside the mapping.
        let word = unsafe { self.address(offset_bytes) };
        // SAFETY: by B1 the address is valid for the life of `self`, and aligned like its page.
        // Only this method accesses the first four bytes of a page.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    /// Returns the header of the chunk that starts at `offset_bytes`.
    ///
    /// # Safety
    ///
    /// In one of the page layouts, a chunk starts at `offset_bytes`. As long as the returned
    /// reference is used, this process accesses the header's bytes only by atomics.
    pub(super) unsafe fn chunk_header(&self, offset_bytes: usize) -> &ChunkHeader {
        // SAFETY: a chunk starts at the offset, so the offset is inside the mapping.
        let header = unsafe { self.address(offset_bytes) };
        // SAFETY: by B1 the address is valid for the life of `self`. Chunks are aligned for their
        // header, which consists of atomics. The caller promises that nothing else in this process
        // accesses the header in another way.
        unsafe { &*header.cast::<ChunkHeader>() }
    }

    /// Returns the address of the byte at `offset_bytes`.
    ///
    /// # Safety
    ///
    /// The offset is not past the end of the mapping.
    pub(super) unsafe fn address(&self, offset_bytes: usize) -> *mut u8 {
        // SAFETY: the offset is within the mapping, which is one allocation (B1).
        unsafe { self.map.as_mut_ptr().add(offset_bytes) }
    }

    /// Returns the `len` bytes from `offset_bytes` on.
    ///
    /// # Safety
    ///
    /// The bytes are payload inside the mapping. All writes to them happened before this call, and
    /// none happens as long as the slice lives.
    pub(super) unsafe fn read(&self, offset_bytes: usize, len: usize) -> &[u8] {
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { self.address(offset_bytes) };
        // SAFETY: the bytes are valid by B1. They are initialized, because a new mapping already
        // has content. The caller promises that nobody writes to them while the slice lives.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Copies the bytes from `offset_bytes` on to `copy`. Loads each byte once, with relaxed
    /// atomics, because another process may write to the bytes meanwhile.
    ///
    /// # Safety
    ///
    /// The bytes are payload inside the mapping. During the call, this process accesses them
    /// only by atomics, or only reads them. All other writes of this process to the bytes happened
    /// before the call.
    #[inline]
    pub(super) unsafe fn copy_out(&self, offset_bytes: usize, copy: &mut [u8]) {
        let unaligned_bytes = offset_bytes.next_multiple_of(size_of::<u32>()) - offset_bytes;
        let (head, rest) = copy.split_at_mut(unaligned_bytes.min(copy.len()));
        let mut words = rest.chunks_exact_mut(size_of::<u32>());
        // SAFETY: the offset is inside the mapping.
        let mut from = unsafe { self.address(offset_bytes) };
        for byte in head {
            // SAFETY: this byte is one of those that the caller's promise covers.
            *byte = unsafe { AtomicU8::from_ptr(from) }.load(Ordering::Relaxed);
            from = from.wrapping_add(1);
        }
        for word in &mut words {
            // SAFETY: the caller's promise covers these four bytes. The address is a multiple of 4,
            // because the mapping is aligned (B1), and the offset behind `head` is a multiple of 4.
            let value = unsafe { AtomicU32::from_ptr(from.cast()) }.load(Ordering::Relaxed);
            word.copy_from_slice(&value.to_le_bytes());
            from = from.wrapping_add(size_of::<u32>());
        }
        for byte in words.into_remainder() {
            // SAFETY: this byte, too, is one of those that the caller's promise covers.
            *byte = unsafe { AtomicU8::from_ptr(from) }.load(Ordering::Relaxed);
            from = from.wrapping_add(1);
        }
    }

    /// Zeroes the four bytes from `offset_bytes` on, with a relaxed store.
    ///
    /// # Safety
    ///
    /// The offset is a multiple of 4. The bytes are payload inside the mapping. During the call,
    /// this process accesses them only by atomics.
    pub(super) unsafe fn clear_word(&self, offset_bytes: usize) {
        // SAFETY: the offset is inside the mapping.
        let word = unsafe { self.address(offset_bytes) };
        // SAFETY: the address is valid by B1, and aligned. The caller promises that this process
        // accesses the bytes only by atomics.
        unsafe { AtomicU32::from_ptr(word.cast()) }.store(0, Ordering::Relaxed);
    }

    /// Writes `bytes` from `offset_bytes` on.
    ///
    /// # Safety
    ///
    /// The written bytes are payload inside the mapping. No other code accesses them during the
    /// call.
    pub(super) unsafe fn write(&self, offset_bytes: usize, bytes: &[u8]) {
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { self.address(offset_bytes) };
        // SAFETY: by B1 the destination is valid for writes. The caller promises that no other code
        // accesses the destination during the call. So `bytes`, which the call only reads, does not
        // overlap the destination.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) }
    }
}
