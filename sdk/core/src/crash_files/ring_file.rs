//! The file of a ring: its header, and the headers of its slots.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use super::directory::{self, new_file};
use super::error::CrashFilesError;
use super::format::{HEADER_BYTES, Place, RingHeader, ring_words};
use super::session_folder::SessionFolder;
use crate::file_memory::{Pages, SharedWords, Words};
use crate::forked_child;
use crate::ids::BufferId;

/// The file of a ring, without the mapping of its slots. Removed when this is dropped.
#[derive(Debug)]
pub struct RingFile {
    session: Arc<SessionFolder>,
    path: PathBuf,
    header: RingHeader,
    /// The words of [`ring_words`], from [`ring_words::PLACE`] on.
    words: Words<4>,
}

impl RingFile {
    /// Creates the file of a ring with `size_bytes` of memory, and maps the memory. `buffer_index` is
    /// the position of the buffer in the session's configuration.
    ///
    /// # Errors
    ///
    /// If the directory has no room for it, or the system refuses the mapping.
    pub fn create(
        session: &Arc<SessionFolder>,
        buffer_index: u32,
        size_bytes: u32,
        discards: bool,
    ) -> Result<(Self, Pages), CrashFilesError> {
        let header = RingHeader {
            nonce: session.nonce(),
            size_bytes: size_bytes.into(),
            buffer_index,
            generation: session.next_ring(),
            discards,
        };
        let name = format!("b{buffer_index}.{}", header.generation);
        let path = session.path().join(name);
        let file = new_file(&path).map_err(CrashFilesError::io(&path))?;
        let (words, pages) = map(&file, &header, session).inspect_err(|_| {
            // If it cannot be removed, the folder of the session is removed later.
            let _ = fs::remove_file(&path);
        })?;
        let file = Self {
            session: Arc::clone(session),
            path,
            header,
            words,
        };
        Ok((file, pages))
    }

    /// Creates an empty ring of the same size, for the same buffer.
    ///
    /// # Errors
    ///
    /// As [`RingFile::create`].
    pub fn create_successor(&self) -> Result<(Self, Pages), CrashFilesError> {
        let RingHeader {
            buffer_index,
            size_bytes,
            discards,
            ..
        } = self.header;
        let (successor, pages) =
            Self::create(&self.session, buffer_index, size_bytes as u32, discards)?;
        // Relaxed: nothing reads it but a recovery.
        let id = self.words[ring_words::BUFFER_ID - ring_words::PLACE].load(Ordering::Relaxed);
        successor.set(ring_words::BUFFER_ID, id);
        Ok((successor, pages))
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
        // is what counts. Nothing else reads the word, so it needs no other order.
        compiler_fence(Ordering::SeqCst);
        self.words[0].store(place.to_word(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    fn set(&self, index: usize, value: u64) {
        // Relaxed: nothing reads it but a recovery.
        self.words[index - ring_words::PLACE].store(value, Ordering::Relaxed);
    }
}

/// Reserves room for a ring, writes its header, and maps the rest.
fn map(
    file: &File,
    header: &RingHeader,
    session: &SessionFolder,
) -> Result<(Words<4>, Pages), CrashFilesError> {
    let io = || CrashFilesError::io(session.path());
    let all_bytes = HEADER_BYTES as u64 + header.size_bytes;
    directory::reserve(file, all_bytes, session.directory())?;
    file.write_all_at(&header.encode(), 0).map_err(io())?;
    let words = SharedWords::of_file(file, 0, HEADER_BYTES).map_err(io())?;
    let pages = Pages::of_file(file, HEADER_BYTES as u64, header.size_bytes as usize);
    Ok((
        Arc::new(words).words(ring_words::PLACE),
        pages.map_err(io())?,
    ))
}

impl Drop for RingFile {
    fn drop(&mut self) {
        if !forked_child::is_disabled() {
            // A file that cannot be removed goes with the folder of the session.
            let _ = fs::remove_file(&self.path);
        }
    }
}
