//! A central buffer in use: who writes to it, and who reads it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{mem, thread};

use memmap2::MmapMut;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::packet_framer::Writer;
use super::reader_lag::{ReaderLag, Urgency};
use super::trace_buffer::{
    BufferError, Mark, PacketCounts, TraceBuffer, UntrustedChunk, map_spare_segment,
};
use tracezero_core::commit::{LossCount, NO_PATIENCE, Patch, RingProgress};
use tracezero_core::coordination::{BufferExhaustedPolicy, WriterTotals};
use tracezero_core::ids::{BufferId, ChunkId, ProducerId, WriterId};
use tracezero_core::reentry;

/// The writers of the packets in a buffer, each with its producer.
pub(super) type Writers = Vec<(ProducerId, WriterTotals)>;

/// Writers of a ring hear of each [part](RingProgress) that was filled from this size on, and of every
/// second one below it: that of a chunk with much room.
const PART_TOLD_MIN_BYTES: u64 = 4096;

/// A central buffer, shared by the session that reads it and the producers that write to it.
pub struct CentralBuffer {
    /// The name of the buffer in commits.
    pub id: BufferId,
    contents: Mutex<Contents>,
    /// Notified when there is room again for writers that wait for it.
    has_room: Condvar,
    /// Tells writers when to repeat what their packets build on.
    pub progress: Arc<RingProgress>,
    reader: Reader,
    /// How long writers have waited for the reader, all together.
    waited_ns: AtomicU64,
    /// For a buffer of a snapshot: its writers, as they were then.
    pub(super) writers_then: Option<Writers>,
}

impl fmt::Debug for CentralBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CentralBuffer")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

struct Contents {
    buffer: TraceBuffer,
    /// [Parts](RingProgress) of it that were filled and told of.
    parts: u64,
    past: HashMap<Writer, Past>,
    lag: ReaderLag,
    /// For the writers that are there now: what tells them of losses.
    loss_counts: HashMap<Writer, Arc<LossCount>>,
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

/// While a writer waits, the reader looks for more so often.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

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
    /// Tells writers of losses.
    fn report_losses(&mut self) {
        for writer in self.buffer.take_losing_writers() {
            if let Some(losses) = self.loss_counts.get(&writer) {
                losses.add_one();
            }
        }
    }

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
    pub(super) fn new(id: BufferId, mut buffer: TraceBuffer, reader: Reader) -> Self {
        if matches!(reader, Reader::Drains(_)) {
            buffer.list_losing_writers();
        }
        Self {
            id,
            waited_ns: AtomicU64::new(0),
            contents: Mutex::new(Contents {
                lag: ReaderLag::new(&buffer),
                buffer,
                parts: 0,
                past: HashMap::new(),
                loss_counts: HashMap::new(),
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
    pub fn with<R>(&self, work: impl FnOnce(&mut TraceBuffer) -> R) -> R {
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
        let Contents { buffer, lag, .. } = &mut *contents;
        let has_more = read(buffer);
        let seen = if has_more {
            end.filter(|&end| buffer.has_read_until(end))
        } else {
            Some(buffer.mark())
        };
        if let Some(seen) = seen {
            lag.note_pass(buffer, seen);
            while buffer.shrink() {}
        } else {
            lag.note_progress(buffer);
        }
        let has_room = lag.has_room_again(buffer);
        contents.report_losses();
        let removed = contents.buffer.take_removed_segments();
        let wants_spare = contents.buffer.wants_spare_segment();
        drop(contents);
        if has_room {
            self.has_room.notify_all();
        }
        if wants_spare {
            self.make_spare(removed);
        }
        seen.is_none()
    }

    /// Makes memory for the buffer to grow with, or keeps some of what was `removed`. Nothing is
    /// locked meanwhile: writers find it ready.
    fn make_spare(&self, mut removed: Vec<MmapMut>) {
        let spare = match removed.pop() {
            Some(memory) => memory,
            None => match map_spare_segment() {
                Ok(memory) => memory,
                // Writers wait for what there is, rather than overwrite it.
                Err(_) => {
                    let Contents { buffer, lag, .. } = &mut *self.contents.lock();
                    buffer.stop_growing();
                    return lag.note_capacity(buffer);
                }
            },
        };
        self.contents.lock().buffer.add_spare_segment(spare);
    }

    /// Whether packets keep the buffer from going on, or may be overwritten soon, whose rest was not
    /// committed; it may be in the chunks of their writers.
    pub(super) fn wants_scrape(&self) -> bool {
        if !matches!(self.reader, Reader::Drains(_)) {
            return false;
        }
        let Contents { buffer, lag, .. } = &mut *self.contents.lock();
        lag.take_scrape(buffer)
    }

    /// From now on, `losses` tells a writer of the packets of its sequence that are lost here.
    pub(super) fn report_losses(&self, writer: Writer, losses: Arc<LossCount>) {
        if matches!(self.reader, Reader::Drains(_)) {
            self.contents.lock().loss_counts.insert(writer, losses);
        }
    }

    /// Ends [`CentralBuffer::report_losses`].
    pub(super) fn stop_reporting_losses(&self, writer: Writer) {
        if matches!(self.reader, Reader::Drains(_)) {
            self.contents.lock().loss_counts.remove(&writer);
        }
    }

    /// Tells a writer that a packet of its sequence was left out of the trace.
    pub(super) fn note_loss(&self, writer: Writer) {
        if let Some(losses) = self.contents.lock().loss_counts.get(&writer) {
            losses.add_one();
        }
    }

    /// Returns what a writer does if the configuration of its data source does not say. Writers of a ring
    /// that is streamed into a file wait for the file. All others wait for nothing: one that finds no free
    /// chunk drops the packet.
    pub(super) fn default_policy(&self) -> BufferExhaustedPolicy {
        match self.reader {
            Reader::Drains(_) => BufferExhaustedPolicy::StallThenDrop,
            Reader::ReadsWhatIsLeft | Reader::ReadsAll => BufferExhaustedPolicy::Drop,
        }
    }

    /// Counts the writers that wanted room and got none.
    pub fn refused(&self) -> u64 {
        self.contents.lock().lag.refused()
    }

    /// How long writers have waited for the reader so far, all together.
    pub fn waited(&self) -> Duration {
        // Relaxed: see `note_waiting`.
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    fn note_waiting(&self, time: Duration) {
        // Relaxed, as the load: a sum, ordered with nothing.
        self.waited_ns
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Nobody reads the buffer any more: nobody waits for that.
    pub(super) fn reader_is_gone(&self) {
        self.contents.lock().lag.note_reader_is_gone();
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
        if contents.lag.has_room_at_once(&contents.buffer) {
            return true;
        }
        if timeout <= NO_PATIENCE {
            wake();
            let Contents { buffer, lag, .. } = &mut *contents;
            return lag.has_room_without(buffer, timeout);
        }
        // Who is called by the tracer does not wait for it: the ring overwrites rather.
        if reentry::is_in_callback() {
            return true;
        }
        let started = Instant::now();
        // `None` for a limit that no clock reaches.
        let deadline = started.checked_add(timeout);
        let is_over = |now| deadline.is_some_and(|deadline| now >= deadline);
        let mut now = started;
        while !is_over(now) {
            wake();
            let has_no_room =
                |contents: &mut Contents| !contents.lag.has_room_again(&contents.buffer);
            let look_again = now + LOOK_PERIOD;
            let look_again = deadline.map_or(look_again, |deadline| deadline.min(look_again));
            self.has_room
                .wait_while_until(&mut contents, has_no_room, look_again);
            now = Instant::now();
            if contents.lag.has_room_again(&contents.buffer) {
                self.note_waiting(now - started);
                return true;
            }
        }
        self.note_waiting(now - started);
        let Contents { buffer, lag, .. } = &mut *contents;
        lag.has_room_without(buffer, timeout)
    }

    /// A copy of what is unread.
    pub(super) fn copy(&self) -> Result<TakenBuffer, BufferError> {
        let contents = self.contents.lock();
        Ok(TakenBuffer {
            buffer: contents.buffer.clone_read_only()?,
            past: contents.past_of_snapshot(),
        })
    }

    /// Creates the empty buffer that [`take`](Self::take) needs.
    pub(super) fn empty_copy(&self) -> Result<TraceBuffer, BufferError> {
        self.contents.lock().buffer.empty_copy()
    }

    /// Takes the contents out, and puts `successor` in their place, which
    /// [`empty_copy`](Self::empty_copy) has created. Writers repeat what later packets of theirs build on.
    pub(super) fn take(&self, mut successor: TraceBuffer) -> TakenBuffer {
        let mut contents = self.contents.lock();
        let contents = &mut *contents;
        successor.continue_after(&contents.buffer);
        if matches!(self.reader, Reader::Drains(_)) {
            successor.list_losing_writers();
        }
        let past = contents.past_of_snapshot();
        for (producer, writer, counts) in contents.buffer.all_packet_counts() {
            contents
                .past
                .entry((producer, writer))
                .or_default()
                .replaced += counts;
        }
        contents.parts = 0;
        contents.lag.note_successor(&successor);
        self.progress.advance(RingProgress::QUARTER);
        TakenBuffer {
            buffer: mem::replace(&mut contents.buffer, successor),
            past,
        }
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
                // A part of a small ring is less than a chunk. If writers heard of each, they would write
                // little but definitions.
                let told_parts = if part_bytes < PART_TOLD_MIN_BYTES {
                    2
                } else {
                    1
                };
                let parts = stats.bytes_written / (part_bytes * told_parts) * told_parts;
                if parts != contents.parts {
                    self.progress.advance(parts - contents.parts);
                    contents.parts = parts;
                }
                return;
            }
            Reader::ReadsAll => return,
        };
        contents.report_losses();
        let Contents { buffer, lag, .. } = &mut *contents;
        match lag.note_commit(buffer) {
            Urgency::None => {}
            Urgency::Wakes => {
                drop(contents);
                wake();
            }
            Urgency::Yields => {
                MutexGuard::unlock_fair(contents);
                wake();
                thread::yield_now();
            }
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
    use crate::trace_buffer::{ClientIdentity, FillPolicy};
    use tracezero_core::shm::ChunkFlags;

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
