//! A central buffer in use: who writes to it, and who reads it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{mem, thread};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::packet_framer::Writer;
use super::sequence_account::Writers;
use super::trace_buffer::{BufferError, Mark, PacketCounts, TraceBuffer, UntrustedChunk};
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
    /// For a buffer of a snapshot: its writers, as they were then.
    pub(super) writers_then: Option<Writers>,
}

struct Contents {
    buffer: TraceBuffer,
    /// Quarters of it that were filled and told of.
    quarters: u64,
    past: HashMap<Writer, Past>,
    /// The reader has seen what was written up to this value of `bytes_written`. What it left of that
    /// are packets that are not complete.
    seen_bytes: u64,
    /// What `bytes_written` is when the oldest of them is overwritten, or what came later.
    loss_at_bytes: u64,
    /// Whether those packets were waited for in vain: they may be overwritten.
    left_is_given_up: bool,
    /// Whether nobody reads it any more.
    reader_is_gone: bool,
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

/// A writer that may wait does so while more than one in so many bytes of the ring was not looked
/// at, or while so few are free. The rest takes what other writers are in the middle of.
const WAIT_PARTS: u64 = 4;
/// It goes on when this part was not looked at, so that it does not stop and go for every chunk.
const RESUME_PARTS: u64 = 8;
/// Packets that are left are looked for in the chunks of their writers when one in so many bytes of
/// the ring is free before them.
const SCRAPE_PARTS: u64 = 2;
/// While a writer waits, the reader looks for more so often.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

impl Contents {
    /// Whether the reader has not looked at more than one in `parts` bytes.
    fn reader_is_behind(&self, parts: u64) -> bool {
        let stats = self.buffer.stats();
        let limit_bytes = stats.buffer_size / parts;
        let came_bytes = stats.bytes_written - self.seen_bytes;
        came_bytes > limit_bytes && self.buffer.unread_bytes() > limit_bytes
    }

    /// Whether less than one in `parts` bytes can be written before something is lost.
    fn loss_is_near(&self, parts: u64) -> bool {
        let stats = self.buffer.stats();
        let reserve_bytes = stats.buffer_size / parts;
        !self.left_is_given_up && stats.bytes_written + reserve_bytes > self.loss_at_bytes
    }

    /// Whether a writer that may wait has to, if it goes on while `parts` were not looked at.
    fn has_room(&self, parts: u64) -> bool {
        self.reader_is_gone || !(self.reader_is_behind(parts) || self.loss_is_near(WAIT_PARTS))
    }

    /// The reader has seen all that was there at a moment.
    fn note_pass(&mut self, seen: Mark) {
        let bytes_written = self.buffer.stats().bytes_written;
        // It is less where another buffer took the place of the one that was there then.
        self.seen_bytes = seen.bytes_written.min(bytes_written);
        self.loss_at_bytes = match self.buffer.bytes_before_loss(seen) {
            Some(bytes) => bytes_written + bytes,
            None => self.seen_bytes + self.buffer.size_bytes(),
        };
        let was_given_up = std::mem::take(&mut self.left_is_given_up);
        self.left_is_given_up = was_given_up && self.loss_is_near(WAIT_PARTS);
    }
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
                loss_at_bytes: buffer.size_bytes(),
                buffer,
                quarters: 0,
                past: HashMap::new(),
                seen_bytes: 0,
                left_is_given_up: false,
                reader_is_gone: false,
            }),
            has_room: Condvar::new(),
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

    /// Calls `read` with the buffer locked. It returns whether it left something that can be read.
    /// Returns whether to go on: not if all of that came after `end`.
    pub(super) fn read(
        &self,
        end: Option<Mark>,
        read: impl FnOnce(&mut TraceBuffer) -> bool,
    ) -> bool {
        let mut contents = self.contents.lock();
        let has_more = read(&mut contents.buffer);
        let seen = if has_more {
            end.filter(|&end| contents.buffer.has_read_until(end))
        } else {
            Some(contents.buffer.mark())
        };
        if let Some(seen) = seen {
            contents.note_pass(seen);
        }
        let has_room = contents.has_room(RESUME_PARTS);
        drop(contents);
        if has_room {
            self.has_room.notify_all();
        }
        seen.is_none()
    }

    /// Whether packets may be overwritten soon whose rest was not committed; it may be in the chunks
    /// of their writers.
    pub(super) fn wants_scrape(&self) -> bool {
        matches!(self.reader, Reader::Drains(_)) && self.contents.lock().loss_is_near(SCRAPE_PARTS)
    }

    /// Nobody reads the buffer any more: nobody waits for that.
    pub(super) fn reader_is_gone(&self) {
        self.contents.lock().reader_is_gone = true;
        self.has_room.notify_all();
    }

    /// Waits until what is committed next overwrites nothing that was not read; at most for
    /// `timeout`. Returns whether that is so. Nothing is locked meanwhile.
    ///
    /// A packet that its writer does not complete in that time is given up, rather than everything
    /// that comes after it.
    pub(super) fn wait_for_room(&self, timeout: Duration) -> bool {
        let Reader::Drains(wake) = &self.reader else {
            return true;
        };
        let mut contents = self.contents.lock();
        if contents.has_room(WAIT_PARTS) {
            return true;
        }
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            wake();
            let has_no_room = |contents: &mut Contents| !contents.has_room(RESUME_PARTS);
            let look_again = deadline.min(Instant::now() + LOOK_PERIOD);
            self.has_room
                .wait_while_until(&mut contents, has_no_room, look_again);
            if contents.has_room(RESUME_PARTS) {
                return true;
            }
        }
        if !timeout.is_zero() && !contents.reader_is_behind(WAIT_PARTS) {
            contents.left_is_given_up = true;
        }
        contents.has_room(WAIT_PARTS)
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
        contents.seen_bytes = 0;
        contents.loss_at_bytes = successor.size_bytes();
        contents.left_is_given_up = false;
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
        if contents.reader_is_behind(2) {
            // The reader does not keep up: let it have the lock and the processor first.
            MutexGuard::unlock_fair(contents);
            wake();
            thread::yield_now();
        } else if contents.reader_is_behind(4) {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::service::trace_buffer::{ClientIdentity, FillPolicy};
    use crate::shm::ChunkFlags;

    /// Of a chunk in the middle of a packet.
    const MIDDLE: ChunkFlags =
        ChunkFlags::FIRST_PACKET_CONTINUES.union(ChunkFlags::LAST_PACKET_CONTINUES);

    /// A ring of 64 KiB that is drained while writers go on, and how often its reader was woken.
    fn drained_ring() -> (Arc<CentralBuffer>, Arc<AtomicU32>) {
        let woken = Arc::new(AtomicU32::new(0));
        let wakes = Arc::clone(&woken);
        let wake = Box::new(move || {
            // Relaxed: a count, ordered with nothing.
            wakes.fetch_add(1, Ordering::Relaxed);
        });
        let buffer = TraceBuffer::new(64 * 1024, FillPolicy::Ring).unwrap();
        let buffer = CentralBuffer::new(BufferId(1), buffer, Reader::Drains(wake));
        (Arc::new(buffer), woken)
    }

    /// Commits a chunk of 2 KiB with one fragment, which `flags` speak of.
    fn commit_chunk(buffer: &CentralBuffer, writer_id: WriterId, chunk_id: u32, flags: ChunkFlags) {
        let mut payload = vec![0; 2048];
        payload[..2].copy_from_slice(&[0xfe, 0x0f]);
        buffer.commit(&UntrustedChunk {
            fragment_count: 1,
            flags,
            complete: true,
            ..chunk_of(writer_id, chunk_id, &payload)
        });
    }

    /// Commits a chunk of 2 KiB whose writer goes on behind its first fragments, of 16 bytes each.
    fn scrape_chunk(buffer: &CentralBuffer, writer_id: WriterId, chunk_id: u32, fragments: u16) {
        let mut payload = vec![0; 2048];
        for fragment in payload.chunks_mut(16) {
            fragment[0] = 15;
        }
        buffer.commit(&UntrustedChunk {
            // The last one is not looked at: its writer may be at it.
            fragment_count: fragments + 1,
            ..chunk_of(writer_id, chunk_id, &payload)
        });
    }

    fn chunk_of(writer_id: WriterId, chunk_id: u32, payload: &[u8]) -> UntrustedChunk<'_> {
        UntrustedChunk {
            producer_id: ProducerId(1),
            client: ClientIdentity::default(),
            writer_id,
            chunk_id: ChunkId(chunk_id),
            fragment_count: 0,
            flags: ChunkFlags::NONE,
            complete: false,
            payload,
        }
    }

    /// Commits so many chunks of a packet that goes on.
    fn commit_unfinished(buffer: &CentralBuffer, writer_id: WriterId, chunks: u32) {
        commit_chunk(buffer, writer_id, 0, ChunkFlags::LAST_PACKET_CONTINUES);
        (1..chunks).for_each(|id| commit_chunk(buffer, writer_id, id, MIDDLE));
    }

    fn commit_20_kib(buffer: &CentralBuffer) {
        for chunk_id in 0..10 {
            commit_chunk(buffer, WriterId(1), chunk_id, ChunkFlags::NONE);
        }
    }

    fn read_all(buffer: &CentralBuffer) -> usize {
        let mut packets = 0;
        buffer.read(None, |buffer| {
            buffer.begin_read();
            while buffer.read_packet().is_some() {
                packets += 1;
            }
            false
        });
        packets
    }

    #[test]
    fn writers_wait_until_the_reader_has_caught_up() {
        let (buffer, woken) = drained_ring();
        assert!(buffer.wait_for_room(Duration::ZERO));
        commit_20_kib(&buffer);
        assert!(!buffer.wait_for_room(Duration::ZERO));
        // Relaxed: as above.
        assert!(woken.load(Ordering::Relaxed) > 0);
        thread::scope(|scope| {
            let waits = scope.spawn(|| buffer.wait_for_room(Duration::from_secs(60)));
            assert_eq!(read_all(&buffer), 10);
            assert!(waits.join().unwrap());
        });
    }

    #[test]
    fn chunks_that_were_read_while_they_grew_do_not_count_for_others() {
        let (buffer, woken) = drained_ring();
        for fragments in 0..100 {
            scrape_chunk(&buffer, WriterId(2), 0, fragments);
            assert_eq!(read_all(&buffer), usize::from(fragments > 0));
        }
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        commit_20_kib(&buffer);
        assert!(woken.load(Ordering::Relaxed) > 0);
        assert!(!buffer.wait_for_room(Duration::ZERO));
    }

    #[test]
    fn nobody_waits_for_a_reader_that_is_gone() {
        let (buffer, _) = drained_ring();
        commit_20_kib(&buffer);
        thread::scope(|scope| {
            let waits = scope.spawn(|| buffer.wait_for_room(Duration::from_secs(60)));
            buffer.reader_is_gone();
            assert!(waits.join().unwrap());
        });
        assert!(buffer.wait_for_room(Duration::ZERO));
    }

    #[test]
    fn a_packet_that_stays_incomplete_is_looked_for_and_waited_for_before_it_is_overwritten() {
        let (buffer, _) = drained_ring();
        commit_chunk(&buffer, WriterId(2), 0, ChunkFlags::LAST_PACKET_CONTINUES);
        let mut chunk_id = 0;
        let mut commit_and_read = || {
            for _ in 0..4 {
                commit_chunk(&buffer, WriterId(1), chunk_id, ChunkFlags::NONE);
                chunk_id += 1;
            }
            assert_eq!(read_all(&buffer), 4);
        };
        while buffer.wait_for_room(Duration::ZERO) {
            commit_and_read();
        }
        assert!(buffer.wants_scrape());
        assert_eq!(buffer.with(|buffer| buffer.stats().bytes_overwritten), 0);
        // Nobody completes it, and others have waited long enough.
        assert!(buffer.wait_for_room(Duration::from_millis(1)));
        for _ in 0..4 {
            assert!(buffer.wait_for_room(Duration::ZERO));
            commit_and_read();
        }
        assert!(buffer.with(|buffer| buffer.stats().bytes_overwritten) > 0);
        assert!(!buffer.wants_scrape());
    }

    #[test]
    fn a_reader_that_never_sees_all_there_is_may_keep_up_nevertheless() {
        let (buffer, _) = drained_ring();
        commit_chunk(&buffer, WriterId(1), 0, ChunkFlags::NONE);
        // Two laps.
        for round in 0..16 {
            let end = buffer.with(|buffer| buffer.mark());
            for chunk_id in 4 * round + 1..4 * round + 5 {
                commit_chunk(&buffer, WriterId(1), chunk_id, ChunkFlags::NONE);
            }
            let goes_on = buffer.read(Some(end), |buffer| {
                buffer.begin_read();
                (0..4).all(|_| buffer.read_packet().is_some())
            });
            assert!(!goes_on);
            assert!(buffer.wait_for_room(Duration::ZERO));
            assert!(!buffer.wants_scrape());
        }
    }

    #[test]
    fn the_reader_is_not_woken_for_what_it_has_left() {
        let (buffer, woken) = drained_ring();
        commit_unfinished(&buffer, WriterId(2), 20);
        assert_eq!(read_all(&buffer), 0);
        woken.store(0, Ordering::Relaxed);
        commit_chunk(&buffer, WriterId(1), 0, ChunkFlags::NONE);
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        (1..10).for_each(|id| commit_chunk(&buffer, WriterId(1), id, ChunkFlags::NONE));
        assert!(woken.load(Ordering::Relaxed) > 0);
    }

    /// Writer 1 commits for as long as it need not wait. Returns how many of its chunks were overwritten.
    fn commit_while_there_is_room(buffer: &CentralBuffer, first_id: u32) -> u64 {
        for chunk_id in first_id..first_id + 100 {
            if !buffer.wait_for_room(Duration::ZERO) {
                break;
            }
            commit_chunk(buffer, WriterId(1), chunk_id, ChunkFlags::NONE);
        }
        let counts = buffer.with(|buffer| buffer.packet_counts(ProducerId(1), WriterId(1)));
        counts.map_or(0, |counts| counts.overwritten)
    }

    #[test]
    fn the_place_of_a_packet_that_was_given_up_is_no_room_beyond_it() {
        let (buffer, _) = drained_ring();
        commit_unfinished(&buffer, WriterId(2), 25);
        assert_eq!(read_all(&buffer), 0);
        assert!(!buffer.wait_for_room(Duration::ZERO));
        assert!(buffer.wait_for_room(Duration::from_millis(1)));
        assert_eq!(commit_while_there_is_room(&buffer, 0), 0);
    }

    #[test]
    fn a_chunk_that_grows_right_before_it_is_overwritten_is_waited_for() {
        let (buffer, _) = drained_ring();
        scrape_chunk(&buffer, WriterId(2), 0, 1);
        assert_eq!(read_all(&buffer), 1);
        for chunk_id in 0..28 {
            commit_chunk(&buffer, WriterId(1), chunk_id, ChunkFlags::NONE);
            assert_eq!(read_all(&buffer), 1);
        }
        scrape_chunk(&buffer, WriterId(2), 0, 2);
        assert_eq!(commit_while_there_is_room(&buffer, 28), 0);
        let counts = buffer.with(|buffer| buffer.packet_counts(ProducerId(1), WriterId(2)));
        assert_eq!(counts.map(|counts| counts.overwritten), Some(0));
    }
}
