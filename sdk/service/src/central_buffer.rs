//! A trace buffer in use: its writers, its reader, and how each waits for the other.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::buffer_counts::{AlreadyRead, BufferCounts, EarlierCounts};
use super::buffer_states::{BufferStates, TakenStates};
use super::folded_state::FoldedState;
use super::packet_framer::Writer;
use super::reader_lag::{ReaderLag, Urgency};
use super::trace_buffer::{
    BufferError, Mark, SEGMENT_BYTES, SegmentMemory, TraceBuffer, UntrustedChunk,
};
use tracezero_core::commit::{LossCount, Patch, RingProgress, SHORTEST_WAIT};
use tracezero_core::coordination::{BufferExhaustedPolicy, WriterTotals};
use tracezero_core::crash_files::RingFile;
use tracezero_core::ids::{BufferId, ChunkId, ProducerId, WriterId};
use tracezero_core::reentry;

/// The writers of the packets in a buffer, each with the id of its producer.
pub(super) type Writers = Vec<(ProducerId, WriterTotals)>;

/// The maximum number of writers of disconnected producers whose counts a buffer keeps. For further
/// writers of such producers, only the packets that reached the buffer are counted.
const GONE_WRITERS_MAX: usize = 65_536;

/// The size of a large chunk. The service tells the writers of a ring about each filled
/// [part](RingProgress) if parts have at least this size. Otherwise it tells them about every
/// second part.
const PART_TOLD_MIN_BYTES: u64 = 4096;

/// A central buffer, shared by the session that reads it and the producers that write to it.
pub struct CentralBuffer {
    /// The id that commits name as their target.
    pub id: BufferId,
    contents: Mutex<Contents>,
    /// Notified when writers that wait for room can go on.
    has_room: Condvar,
    /// Tells writers when to start their incremental state anew.
    pub progress: Arc<RingProgress>,
    read_mode: ReadMode,
    /// The number of bytes after which sequences start their incremental state again, if the buffer is
    /// cut into segments.
    restart_bytes: Option<u64>,
    /// The total time that writers have waited for the reader, in nanoseconds.
    waited_ns: AtomicU64,
    /// The writers of disconnected producers, with their last counts.
    gone_writers: Mutex<Writers>,
    /// For a buffer of a clone: the writers at the time of the clone.
    pub(super) writers_then: Option<Writers>,
    /// The states of overwritten packets.
    pub(super) states: BufferStates,
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
    /// The number of filled [parts](RingProgress) that writers were told of.
    parts: u64,
    earlier: EarlierCounts,
    lag: ReaderLag,
    /// The loss counts of the present writers. A writer learns from its count that packets were
    /// lost.
    loss_counts: HashMap<Writer, Arc<LossCount>>,
}

/// A trace buffer that was taken or copied for a clone.
pub(super) struct TakenBuffer {
    buffer: TraceBuffer,
    earlier: EarlierCounts,
    states: TakenStates,
}

impl TakenBuffer {
    /// Creates the contents of a clone whose source no longer exists.
    pub(super) fn new(buffer: TraceBuffer, states: Vec<FoldedState>) -> Self {
        Self {
            buffer,
            earlier: EarlierCounts::default(),
            states: TakenStates::new(states),
        }
    }
}

/// The period after which a waiting writer wakes the reader again.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// How a buffer is read.
pub(crate) enum ReadMode {
    /// A thread reads the buffer while the session is recording. The function wakes that thread.
    /// Each commit calls the function while much of the buffer is unread.
    Streams(Box<dyn Fn() + Send + Sync>),
    /// The buffer is read when the session ends. By then the oldest packets may have been
    /// overwritten.
    RingAtEnd,
    /// The buffer is read when the session ends, and packets are never overwritten.
    AllAtEnd,
}

impl Contents {
    /// Tells writers that packets of their sequences were lost.
    fn report_losses(&mut self) {
        for writer in self.buffer.take_losing_writers() {
            if let Some(losses) = self.loss_counts.get(&writer) {
                losses.add_one();
            }
        }
    }
}

impl CentralBuffer {
    pub(super) fn new(id: BufferId, mut buffer: TraceBuffer, read_mode: ReadMode) -> Self {
        if matches!(read_mode, ReadMode::Streams(_)) {
            buffer.list_losing_writers();
        }
        let progress = match read_mode {
            ReadMode::RingAtEnd => RingProgress::of_ring(buffer.stats().buffer_size),
            _ => RingProgress::default(),
        };
        Self {
            id,
            waited_ns: AtomicU64::new(0),
            contents: Mutex::new(Contents {
                lag: ReaderLag::new(&buffer),
                buffer,
                parts: 0,
                earlier: EarlierCounts::default(),
                loss_counts: HashMap::new(),
            }),
            has_room: Condvar::new(),
            gone_writers: Mutex::default(),
            progress: Arc::new(progress),
            read_mode,
            restart_bytes: None,
            writers_then: None,
            states: BufferStates::default(),
        }
    }

    /// Cuts what is read from this buffer into segments of about this size. Sequences start their
    /// incremental state again in each quarter of a segment, so a backlog can be cut, too.
    pub(super) fn in_segments(self, segment_bytes: u64) -> Self {
        Self {
            progress: Arc::new(RingProgress::of_segments(segment_bytes)),
            restart_bytes: Some((segment_bytes / 4).max(1)),
            ..self
        }
    }

    /// Makes all sequences start their incremental state again with their next packet.
    pub(super) fn restart_states(&self) {
        self.progress.advance(RingProgress::QUARTER);
    }

    /// Creates a buffer of a clone.
    pub(super) fn of_snapshot(id: BufferId, taken: TakenBuffer, writers_then: Writers) -> Self {
        let mut buffer = Self::new(id, taken.buffer, ReadMode::AllAtEnd);
        buffer.contents.get_mut().earlier = taken.earlier;
        buffer.writers_then = Some(writers_then);
        buffer.states = BufferStates::Fixed(taken.states);
        buffer
    }

    /// Keeps the counts of a writer whose producer is about to disconnect. The packets of the
    /// writer may be in the buffer, or may never have arrived.
    pub(super) fn note_gone(&self, producer: ProducerId, writer: WriterTotals) {
        let mut gone = self.gone_writers.lock();
        if gone.len() < GONE_WRITERS_MAX {
            gone.push((producer, writer));
        }
    }

    pub(super) fn gone_writers(&self) -> MutexGuard<'_, Writers> {
        self.gone_writers.lock()
    }

    /// Calls `work` with the buffer locked. Writers wait meanwhile.
    pub fn with<R>(&self, work: impl FnOnce(&mut TraceBuffer) -> R) -> R {
        work(&mut self.contents.lock().buffer)
    }

    /// Calls `read` with the buffer locked. `read` returns whether more packets can be read.
    ///
    /// Returns true if the caller should call this method again. Returns false if nothing can be
    /// read, or only packets that came after `end`.
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
        let file = contents.buffer.crash_file().map(Arc::clone);
        drop(contents);
        if has_room {
            self.has_room.notify_all();
        }
        if wants_spare {
            self.make_spare(removed, file);
        }
        seen.is_none()
    }

    /// Adds a memory segment for the buffer to grow into: one of the segments that were `removed`
    /// from the buffer, or a new one. The buffer is not locked while a segment is mapped, so
    /// writers do not wait for the mapping.
    fn make_spare(&self, mut removed: Vec<SegmentMemory>, file: Option<Arc<RingFile>>) {
        if file.is_some() {
            // Use no removed segment of a crash file again: a recovery would find old slots in it.
            removed.clear();
        }
        let map = || SegmentMemory::map_ahead(SEGMENT_BYTES as u32, file.as_ref());
        let spare = match removed.pop().map_or_else(map, Ok) {
            Ok(memory) => memory,
            // Stop growing, so that writers wait for the reader instead of overwriting packets.
            Err(_) => {
                let Contents { buffer, lag, .. } = &mut *self.contents.lock();
                buffer.stop_growing();
                return lag.note_capacity(buffer);
            }
        };
        self.contents.lock().buffer.add_spare_segment(spare);
    }

    /// Returns true if incomplete packets may soon be overwritten or make writers wait. The missing
    /// fragments may be in chunks that writers have not committed, so a scrape can help.
    pub(super) fn wants_scrape(&self) -> bool {
        if !matches!(self.read_mode, ReadMode::Streams(_)) {
            return false;
        }
        let Contents { buffer, lag, .. } = &mut *self.contents.lock();
        lag.take_scrape(buffer)
    }

    /// Counts in `losses`, from now on, packets of this writer's sequence that are lost in this
    /// buffer.
    pub(super) fn report_losses(&self, writer: Writer, losses: Arc<LossCount>) {
        if matches!(self.read_mode, ReadMode::Streams(_)) {
            self.contents.lock().loss_counts.insert(writer, losses);
        }
    }

    /// Undoes [`CentralBuffer::report_losses`].
    pub(super) fn stop_reporting_losses(&self, writer: Writer) {
        if matches!(self.read_mode, ReadMode::Streams(_)) {
            self.contents.lock().loss_counts.remove(&writer);
        }
    }

    /// Returns the number of writers that are told of losses.
    #[cfg(test)]
    pub(super) fn told_writers(&self) -> usize {
        self.contents.lock().loss_counts.len()
    }

    /// Tells a writer that a packet of its sequence was left out of the trace.
    pub(super) fn note_loss(&self, writer: Writer) {
        if let Some(losses) = self.contents.lock().loss_counts.get(&writer) {
            losses.add_one();
        }
    }

    /// Returns what a writer does when it finds no free chunk, if its data source's configuration
    /// does not say. Writers of a ring that is streamed into a file wait for the file. All others
    /// drop the packet at once.
    pub(super) fn default_policy(&self) -> BufferExhaustedPolicy {
        match self.read_mode {
            ReadMode::Streams(_) => BufferExhaustedPolicy::StallThenDrop,
            ReadMode::RingAtEnd | ReadMode::AllAtEnd => BufferExhaustedPolicy::Drop,
        }
    }

    /// Returns how often a writer needed room and got none.
    pub fn refused(&self) -> u64 {
        self.contents.lock().lag.refused()
    }

    /// Returns the total time that writers have waited for the reader so far.
    pub fn waited(&self) -> Duration {
        // Relaxed: see `note_waiting`.
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    fn note_waiting(&self, time: Duration) {
        // Relaxed, like the load: no other memory access depends on this sum.
        self.waited_ns
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Ends all waiting for room: the buffer has no reader any more.
    pub(super) fn reader_is_gone(&self) {
        self.contents.lock().lag.note_reader_is_gone();
        self.has_room.notify_all();
    }

    /// Waits, for at most `timeout`, until the next commit overwrites no unread packet. Returns
    /// whether the writer may write now. The buffer is not locked while this waits.
    ///
    /// If an incomplete packet is still in the way at the end of the timeout, the packet is given
    /// up and may be overwritten. A packet that is never completed would otherwise block all
    /// packets behind it.
    pub(super) fn wait_for_room(&self, timeout: Duration) -> bool {
        let ReadMode::Streams(wake) = &self.read_mode else {
            return true;
        };
        let mut contents = self.contents.lock();
        if contents.lag.has_room_at_once(&contents.buffer) {
            return true;
        }
        if timeout <= SHORTEST_WAIT {
            wake();
            let Contents { buffer, lag, .. } = &mut *contents;
            return lag.has_room_without(buffer, timeout);
        }
        // A thread inside a callback of the tracer does not wait for the tracer, because the tracer
        // may be waiting for the callback to return. The ring overwrites instead.
        if reentry::is_in_callback() {
            return true;
        }
        let started = Instant::now();
        // `None`, which means no deadline, if `Instant` cannot represent a time so late.
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

    /// Copies the unread packets.
    pub(super) fn copy(&self, read: AlreadyRead) -> Result<TakenBuffer, BufferError> {
        let contents = self.contents.lock();
        Ok(TakenBuffer {
            buffer: contents.buffer.clone_read_only()?,
            earlier: contents.earlier.of_clone(&contents.buffer, read),
            states: TakenStates::new(self.states.states()),
        })
    }

    /// Creates the empty buffer that [`take`](Self::take) puts in place of the contents.
    pub(super) fn empty_copy(&self) -> Result<TraceBuffer, BufferError> {
        self.contents.lock().buffer.empty_copy()
    }

    /// Takes the contents out and replaces them by `successor`, which
    /// [`empty_copy`](Self::empty_copy) has created. Writers start their incremental state anew.
    pub(super) fn take(&self, mut successor: TraceBuffer, read: AlreadyRead) -> TakenBuffer {
        let mut contents = self.contents.lock();
        let contents = &mut *contents;
        successor.continue_after(&contents.buffer);
        if matches!(self.read_mode, ReadMode::Streams(_)) {
            successor.list_losing_writers();
        }
        let earlier = contents.earlier.of_clone(&contents.buffer, read);
        contents.earlier.add_replaced(&contents.buffer);
        contents.parts = 0;
        contents.lag.note_successor(&successor);
        self.progress.advance(RingProgress::QUARTER);
        let states = self.states.go_on(&mut contents.buffer, &mut successor);
        TakenBuffer {
            buffer: mem::replace(&mut contents.buffer, successor),
            earlier,
            states,
        }
    }

    /// Keeps a state of the packets of `producer` that the buffer overwrites from now on. Returns false
    /// if it cannot; the statistics say why.
    pub(super) fn keep_state(
        &self,
        producer: ProducerId,
        data_source: &str,
        program: &[u8],
        limit_kib: u32,
    ) -> bool {
        let mut contents = self.contents.lock();
        self.states.keep(
            &mut contents.buffer,
            producer,
            data_source,
            program,
            limit_kib,
        )
    }

    /// Returns the packet counts of all sequences in the buffer.
    pub(super) fn counts(&self) -> Vec<(Writer, BufferCounts)> {
        let contents = self.contents.lock();
        contents.earlier.correct(&contents.buffer)
    }

    /// Commits a chunk. Returns true if the reader does not keep up. The committing thread should
    /// then yield the processor to the reader.
    // Inlined, so that the chunk stays in registers: see `TraceBuffer::commit_chunk`.
    #[inline]
    pub(super) fn commit(&self, chunk: &UntrustedChunk<'_>) -> bool {
        let mut contents = self.contents.lock();
        contents.buffer.commit_chunk(chunk);
        let stats = contents.buffer.stats();
        let wake = match &self.read_mode {
            ReadMode::Streams(wake) => wake,
            ReadMode::RingAtEnd => {
                let part_bytes = stats.buffer_size / RingProgress::PARTS;
                // A part of a small ring is smaller than a chunk. If writers were told of each
                // part, they would write mostly definitions.
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
                return false;
            }
            ReadMode::AllAtEnd => return false,
        };
        if let Some(restart_bytes) = self.restart_bytes {
            let parts = stats.bytes_written / restart_bytes;
            if parts != contents.parts {
                contents.parts = parts;
                self.restart_states();
            }
        }
        contents.report_losses();
        let Contents { buffer, lag, .. } = &mut *contents;
        match lag.note_commit(buffer) {
            Urgency::None => false,
            Urgency::Wakes => {
                drop(contents);
                wake();
                false
            }
            Urgency::Yields => {
                MutexGuard::unlock_fair(contents);
                wake();
                true
            }
        }
    }

    /// Returns the number of bytes read so far if the reader does not keep up, and `None`
    /// otherwise.
    pub(super) fn read_by_slow_reader_bytes(&self) -> Option<u64> {
        if !matches!(self.read_mode, ReadMode::Streams(_)) {
            return None;
        }
        let contents = self.contents.lock();
        let lags = contents.lag.does_not_keep_up(&contents.buffer);
        lags.then(|| contents.buffer.stats().bytes_read)
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
    use std::thread;

    use super::*;
    use crate::trace_buffer::{ClientIdentity, FillPolicy};
    use tracezero_core::shm::ChunkFlags;

    /// The flags of a chunk in the middle of a packet.
    const MIDDLE: ChunkFlags =
        ChunkFlags::FIRST_PACKET_CONTINUES.union(ChunkFlags::LAST_PACKET_CONTINUES);

    /// Creates a ring of 64 KiB that is read while writers go on. Also returns how often its reader
    /// was woken.
    fn drained_ring() -> (Arc<CentralBuffer>, Arc<AtomicU32>) {
        let woken = Arc::new(AtomicU32::new(0));
        let wakes = Arc::clone(&woken);
        let wake = Box::new(move || {
            // Relaxed: a count that orders nothing else.
            wakes.fetch_add(1, Ordering::Relaxed);
        });
        let buffer = TraceBuffer::new(64 * 1024, FillPolicy::Ring).unwrap();
        let buffer = CentralBuffer::new(BufferId(1), buffer, ReadMode::Streams(wake));
        (Arc::new(buffer), woken)
    }

    /// Commits a chunk of 2 KiB with one fragment. `flags` describe that fragment.
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

    /// Commits a scraped chunk of 2 KiB with this number of fragments of 16 bytes each. Its writer
    /// is still filling it.
    fn scrape_chunk(buffer: &CentralBuffer, writer_id: WriterId, chunk_id: u32, fragments: u16) {
        let mut payload = vec![0; 2048];
        for fragment in payload.chunks_mut(16) {
            fragment[0] = 15;
        }
        buffer.commit(&UntrustedChunk {
            // The buffer ignores the last fragment of an incomplete chunk: it may still be written.
            fragment_count: fragments + 1,
            ..chunk_of(writer_id, chunk_id, &payload)
        });
    }

    fn chunk_of(writer_id: WriterId, chunk_id: u32, payload: &[u8]) -> UntrustedChunk<'_> {
        UntrustedChunk {
            producer_id: ProducerId::new(1),
            client: ClientIdentity::default(),
            writer_id,
            chunk_id: ChunkId(chunk_id),
            fragment_count: 0,
            flags: ChunkFlags::NONE,
            complete: false,
            payload,
        }
    }

    /// Commits this number of chunks of a packet without an end.
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
        // Relaxed: see `drained_ring`.
        assert!(woken.load(Ordering::Relaxed) > 0);
        thread::scope(|scope| {
            let waits = scope.spawn(|| buffer.wait_for_room(Duration::from_secs(60)));
            assert_eq!(read_all(&buffer), 10);
            assert!(waits.join().unwrap());
        });
    }

    #[test]
    fn chunks_read_while_growing_do_not_hide_lag() {
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
    fn writers_do_not_wait_for_a_reader_that_is_gone() {
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
    fn incomplete_packet_is_scraped_then_waited_for_then_given_up() {
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
        // The packet stays incomplete, and other writers have waited long enough.
        assert!(buffer.wait_for_room(Duration::from_millis(1)));
        for _ in 0..4 {
            assert!(buffer.wait_for_room(Duration::ZERO));
            commit_and_read();
        }
        assert!(buffer.with(|buffer| buffer.stats().bytes_overwritten) > 0);
        assert!(!buffer.wants_scrape());
    }

    #[test]
    fn reader_with_partial_passes_can_keep_up() {
        let (buffer, _) = drained_ring();
        commit_chunk(&buffer, WriterId(1), 0, ChunkFlags::NONE);
        // 16 rounds write the ring twice.
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

    /// Commits chunks of writer 1 until it would have to wait. Returns how many of them were
    /// overwritten.
    fn commit_while_there_is_room(buffer: &CentralBuffer, first_id: u32) -> u64 {
        for chunk_id in first_id..first_id + 100 {
            if !buffer.wait_for_room(Duration::ZERO) {
                break;
            }
            commit_chunk(buffer, WriterId(1), chunk_id, ChunkFlags::NONE);
        }
        let counts = buffer.with(|buffer| buffer.packet_counts(ProducerId::new(1), WriterId(1)));
        counts.map_or(0, |counts| counts.overwritten)
    }

    #[test]
    fn given_up_packet_makes_no_room_behind_it() {
        let (buffer, _) = drained_ring();
        commit_unfinished(&buffer, WriterId(2), 25);
        assert_eq!(read_all(&buffer), 0);
        assert!(!buffer.wait_for_room(Duration::ZERO));
        assert!(buffer.wait_for_room(Duration::from_millis(1)));
        assert_eq!(commit_while_there_is_room(&buffer, 0), 0);
    }

    #[test]
    fn writers_wait_for_a_chunk_that_grows_before_overwrite() {
        let (buffer, _) = drained_ring();
        scrape_chunk(&buffer, WriterId(2), 0, 1);
        assert_eq!(read_all(&buffer), 1);
        for chunk_id in 0..28 {
            commit_chunk(&buffer, WriterId(1), chunk_id, ChunkFlags::NONE);
            assert_eq!(read_all(&buffer), 1);
        }
        scrape_chunk(&buffer, WriterId(2), 0, 2);
        assert_eq!(commit_while_there_is_room(&buffer, 28), 0);
        let counts = buffer.with(|buffer| buffer.packet_counts(ProducerId::new(1), WriterId(2)));
        assert_eq!(counts.map(|counts| counts.overwritten), Some(0));
    }
}
