//! The bytes of the shared memory: one anonymous mapping, reached by offsets.
//!
//! This is where addresses are made; who may reach which bytes when is for the callers to prove.
//! `backing_loom.rs` is its twin for model tests.
#![allow(unsafe_code)] // Shared memory cannot be had without raw addresses.

use std::io;

use memmap2::{MmapMut, MmapRaw};

use super::layout::{ChunkHeader, PAGE_SIZE_MIN_BYTES};
use super::sync::AtomicU32;

/// Zeroed memory.
///
/// Invariants:
/// - (B1) The mapping is readable and writable, starts at a multiple of
///   [`PAGE_SIZE_MIN_BYTES`], and stays where it is until `self` is dropped.
/// - (B2) No reference to its bytes is made but by the methods below.
#[derive(Debug)]
pub(super) struct Backing {
    map: MmapRaw,
}

impl Backing {
    pub(super) fn zeroed(size_bytes: usize) -> io::Result<Self> {
        let map = MmapRaw::from(MmapMut::map_anon(size_bytes)?);
        if map.as_ptr().addr() % PAGE_SIZE_MIN_BYTES != 0 {
            return Err(io::Error::other("the mapping is not aligned to 4096 bytes"));
        }
        Ok(Self { map })
    }

    /// The word of the page that starts at `offset_bytes`.
    ///
    /// # Safety
    ///
    /// A page starts there.
    pub(super) unsafe fn page_word(&self, offset_bytes: usize) -> &AtomicU32 {
        // SAFETY: a page starts there, so the offset is inside the mapping.
        let word = unsafe { self.address(offset_bytes) };
        // SAFETY: by B1 the address is valid for the life of `self`, and aligned like its page; the
        // first four bytes of a page are only ever accessed here.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    /// The header of the chunk that starts at `offset_bytes`.
    ///
    /// # Safety
    ///
    /// A chunk starts there in the present layout of its page, and the page keeps the layout as
    /// long as the header is accessed.
    pub(super) unsafe fn chunk_header(&self, offset_bytes: usize) -> &ChunkHeader {
        // SAFETY: a chunk starts there, so the offset is inside the mapping.
        let header = unsafe { self.address(offset_bytes) };
        // SAFETY: by B1 the address is valid for the life of `self`; chunks are aligned for their
        // header, which consists of atomics. While the page keeps its layout these bytes are no
        // payload, so nobody accesses them but through this type.
        unsafe { &*header.cast::<ChunkHeader>() }
    }

    /// The address of the byte at `offset_bytes`.
    ///
    /// # Safety
    ///
    /// The offset is not past the end of the mapping.
    pub(super) unsafe fn address(&self, offset_bytes: usize) -> *mut u8 {
        // SAFETY: the offset is within the mapping, which is one allocation (B1).
        unsafe { self.map.as_mut_ptr().add(offset_bytes) }
    }

    /// The `len` bytes from `offset_bytes`.
    ///
    /// # Safety
    ///
    /// The bytes are payload inside the mapping, and nobody writes them as long as the slice
    /// lives. All writes to them happened before.
    pub(super) unsafe fn read(&self, offset_bytes: usize, len: usize) -> &[u8] {
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { self.address(offset_bytes) };
        // SAFETY: valid by B1, initialized since the mapping started zeroed, and not written
        // meanwhile, as the caller promises.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Writes `bytes` from `offset_bytes`.
    ///
    /// # Safety
    ///
    /// The bytes are payload inside the mapping, and nobody else accesses them meanwhile.
    pub(super) unsafe fn write(&self, offset_bytes: usize, bytes: &[u8]) {
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { self.address(offset_bytes) };
        // SAFETY: valid for writes by B1, exclusive by the caller's promise, and `bytes` is
        // elsewhere: a slice of the mapping would be an access by somebody else.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) }
    }
}
