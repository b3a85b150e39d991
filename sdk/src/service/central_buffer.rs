//! A central buffer in use: who writes to it, and who reads it.

use std::sync::Arc;
use std::{mem, thread};

use parking_lot::{Mutex, MutexGuard};

use super::trace_buffer::{BufferError, TraceBuffer, UntrustedChunk};
use crate::commit::{Patch, RingProgress};
use crate::ids::{BufferId, ChunkId, ProducerId, WriterId};

/// A central buffer, shared by the session that reads it and the producers that write to it.
pub(crate) struct CentralBuffer {
    pub(crate) id: BufferId,
    contents: Mutex<Contents>,
    /// Tells writers when to repeat what their packets build on.
    pub(crate) progress: Arc<RingProgress>,
    reader: Reader,
}

struct Contents {
    buffer: TraceBuffer,
    /// Quarters of it that were filled and told of.
    quarters: u64,
}

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
            }),
            progress: Arc::default(),
            reader,
        }
    }

    /// Calls `work` with the buffer locked: writers wait meanwhile.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut TraceBuffer) -> R) -> R {
        work(&mut self.contents.lock().buffer)
    }

    /// Takes out what is here, and goes on empty. Writers repeat what later packets of theirs build
    /// on.
    pub(super) fn take_contents(&self) -> Result<TraceBuffer, BufferError> {
        let mut contents = self.contents.lock();
        let successor = contents.buffer.successor()?;
        contents.quarters = 0;
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
        let unread_bytes = stats
            .bytes_written
            .saturating_sub(stats.bytes_read + stats.bytes_overwritten);
        let size_bytes = stats.buffer_size;
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
