//! The file of a ring: its header, and its segments with slots.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use parking_lot::Mutex;

use super::directory::{self, new_file};
use super::error::CrashFilesError;
use super::format::{HEADER_BYTES, Place, RingHeader, ring_words};
use super::session_folder::SessionFolder;
use crate::file_memory::{Pages, SharedWords, Words};
use crate::forked_child;
use crate::ids::BufferId;

/// The file of a ring. Removed when this and the last of its segments are dropped.
#[derive(Debug)]
pub struct RingFile {
    session: Arc<SessionFolder>,
    path: PathBuf,
    file: File,
    header: RingHeader,
    /// The words of [`ring_words`], from [`ring_words::PLACE`] on.
    words: Words<4>,
    segments: Mutex<Segments>,
}

/// The segments of the file.
#[derive(Debug, Default)]
struct Segments {
    /// The number of segments that the file has.
    count: u32,
    /// The numbers of segments that were given back.
    free: Vec<u32>,
}

impl RingFile {
    /// Creates the file of a ring without segments. `buffer_index` is the position of the buffer in
    /// the session's configuration.
    ///
    /// # Errors
    ///
    /// If the directory has no room for it, or the system refuses the mapping.
    pub fn create(
        session: &Arc<SessionFolder>,
        buffer_index: u32,
        segment_bytes: u32,
        discards: bool,
    ) -> Result<Arc<Self>, CrashFilesError> {
        let header = RingHeader {
            nonce: session.nonce(),
            segment_bytes,
            buffer_index,
            generation: session.next_ring(),
            discards,
        };
        let path = session.path().join(format!("b{}", number_of(&header)));
        let io = || CrashFilesError::io(&path);
        let file = new_file(&path).map_err(io())?;
        let words = write_header(&file, &header, session).inspect_err(|_| {
            // If it cannot be removed, the folder of the session is removed later.
            let _ = fs::remove_file(&path);
        })?;
        Ok(Arc::new(Self {
            session: Arc::clone(session),
            path,
            file,
            header,
            words,
            segments: Mutex::default(),
        }))
    }

    /// Creates the file of an empty ring for the same buffer.
    ///
    /// # Errors
    ///
    /// As [`RingFile::create`].
    pub fn create_successor(&self) -> Result<Arc<Self>, CrashFilesError> {
        let RingHeader {
            buffer_index,
            segment_bytes,
            discards,
            ..
        } = self.header;
        let successor = Self::create(&self.session, buffer_index, segment_bytes, discards)?;
        // Relaxed: only readers of the file need it, and they expect no order.
        let id = self.words[ring_words::BUFFER_ID - ring_words::PLACE].load(Ordering::Relaxed);
        successor.set(ring_words::BUFFER_ID, id);
        Ok(successor)
    }

    /// Reserves room for a segment, and maps it. The memory is zeroed.
    ///
    /// # Errors
    ///
    /// If the directory has no room for it, or the system refuses the mapping.
    pub fn add_segment(self: &Arc<Self>) -> Result<(Pages, FileSegment), CrashFilesError> {
        let number = {
            let mut segments = self.segments.lock();
            let free = segments.free.pop();
            free.unwrap_or_else(|| {
                segments.count += 1;
                segments.count - 1
            })
        };
        let segment_bytes = self.header.segment_bytes;
        let offset_bytes = self.segment_offset_bytes(number);
        let pages = directory::reserve(
            &self.file,
            offset_bytes,
            segment_bytes.into(),
            self.session.directory(),
        )
        .and_then(|()| {
            Pages::of_file(&self.file, offset_bytes, segment_bytes as usize)
                .map_err(CrashFilesError::io(&self.path))
        })
        .inspect_err(|_| self.segments.lock().free.push(number))?;
        let segment = FileSegment {
            number,
            ring: Arc::clone(self),
        };
        Ok((pages, segment))
    }

    fn segment_offset_bytes(&self, number: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(number) * u64::from(self.header.segment_bytes)
    }

    pub(super) fn session(&self) -> &Arc<SessionFolder> {
        &self.session
    }

    /// Returns the end of the names of this ring's files.
    pub(super) fn number(&self) -> String {
        number_of(&self.header)
    }

    /// Returns the nonce of the folder, which is part of each slot's check.
    #[must_use]
    pub fn nonce(&self) -> u64 {
        self.header.nonce
    }

    /// Notes the id by which writers name the buffer.
    pub fn set_buffer_id(&self, id: BufferId) {
        self.set(ring_words::BUFFER_ID, id.0.into());
    }

    /// Notes that the buffer is full and discards from now on.
    pub fn set_sealed(&self) {
        self.set(ring_words::IS_SEALED, 1);
    }

    /// Notes that a chunk is overwritten.
    pub fn set_evicted(&self) {
        self.set(ring_words::HAS_EVICTED, 1);
    }

    /// Names the place that is being written; with `size_bytes` of 0, the write cursor. No store to
    /// the ring moves across this one.
    #[inline]
    pub fn set_place(&self, place: Place) {
        // A kill stops this process between two of its instructions, so the order of instructions
        // is what counts. Who reads the file of a living process needs no order either: a copy is
        // made three times and compared.
        compiler_fence(Ordering::SeqCst);
        self.words[0].store(place.to_word(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    fn set(&self, index: usize, value: u64) {
        // Relaxed: only readers of the file need it, and they expect no order.
        self.words[index - ring_words::PLACE].store(value, Ordering::Relaxed);
    }
}

fn number_of(header: &RingHeader) -> String {
    format!("{}.{}", header.buffer_index, header.generation)
}

/// Writes the header of a ring, and maps its words.
fn write_header(
    file: &File,
    header: &RingHeader,
    session: &SessionFolder,
) -> Result<Words<4>, CrashFilesError> {
    let io = || CrashFilesError::io(session.path());
    directory::reserve(file, 0, HEADER_BYTES as u64, session.directory())?;
    file.write_all_at(&header.encode(), 0).map_err(io())?;
    let words = SharedWords::of_file(file, 0, HEADER_BYTES).map_err(io())?;
    Ok(Arc::new(words).words(ring_words::PLACE))
}

impl Drop for RingFile {
    fn drop(&mut self) {
        if !forked_child::is_disabled() {
            // A file that cannot be removed goes with the folder of the session.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A segment of a ring's file. Gives the segment back when it is dropped, so the mapping must be
/// dropped before.
#[derive(Debug)]
pub struct FileSegment {
    number: u32,
    ring: Arc<RingFile>,
}

impl FileSegment {
    /// Returns the position of the segment in the file; the first one has number 0.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for FileSegment {
    fn drop(&mut self) {
        if forked_child::is_disabled() {
            return;
        }
        let ring = &self.ring;
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        let offset_bytes = ring.segment_offset_bytes(self.number);
        let size_bytes = ring.header.segment_bytes.into();
        // If the file system cannot free the room, the segment is not used again, because its old
        // slots would look like new ones.
        if rustix::fs::fallocate(&ring.file, flags, offset_bytes, size_bytes).is_ok() {
            ring.segments.lock().free.push(self.number);
        }
    }
}
