//! Replaces `backing.rs` in model tests. Headers are loom's atomics, kept outside of the memory.
//! Loom checks accesses to the first bytes of each page for data races.
#![allow(unsafe_code)] // As in `backing.rs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use loom::cell::UnsafeCell;
use memmap2::{MmapMut, MmapRaw};

use super::layout::{ChunkHeader, PAGE_SIZE_MIN_BYTES, PageLayout};
use super::sync::AtomicU32;

/// The number of bytes of each page that loom checks: the first chunk's header and some of its
/// payload.
const WATCHED_BYTES: usize = 64;

/// A cell that stands for one byte. Loom fails the model if accesses to it race.
#[derive(Debug)]
struct Watch(UnsafeCell<()>);

// SAFETY: the cell has no content, and loom runs one thread at a time.
unsafe impl Sync for Watch {}

/// A mapping of memory, zeroed at first, with pages of the smallest size.
#[derive(Debug)]
pub(super) struct Backing {
    map: MmapRaw,
    page_words: Vec<AtomicU32>,
    chunk_headers: BTreeMap<usize, ChunkHeader>,
    watches: Vec<Watch>,
}

impl Backing {
    /// Models have no files.
    pub(super) fn of_file(_: &File, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Models have no files.
    pub(super) fn of_foreign(_: &File, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Models have no dead processes.
    pub(super) fn of_bytes(_: &[u8]) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn zeroed(size_bytes: usize) -> io::Result<Self> {
        let pages = size_bytes / PAGE_SIZE_MIN_BYTES;
        let mut chunk_headers = BTreeMap::new();
        for page in 0..pages {
            for layout in PageLayout::ALL {
                for chunk in 0..layout.chunk_count() {
                    let offset_bytes = page * PAGE_SIZE_MIN_BYTES
                        + layout.chunk_offset_bytes(PAGE_SIZE_MIN_BYTES, chunk);
                    chunk_headers
                        .entry(offset_bytes)
                        .or_insert_with(ChunkHeader::zeroed);
                }
            }
        }
        Ok(Self {
            map: MmapRaw::from(MmapMut::map_anon(size_bytes)?),
            page_words: (0..pages).map(|_| AtomicU32::new(0)).collect(),
            chunk_headers,
            watches: (0..pages * WATCHED_BYTES)
                .map(|_| Watch(UnsafeCell::new(())))
                .collect(),
        })
    }

    /// # Safety
    ///
    /// As in `backing.rs`.
    pub(super) unsafe fn page_word(&self, offset_bytes: usize) -> &AtomicU32 {
        &self.page_words[offset_bytes / PAGE_SIZE_MIN_BYTES]
    }

    /// # Safety
    ///
    /// As in `backing.rs`.
    pub(super) unsafe fn chunk_header(&self, offset_bytes: usize) -> &ChunkHeader {
        &self.chunk_headers[&offset_bytes]
    }

    /// # Safety
    ///
    /// As in `backing.rs`.
    pub(super) unsafe fn address(&self, offset_bytes: usize) -> *mut u8 {
        // SAFETY: the offset is within the mapping.
        unsafe { self.map.as_mut_ptr().add(offset_bytes) }
    }

    /// # Safety
    ///
    /// As in `backing.rs`. Loom checks that no write is concurrent with the call.
    pub(super) unsafe fn read(&self, offset_bytes: usize, len: usize) -> &[u8] {
        self.watches(offset_bytes, len)
            .for_each(|watch| watch.0.with(|_| ()));
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { self.address(offset_bytes) };
        // SAFETY: inside the mapping; loom runs one thread at a time.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// # Safety
    ///
    /// As in `backing.rs`. Loom checks that no write is concurrent with the call, although each load
    /// is atomic: an honest producer does not write what the service copies.
    pub(super) unsafe fn copy_out(&self, offset_bytes: usize, copy: &mut [u8]) {
        // SAFETY: the caller's promise.
        copy.copy_from_slice(unsafe { self.read(offset_bytes, copy.len()) });
    }

    /// # Safety
    ///
    /// As in `backing.rs`.
    pub(super) unsafe fn clear_word(&self, offset_bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.write(offset_bytes, &[0; 4]) };
    }

    /// # Safety
    ///
    /// As in `backing.rs`. Loom checks that no access is concurrent with the call.
    pub(super) unsafe fn write(&self, offset_bytes: usize, bytes: &[u8]) {
        self.watches(offset_bytes, bytes.len())
            .for_each(|watch| watch.0.with_mut(|_| ()));
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { self.address(offset_bytes) };
        // SAFETY: inside the mapping; loom runs one thread at a time.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) }
    }

    fn watches(&self, offset_bytes: usize, len: usize) -> impl Iterator<Item = &Watch> {
        (offset_bytes..offset_bytes + len)
            .filter(|offset| offset % PAGE_SIZE_MIN_BYTES < WATCHED_BYTES)
            .map(|offset| {
                let page = offset / PAGE_SIZE_MIN_BYTES;
                &self.watches[page * WATCHED_BYTES + offset % PAGE_SIZE_MIN_BYTES]
            })
    }
}
