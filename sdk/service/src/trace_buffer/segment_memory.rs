//! The memory of a segment of the ring: anonymous, or a part of a crash file.

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use tracezero_core::crash_files::{CrashFilesError, FileSegment, RingFile};
use tracezero_core::file_memory::Pages;

/// The memory of a segment: zeroed at first.
#[derive(Debug)]
pub(crate) struct SegmentMemory {
    /// Dropped before `file_segment`.
    pages: Pages,
    /// The part of the file that the pages are in, if they are in one.
    file_segment: Option<FileSegment>,
}

impl Deref for SegmentMemory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.pages
    }
}

impl DerefMut for SegmentMemory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages
    }
}

impl SegmentMemory {
    /// Maps memory that takes no pages before it is written to.
    fn map(size_bytes: u32) -> io::Result<Self> {
        #[cfg(test)]
        memory_refusal::check()?;
        Ok(Self {
            pages: Pages::anonymous(size_bytes as usize)?,
            file_segment: None,
        })
    }

    /// Maps memory as [`map`](Self::map) does, in huge pages if it is large. They make the first lap of
    /// the write cursor several times faster, and later laps a little faster. At most one huge page is
    /// used only in part, which is little compared to memory of this size.
    pub(super) fn of_huge_pages(size_bytes: u32) -> io::Result<Self> {
        const HUGE_PAGES_FROM_BYTES: u32 = 8 << 20;
        let memory = Self::map(size_bytes)?;
        if size_bytes >= HUGE_PAGES_FROM_BYTES {
            memory.pages.prefer_huge();
        }
        Ok(memory)
    }

    /// Maps memory in small pages, which come when they are written to, or when they are
    /// [provided](Self::populate).
    pub(super) fn of_small_pages(size_bytes: u32) -> io::Result<Self> {
        let memory = Self::map(size_bytes)?;
        memory.pages.avoid_huge();
        Ok(memory)
    }

    /// Maps a new segment of a file.
    pub(super) fn map_in_file(file: &Arc<RingFile>) -> Result<Self, CrashFilesError> {
        let (pages, segment) = file.add_segment()?;
        Ok(Self {
            pages,
            file_segment: Some(segment),
        })
    }

    /// Maps memory for a segment of a growing ring, with all pages present. This is slow, so call
    /// it without a lock. `file` is that of the ring, if it has one.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses the address space, or the file system the
    /// room.
    pub(crate) fn map_ahead(size_bytes: u32, file: Option<&Arc<RingFile>>) -> io::Result<Self> {
        let memory = match file {
            Some(file) => Self::map_in_file(file).map_err(io::Error::other)?,
            None => Self::of_huge_pages(size_bytes)?,
        };
        memory.populate(0..memory.len() as u32);
        Ok(memory)
    }

    /// Provides the pages of a part, which starts at a multiple of the page size.
    pub(super) fn populate(&self, part: Range<u32>) {
        self.pages.populate(part.start as usize..part.end as usize);
    }

    /// Returns the part of the file that the memory is in, if it is in one.
    pub(super) fn file_segment(&self) -> Option<&FileSegment> {
        self.file_segment.as_ref()
    }
}

/// A simulation of exhausted memory.
#[cfg(test)]
pub(crate) mod memory_refusal {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static MAPPINGS_LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    }

    /// Calls `work`. During the call, only `mappings_left` mappings succeed on this thread.
    pub(crate) fn after<R>(mappings_left: u32, work: impl FnOnce() -> R) -> R {
        MAPPINGS_LEFT.set(mappings_left);
        let result = work();
        MAPPINGS_LEFT.set(u32::MAX);
        result
    }

    pub(super) fn check() -> io::Result<()> {
        let left = MAPPINGS_LEFT.get();
        MAPPINGS_LEFT.set(left.saturating_sub(1));
        if left == 0 {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }
}
