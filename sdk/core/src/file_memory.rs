//! Memory that is a part of a file, or anonymous: plain bytes with one owner, or words that several
//! threads share.
//!
//! A file's bytes stay when the process is killed. The kernel writes stores to the file in any
//! order only if the machine fails, so after a kill the file has all stores in the order of the
//! program. Files are created by this process, in a folder that only its user can enter
//! (`crash_files/folder.rs`). A file that is cut off while it is mapped ends the process by
//! `SIGBUS`, as a bug of any other program of this user might.
//!
//! Mappings of files are in the table of `fork_guard.rs`: a forked child gets private pages.
#![allow(unsafe_code)] // Maps files, and makes atomics of their bytes.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapMut, MmapOptions, MmapRaw};

use crate::fork_guard;

/// The size of a word.
const WORD_BYTES: usize = size_of::<u64>();

/// Zeroed bytes with one owner.
#[derive(Debug)]
pub struct Pages {
    /// `None` for anonymous memory, of which a forked child has a copy anyway. Dropped before the
    /// mapping.
    _shared: Option<fork_guard::Entry>,
    map: MmapMut,
}

impl Pages {
    /// Maps anonymous memory.
    ///
    /// # Errors
    ///
    /// If the operating system refuses the address space.
    pub fn anonymous(size_bytes: usize) -> io::Result<Self> {
        Ok(Self {
            _shared: None,
            map: MmapMut::map_anon(size_bytes)?,
        })
    }

    /// Maps `size_bytes` of a file from `offset_bytes` on, a multiple of the page size. The file
    /// must be at least that long, and no other process may write to it.
    ///
    /// # Errors
    ///
    /// If the operating system refuses the address space, or this process has too many shared
    /// mappings.
    pub fn of_file(file: &File, offset_bytes: u64, size_bytes: usize) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        // SAFETY: nobody else changes the bytes: the file is private to this process, as the head of
        // this file says.
        let map = unsafe { options.offset(offset_bytes).len(size_bytes).map_mut(file)? };
        // SAFETY: the mapping stays until the entry is dropped. Its bytes are plain data, for which
        // zeros are as good as any.
        let shared = unsafe { fork_guard::Entry::new(map.as_ptr(), size_bytes)? };
        Ok(Self {
            _shared: Some(shared),
            map,
        })
    }

    /// Asks the system for huge pages. If it has none, small ones work as well.
    pub fn prefer_huge(&self) {
        #[cfg(target_os = "linux")]
        let _ = self.map.advise(memmap2::Advice::HugePage);
    }

    /// Asks the system for small pages, also where it gives huge ones to all.
    pub fn avoid_huge(&self) {
        #[cfg(target_os = "linux")]
        let _ = self.map.advise(memmap2::Advice::NoHugePage);
    }

    /// Provides the pages of a part, so that no write to them waits for the system. The part starts at
    /// a multiple of the page size. Without Linux 5.14, each page still comes at the first write to it.
    pub fn populate(&self, part: Range<usize>) {
        #[cfg(target_os = "linux")]
        let _ = (self.map).advise_range(memmap2::Advice::PopulateWrite, part.start, part.len());
        #[cfg(not(target_os = "linux"))]
        let _ = part;
    }
}

impl Deref for Pages {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

/// Zeroed words that threads share.
///
/// Invariant: (W1) The mapping stays in place until it is dropped, and its bytes are only accessed
/// as [`AtomicU64`]s.
#[derive(Debug)]
pub struct SharedWords {
    /// As in [`Pages`].
    _shared: Option<fork_guard::Entry>,
    map: MmapRaw,
}

impl SharedWords {
    /// Maps anonymous memory.
    ///
    /// # Errors
    ///
    /// If the operating system refuses the address space.
    pub fn anonymous(size_bytes: usize) -> io::Result<Self> {
        Ok(Self {
            _shared: None,
            map: MmapMut::map_anon(size_bytes)?.into(),
        })
    }

    /// Maps `size_bytes` of a file from `offset_bytes` on, as [`Pages::of_file`].
    ///
    /// # Errors
    ///
    /// As [`Pages::of_file`].
    pub fn of_file(file: &File, offset_bytes: u64, size_bytes: usize) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        let map = options.offset(offset_bytes).len(size_bytes).map_raw(file)?;
        // SAFETY: the mapping stays until the entry is dropped. Any value is valid for each word.
        let shared = unsafe { fork_guard::Entry::new(map.as_ptr(), size_bytes)? };
        Ok(Self {
            _shared: Some(shared),
            map,
        })
    }

    /// Returns the size of the memory in words.
    #[must_use]
    pub fn len_words(&self) -> usize {
        self.map.len() / WORD_BYTES
    }

    /// Borrows `N` words from the word at `index` on.
    ///
    /// # Panics
    ///
    /// If the memory has no such words.
    #[must_use]
    pub fn words<const N: usize>(self: &Arc<Self>, index: usize) -> Words<N> {
        assert!(
            index
                .checked_add(N)
                .is_some_and(|end| end <= self.len_words()),
            "{N} words at {index} of {}",
            self.len_words()
        );
        // SAFETY: the words lie inside the mapping, as just checked.
        let start = unsafe { self.map.as_mut_ptr().add(index * WORD_BYTES) };
        let words = NonNull::new(start.cast()).expect("no mapping is at address 0");
        Words {
            words,
            memory: Arc::clone(self),
        }
    }
}

/// `N` words of a [`SharedWords`]. An access costs no more than one to a `Box`.
///
/// Invariant: (W2) `words` lie inside of the mapping of `memory`, aligned.
#[derive(Debug)]
pub struct Words<const N: usize> {
    words: NonNull<[AtomicU64; N]>,
    memory: Arc<SharedWords>,
}

// SAFETY: the words are atomics, and the mapping lives as long as `memory` (W1, W2).
unsafe impl<const N: usize> Send for Words<N> {}

// SAFETY: as above.
unsafe impl<const N: usize> Sync for Words<N> {}

impl<const N: usize> Clone for Words<N> {
    fn clone(&self) -> Self {
        Self {
            words: self.words,
            memory: Arc::clone(&self.memory),
        }
    }
}

impl<const N: usize> Deref for Words<N> {
    type Target = [AtomicU64; N];

    #[inline]
    fn deref(&self) -> &[AtomicU64; N] {
        // SAFETY: valid while `self` lives (W1, W2), aligned since mappings start at pages, and only
        // accessed as atomics (W1).
        unsafe { self.words.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn words_of_a_mapping_are_apart() {
        let memory = Arc::new(SharedWords::anonymous(4096).unwrap());
        let (one, other) = (memory.words::<2>(0), memory.words::<2>(510));
        // Relaxed: one thread.
        one[1].store(1, Ordering::Relaxed);
        other[1].store(2, Ordering::Relaxed);
        assert_eq!(memory.words::<1>(1)[0].load(Ordering::Relaxed), 1);
        assert_eq!(memory.words::<1>(511)[0].load(Ordering::Relaxed), 2);
    }

    #[test]
    #[should_panic(expected = "2 words at 511 of 512")]
    fn words_behind_the_end_are_refused() {
        let memory = Arc::new(SharedWords::anonymous(4096).unwrap());
        let _ = memory.words::<2>(511);
    }
}
