//! A central buffer in use: who writes to it, and who reads it.

use std::sync::Arc;
use std::time::Duration;
use std::{mem, thread};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::trace_buffer::{BufferError, TraceBuffer, UntrustedChunk};
use crate::commit::{Patch, RingProgress};
use crate::ids::{BufferId, ChunkId, ProducerId, WriterId};

/// A central buffer, shared by the session that reads it and the producers that write to it.
pub(crate) struct CentralBuffer {
    pub(crate) id: BufferId,
    contents: Mutex<Contents>,
    /// Notified when there is room again for writers that wait for it.
    has_room: Condvar,
    /// Tells writers when to repeat what their packets build on.
    pub(crate) progress: Arc<RingProgress>,
    reader: Reader,
}

struct Contents {
    buffer: TraceBuffer,
    /// Quarters of it that were filled and told of.
    quarters: u64,
    /// Bytes that the reader has seen and left, when it saw all there was: packets that are not
    /// complete. Waiting for it does not make them fewer.
    left_bytes: u64,
    /// Whether nobody reads it any more.
    reader_is_gone: bool,
}

impl Contents {
    fn unread_bytes(&self) -> u64 {
        let stats = self.buffer.stats();
        stats
            .bytes_written
            .saturating_sub(stats.bytes_read + stats.bytes_overwritten)
    }

    /// How much came that the reader has not looked at, as a part of the buffer's size: whether
    /// more than one in `parts`.
    fn reader_is_behind(&self, parts: u64) -> bool {
        let unseen_bytes = self.unread_bytes().saturating_sub(self.left_bytes);
        !self.reader_is_gone && unseen_bytes > self.buffer.stats().buffer_size / parts
    }
}

/// A writer that may wait does so while more than one in so many bytes of the buffer was not looked
/// at. The rest takes what other writers are in the middle of.
const WAIT_PARTS: u64 = 4;
/// It goes on when this part is left, so that it does not stop and go for every chunk.
const RESUME_PARTS: u64 = 8;

/// Who reads a buffer, and when.
pub(crate) enum Reader {
    /// A thread, while the session goes on. The function wakes it; it is called at commits while
    /// much of the buffer waits to be read.
    Drains(Box<dyn Fn() + Send + Sync>),
    /// Whoever ends the session; by then the oldest packets may be overwritten.
    ReadsWhatIsLeft,
    /// Whoever ends the session; nothing is overwritten.
    ReadsAll,
}

impl CentralBuffer {
    pub(super) fn new(id: BufferId, buffer: TraceBuffer, reader: Reader) -> Self {
        Self {
            id,
            contents: Mutex::new(Contents {
                buffer,
                quarters: 0,
                left_bytes: 0,
                reader_is_gone: false,
            }),
            has_room: Condvar::new(),
            progress: Arc::default(),
            reader,
        }
    }

    /// Calls `work` with the buffer locked: writers wait meanwhile.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut TraceBuffer) -> R) -> R {
        work(&mut self.contents.lock().buffer)
    }

    /// Calls `read` with the buffer locked. It returns whether it left something that can be read.
    pub(super) fn read(&self, read: impl FnOnce(&mut TraceBuffer) -> bool) -> bool {
        let mut contents = self.contents.lock();
        let has_more = read(&mut contents.buffer);
        if !has_more {
            contents.left_bytes = contents.unread_bytes();
        }
        let has_room = !contents.reader_is_behind(RESUME_PARTS);
        drop(contents);
        if has_room {
            self.has_room.notify_all();
        }
        has_more
    }

    /// Nobody reads the buffer any more: nobody waits for that.
    pub(super) fn reader_is_gone(&self) {
        self.contents.lock().reader_is_gone = true;
        self.has_room.notify_all();
    }

    /// Waits until the reader has made room for another chunk, if it ever does; at most for
    /// `timeout`. Returns whether there is room. Nothing is locked meanwhile.
    pub(super) fn wait_for_room(&self, timeout: Duration) -> bool {
        let Reader::Drains(wake) = &self.reader else {
            return true;
        };
        let mut contents = self.contents.lock();
        if !contents.reader_is_behind(WAIT_PARTS) {
            return true;
        }
        wake();
        let is_behind = |contents: &mut Contents| contents.reader_is_behind(RESUME_PARTS);
        !self
            .has_room
            .wait_while_for(&mut contents, is_behind, timeout)
            .timed_out()
    }

    /// Takes out what is here, and goes on empty. Writers repeat what later packets of theirs build
    /// on.
    pub(super) fn take_contents(&self) -> Result<TraceBuffer, BufferError> {
        let mut contents = self.contents.lock();
        let successor = contents.buffer.successor()?;
        contents.quarters = 0;
        contents.left_bytes = 0;
        self.progress.advance(1);
        Ok(mem::replace(&mut contents.buffer, successor))
    }

    // Inlined, so that the chunk stays in registers: see `TraceBuffer::commit_chunk`.
    #[inline]
    pub(super) fn commit(&self, chunk: &UntrustedChunk<'_>) {
        let mut contents = self.contents.lock();
        contents.buffer.commit_chunk(chunk);
        let stats = contents.buffer.stats();
        let wake = match &self.reader {
            Reader::Drains(wake) => wake,
            Reader::ReadsWhatIsLeft => {
                let part_bytes = stats.buffer_size / RingProgress::PARTS;
                let quarters = stats.bytes_written / part_bytes;
                if quarters != contents.quarters {
                    self.progress.advance(quarters - contents.quarters);
                    contents.quarters = quarters;
                }
                return;
            }
            Reader::ReadsAll => return,
        };
        let size_bytes = stats.buffer_size;
        let unread_bytes = contents.unread_bytes();
        if unread_bytes > size_bytes / 2 {
            // The reader does not keep up: let it have the lock and the processor first.
            MutexGuard::unlock_fair(contents);
            wake();
            thread::yield_now();
        } else if unread_bytes > size_bytes / 4 {
            drop(contents);
            wake();
        }
    }

    pub(super) fn patch(
        &self,
        producer_id: ProducerId,
        writer_id: WriterId,
        chunk_id: ChunkId,
        patches: &[Patch],
        has_more_patches: bool,
    ) {
        self.contents.lock().buffer.patch_chunk(
            producer_id,
            writer_id,
            chunk_id,
            patches,
            has_more_patches,
        );
    }
}
