//! A central buffer in use: who writes to it, and who reads it.

use std::collections::HashMap;
use std::sync::Arc;
use std::{mem, thread};

use parking_lot::{Mutex, MutexGuard};

use super::packet_framer::Writer;
use super::sequence_account::Writers;
use super::trace_buffer::{BufferError, PacketCounts, TraceBuffer, UntrustedChunk};
use crate::commit::{Patch, RingProgress};
use crate::ids::{BufferId, ChunkId, ProducerId, WriterId};

/// A central buffer, shared by the session that reads it and the producers that write to it.
pub(crate) struct CentralBuffer {
    pub(crate) id: BufferId,
    contents: Mutex<Contents>,
    /// Tells writers when to repeat what their packets build on.
    pub(crate) progress: Arc<RingProgress>,
    reader: Reader,
    /// For a buffer of a snapshot: its writers, as they were then.
    pub(super) writers_then: Option<Writers>,
}

struct Contents {
    buffer: TraceBuffer,
    /// Quarters of it that were filled and told of.
    quarters: u64,
    past: HashMap<Writer, Past>,
}

/// What there was of a sequence before a buffer's own account of it.
#[derive(Clone, Copy, Default)]
struct Past {
    /// In the buffers whose place this one took; what was unread there left with them.
    replaced: PacketCounts,
    /// Read from this buffer into another trace.
    read: u64,
}

/// What became of the packets of one sequence that reached a buffer.
#[derive(Clone, Copy, Default)]
pub(super) struct BufferCounts {
    pub(super) counts: PacketCounts,
    /// Packets that are in none of these, because they went into another trace or were cleared.
    pub(super) removed: u64,
}

/// A buffer that was taken for a snapshot.
pub(super) struct TakenBuffer {
    buffer: TraceBuffer,
    past: HashMap<Writer, Past>,
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

impl Contents {
    /// What a snapshot has to know: whatever was read until now is in another trace.
    fn past_of_snapshot(&self) -> HashMap<Writer, Past> {
        let all = self.buffer.all_packet_counts();
        all.map(|(producer, writer, counts)| {
            let writer = (producer, writer);
            let Past { mut replaced, .. } = self.past.get(&writer).copied().unwrap_or_default();
            replaced.unread += mem::take(&mut replaced.read);
            let past = Past {
                replaced,
                read: counts.read,
            };
            (writer, past)
        })
        .collect()
    }
}

impl CentralBuffer {
    pub(super) fn new(id: BufferId, buffer: TraceBuffer, reader: Reader) -> Self {
        Self {
            id,
            contents: Mutex::new(Contents {
                buffer,
                quarters: 0,
                past: HashMap::new(),
            }),
            progress: Arc::default(),
            reader,
            writers_then: None,
        }
    }

    /// A buffer of a snapshot.
    pub(super) fn of_snapshot(id: BufferId, taken: TakenBuffer, writers_then: Writers) -> Self {
        let mut buffer = Self::new(id, taken.buffer, Reader::ReadsAll);
        buffer.contents.get_mut().past = taken.past;
        buffer.writers_then = Some(writers_then);
        buffer
    }

    /// Calls `work` with the buffer locked: writers wait meanwhile.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut TraceBuffer) -> R) -> R {
        work(&mut self.contents.lock().buffer)
    }

    /// A copy of what is unread.
    pub(super) fn copy(&self) -> Result<TakenBuffer, BufferError> {
        let contents = self.contents.lock();
        Ok(TakenBuffer {
            buffer: contents.buffer.clone_read_only()?,
            past: contents.past_of_snapshot(),
        })
    }

    /// Takes the contents out. Writers go on, and repeat what later packets of theirs build on.
    pub(super) fn take(&self) -> Result<TakenBuffer, BufferError> {
        let mut contents = self.contents.lock();
        let contents = &mut *contents;
        let successor = contents.buffer.successor()?;
        let past = contents.past_of_snapshot();
        for (producer, writer, counts) in contents.buffer.all_packet_counts() {
            contents
                .past
                .entry((producer, writer))
                .or_default()
                .replaced += counts;
        }
        contents.quarters = 0;
        self.progress.advance(1);
        Ok(TakenBuffer {
            buffer: mem::replace(&mut contents.buffer, successor),
            past,
        })
    }

    /// What became of the packets that reached the buffer, by sequence.
    pub(super) fn counts(&self) -> Vec<(Writer, BufferCounts)> {
        let contents = self.contents.lock();
        let all = contents.buffer.all_packet_counts();
        all.map(|(producer, writer, counts)| {
            let writer = (producer, writer);
            let Past { replaced, read } = contents.past.get(&writer).copied().unwrap_or_default();
            let mut sum = counts;
            sum += PacketCounts {
                unread: 0,
                ..replaced
            };
            sum.read -= read;
            let removed = replaced.unread + read;
            (
                writer,
                BufferCounts {
                    counts: sum,
                    removed,
                },
            )
        })
        .collect()
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
