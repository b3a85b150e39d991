//! Reads the buffers of a session as a trace.
//!
//! A reader locks a buffer for about 64 KiB of packets at a time (`READ_BATCH_BYTES` in
//! `packet_framer.rs`), and does no I/O while the buffer is locked.

use std::sync::Arc;

use super::announced_states::{AnnouncedStates, EncodeAnnouncement, Provenance};
use super::buffer_states::BufferStates;
use super::central_buffer::CentralBuffer;
use super::compression::append_packed;
use super::file_end::FileEnd;
use super::folded_state::FoldedState;
use super::packet_framer::{Framed, PacketFramer, READ_BATCH_BYTES, give_back};
use super::read_positions::ReadPositions;
use super::segment_accounts::SegmentAccounts;
use super::trace_buffer::{Mark, TraceBuffer};
use super::trace_output::{END_MAX_BYTES, TraceOutput};
use tracezero_config::{Compression, SessionConfig};
use tracezero_core::ids::{ProducerId, WriterId};

/// The approximate number of bytes that are compressed together. Larger batches hardly compress
/// better.
const COMPRESSED_BATCH_BYTES: usize = 512 * 1024;

/// The end of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Read until nothing is left, including packets that come meanwhile.
    Everything,
    /// Read what was there at the begin of the read. So it ends however fast writers are.
    WhatIsThere,
}

/// The progress of a reading of all buffers. Between two batches, the reader may be left alone for any
/// time.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) extent: Extent,
    pub(super) stage: Stage,
}

/// The next part of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// The service's packets before those of writers.
    Begin,
    /// This buffer, up to its mark.
    Buffer(usize, Option<Mark>),
    /// The service's packets behind those of writers.
    End,
    Over,
}

impl Pass {
    pub(super) fn new(extent: Extent) -> Self {
        Self {
            extent,
            stage: Stage::Begin,
        }
    }
}

/// Framed packets, possibly compressed, for each segment that packets can go to. A trace without
/// segments is in `newer`.
pub(super) type Batch = Framed<Vec<u8>>;

/// The state of reading one session.
pub(crate) struct TraceReader {
    /// The buffers in the order of the configuration.
    buffers: Vec<Arc<CentralBuffer>>,
    pub(super) framer: PacketFramer,
    /// The framed packets of the present batch, or of the batch that the file did not take.
    pub(super) packets: Batch,
    /// The pass that [`Service::read_some`](crate::Service::read_some) has begun.
    pub(super) pass: Option<Pass>,
    compression: Compression,
    /// The compressed batch.
    compressed: Batch,
    pub(super) output: Option<TraceOutput>,
    /// The output of the segment before the newest one, while sequences are still in it.
    pub(super) older_output: Option<TraceOutput>,
    /// The accounts of segments; `None` if the trace has none.
    pub(super) segments: Option<SegmentAccounts>,
    max_file_size_bytes: u64,
    /// True if the file is synced to the disk after each pass.
    syncs: bool,
    /// The number of bytes in the file so far.
    pub(super) written_bytes: u64,
    /// The reason why the file ends before the trace, if it does.
    pub(super) file_end: Option<FileEnd>,
    announced_states: AnnouncedStates,
    /// True if the trace is read in parts, each of which is a trace of its own. What was read is then
    /// folded into the states with which later parts begin.
    reads_parts: bool,
    /// Encodes announcements of sequences that come during a pass.
    pub(super) encode_announcement: EncodeAnnouncement,
    /// How far the sequences of the present batch were read. `None` unless a recovery needs it.
    positions: Option<ReadPositions>,
}

impl TraceReader {
    pub(super) fn new(buffers: Vec<Arc<CentralBuffer>>, config: &SessionConfig) -> Self {
        Self {
            buffers,
            framer: PacketFramer::new(),
            packets: Batch::default(),
            pass: None,
            compression: config.compression,
            compressed: Batch::default(),
            output: None,
            older_output: None,
            segments: None,
            max_file_size_bytes: config.max_file_size_bytes,
            syncs: config.fflush_post_write,
            written_bytes: 0,
            file_end: None,
            announced_states: AnnouncedStates::default(),
            reads_parts: false,
            encode_announcement: Box::new(|_| Vec::new()),
            positions: None,
        }
    }

    /// Returns the states of overwritten packets with which the trace begins.
    pub(super) fn begin_states(&mut self, provenance: &Provenance) -> Vec<FoldedState> {
        let with_states = self.buffers.iter().filter(|it| !it.states.is_empty());
        let states = with_states.flat_map(|buffer| {
            let writers = buffer.with(|buffer| {
                let writers = buffer.all_packet_counts();
                writers
                    .map(|(producer, writer, _)| (producer, writer))
                    .collect::<Vec<_>>()
            });
            states_before(self.reads_parts, &buffer.states, writers.into_iter())
        });
        let states = states.collect();
        self.announced_states.begin(provenance, states)
    }

    /// Begins a part of the trace that is a trace of its own.
    pub(super) fn begin_part(&mut self) {
        self.framer.introduce_anew();
        self.announced_states = AnnouncedStates::default();
        self.reads_parts = true;
    }

    /// Writes the trace into segments, each of which is a trace of its own.
    pub(super) fn write_segments(&mut self, segment_bytes: u64) {
        self.segments = Some(SegmentAccounts::new(segment_bytes));
        self.reads_parts = true;
    }

    /// Begins a segment. `output` is its file.
    pub(super) fn begin_segment(&mut self, output: TraceOutput) {
        self.framer.begin_segment();
        self.announced_states = AnnouncedStates::default();
        self.older_output = self.output.replace(output.with_limits(0, self.syncs));
    }

    /// Notes how much the files have. `older` is that of the older segment.
    pub(super) fn note_written_bytes(&mut self, newer: &TraceOutput, older: Option<&TraceOutput>) {
        let ended_bytes = self.segments.as_ref().map_or(0, |it| it.ended_bytes);
        self.written_bytes =
            ended_bytes + newer.written_bytes() + older.map_or(0, TraceOutput::written_bytes);
    }

    /// Writes, behind each batch, how far sequences were read, so that a recovery can continue
    /// there.
    pub(super) fn write_positions(&mut self) {
        self.positions = Some(ReadPositions::default());
    }

    /// Creates the reader of a clone. It writes everything into `output`, without a limit.
    pub(super) fn of_clone(
        buffers: Vec<Arc<CentralBuffer>>,
        config: &SessionConfig,
        framer: PacketFramer,
        output: Option<TraceOutput>,
    ) -> Self {
        Self {
            framer,
            output,
            ..Self::new(buffers, config)
        }
    }

    pub(super) fn attach_output(&mut self, output: TraceOutput) {
        let limit_bytes = match self.max_file_size_bytes {
            0 => 0,
            // Reserve room for the packet that ends the trace.
            limit => limit.saturating_sub(END_MAX_BYTES as u64).max(1),
        };
        self.output = Some(output.with_limits(limit_bytes, self.syncs));
    }

    pub(super) fn buffers(&self) -> &[Arc<CentralBuffer>] {
        &self.buffers
    }

    /// Begins a read. The caller then puts the first packets of the trace into `packets`.
    pub(super) fn begin_reading(&mut self) {
        self.packets.newer.clear();
        self.packets.older.clear();
        self.framer.begin_batch();
    }

    /// Lets a pass continue with the buffer at `index`, if there is one.
    pub(super) fn enter_buffer(&self, pass: &mut Pass, index: usize) {
        let mark = |buffer: &Arc<CentralBuffer>| match pass.extent {
            Extent::Everything => None,
            Extent::WhatIsThere => Some(buffer.with(|buffer| buffer.mark())),
        };
        let buffer = self.buffers.get(index);
        pass.stage = buffer.map_or(Stage::End, |buffer| Stage::Buffer(index, mark(buffer)));
    }

    /// Reads packets of writers until the batch is full, or all buffers are read. Returns whether
    /// the batch is full.
    pub(super) fn fill_batch(&mut self, pass: &mut Pass) -> bool {
        let batch_bytes = match self.compression {
            Compression::None => READ_BATCH_BYTES,
            Compression::Deflate | Compression::Zstd { .. } => COMPRESSED_BATCH_BYTES,
        };
        while let Stage::Buffer(index, end) = pass.stage {
            if self.packets.newer.len() + self.packets.older.len() >= batch_bytes {
                return true;
            }
            let buffer = &self.buffers[index];
            let mut new = None;
            let goes_on = buffer.read(end, |trace_buffer| {
                let goes_on = self.framer.take_batch(trace_buffer);
                if let Some(positions) = &mut self.positions {
                    positions.note(index, trace_buffer, &mut self.framer);
                }
                if !buffer.states.is_empty() {
                    let writers = self.framer.taken_writers();
                    let sequences = writers.iter();
                    let sequences =
                        sequences.map(|writer| (self.framer.sequence_id(*writer), writer.0));
                    // The buffer is still locked, so no packet of this batch is part of the states.
                    new = self.announced_states.before(
                        index,
                        sequences,
                        |producer| buffer.states.folds(producer),
                        || states_before(self.reads_parts, &buffer.states, writers.iter().copied()),
                    );
                    if self.reads_parts {
                        buffer.states.fold_read(trace_buffer, &self.framer);
                    }
                }
                goes_on
            });
            if let Some(new) = new {
                let announcement = (self.encode_announcement)(&new);
                self.packets.newer.extend(announcement);
            }
            self.framer.append_to(&mut self.packets);
            for writer in self.framer.take_losing_writers() {
                buffer.note_loss(writer);
            }
            if !goes_on {
                self.enter_buffer(pass, index + 1);
            }
        }
        false
    }

    /// Returns the batch; `None` if it is empty. The caller gives it back by
    /// [`batch_was_taken`](Self::batch_was_taken) or [`batch_was_refused`](Self::batch_was_refused).
    pub(super) fn take_batch(&mut self) -> Option<Batch> {
        if self.packets.newer.is_empty() && self.packets.older.is_empty() {
            return None;
        }
        let mut batch = match self.compression {
            Compression::None => std::mem::take(&mut self.packets),
            compression => {
                for (packets, compressed) in [
                    (&self.packets.newer, &mut self.compressed.newer),
                    (&self.packets.older, &mut self.compressed.older),
                ] {
                    compressed.clear();
                    if !packets.is_empty() {
                        append_packed(compression, packets, compressed);
                    }
                }
                std::mem::take(&mut self.compressed)
            }
        };
        if let Some(positions) = &mut self.positions {
            // In the same write, so that a batch without its positions is not whole.
            batch.newer.append(&mut positions.take_packet());
        }
        Some(batch)
    }

    /// Begins the next batch. `batch` is in the trace.
    pub(super) fn batch_was_taken(&mut self, batch: Batch) {
        if self.positions.is_some() {
            for buffer in &self.buffers {
                buffer.with(TraceBuffer::note_written);
            }
        }
        self.put_back(batch);
        for memory in [
            &mut self.packets.newer,
            &mut self.packets.older,
            &mut self.compressed.newer,
            &mut self.compressed.older,
        ] {
            memory.clear();
            give_back(memory);
        }
        self.framer.begin_batch();
    }

    /// Keeps a batch that the file did not take, for [`file_ended_early`](Self::file_ended_early) or
    /// [`leave_out_rest`](Self::leave_out_rest).
    pub(super) fn batch_was_refused(&mut self, batch: Batch) {
        self.put_back(batch);
    }

    fn put_back(&mut self, batch: Batch) {
        match self.compression {
            Compression::None => self.packets = batch,
            Compression::Deflate | Compression::Zstd { .. } => self.compressed = batch,
        }
    }

    /// Notes that the file ends before the trace, after the first `written` bytes of the last
    /// batch.
    pub(super) fn file_ended_early(&mut self, end: FileEnd, written: &Framed<usize>) {
        self.file_end = Some(end);
        self.leave_out_rest(written);
    }

    /// Leaves out the packets of the last batch that are behind its first `written` bytes.
    pub(super) fn leave_out_rest(&mut self, written: &Framed<usize>) {
        let Batch { newer, older } = &self.packets;
        // A compressed batch is a single packet, of which the file has all or nothing.
        let refused = |packets: &[u8], compressed: &[u8], written| match self.compression {
            Compression::None => written,
            _ if written == compressed.len() => packets.len(),
            _ => 0,
        };
        self.framer.take_back(Framed {
            newer: &newer[refused(newer, &self.compressed.newer, written.newer)..],
            older: &older[refused(older, &self.compressed.older, written.older)..],
        });
    }
}

/// Returns the states that a trace has before packets of these writers. Each part of a trace that is read
/// in parts has all states; otherwise later packets of a writer build on what was announced.
fn states_before(
    reads_parts: bool,
    states: &BufferStates,
    writers: impl Iterator<Item = (ProducerId, WriterId)>,
) -> Vec<FoldedState> {
    match reads_parts {
        true => states.states(),
        false => states.announce(writers),
    }
}

#[cfg(test)]
mod tests {
    use protozero::HeapBuffered;

    use super::*;
    use crate::central_buffer::ReadMode;
    use crate::packet_framer::KEPT_BYTES_MAX;
    use crate::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk};
    use tracezero_config::LocalChoices;
    use tracezero_core::ids::{BufferId, ChunkId, ProducerId, WriterId};
    use tracezero_core::protos::{TraceDecoder, TracePacket};
    use tracezero_core::shm::ChunkFlags;

    /// Commits a chunk with one fragment.
    fn commit(buffer: &CentralBuffer, writer: u16, chunk: u32, flags: ChunkFlags, fragment: &[u8]) {
        let mut payload = vec![0x80; 4];
        for (index, byte) in payload.iter_mut().enumerate() {
            *byte |= (fragment.len() >> (7 * index)) as u8 & 0x7f;
        }
        payload[3] &= 0x7f;
        payload.extend(fragment);
        buffer.commit(&UntrustedChunk {
            producer_id: ProducerId::new(1),
            client: ClientIdentity::default(),
            writer_id: WriterId(writer),
            chunk_id: ChunkId(chunk),
            fragment_count: 1,
            flags,
            complete: true,
            payload: &payload,
        });
    }

    fn packet(text: &str) -> Vec<u8> {
        let mut buffer = HeapBuffered::<TracePacket<'_>>::new();
        buffer.message().for_testing(|event| {
            event.set_str(text);
        });
        buffer.to_vec()
    }

    #[test]
    fn long_packet_that_ends_later_does_not_end_the_read() {
        let ring = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
        let buffer = CentralBuffer::new(BufferId(1), ring, ReadMode::RingAtEnd);
        let buffer = Arc::new(buffer);
        let long = packet(&"x".repeat(100_000));
        let (begin, end) = long.split_at(50_000);
        commit(&buffer, 1, 0, ChunkFlags::LAST_PACKET_CONTINUES, begin);
        for chunk in 0..2 {
            commit(
                &buffer,
                2,
                chunk,
                ChunkFlags::NONE,
                &packet(&"y".repeat(40_000)),
            );
        }
        commit(&buffer, 3, 0, ChunkFlags::NONE, &packet("was there"));

        let config = SessionConfig::new(&Default::default(), &LocalChoices::default()).unwrap();
        let mut reader = TraceReader::new(vec![Arc::clone(&buffer)], &config);
        let mut lengths = Vec::new();
        let mut pass = Pass::new(Extent::WhatIsThere);
        reader.begin_reading();
        reader.enter_buffer(&mut pass, 0);
        loop {
            let is_full = reader.fill_batch(&mut pass);
            let batch = reader.take_batch().unwrap_or_default();
            if lengths.is_empty() {
                commit(&buffer, 1, 1, ChunkFlags::FIRST_PACKET_CONTINUES, end);
            }
            for packet in TraceDecoder::new(&batch.newer).packet() {
                let text = packet.unwrap().for_testing().unwrap();
                lengths.push(text.unwrap().str().unwrap().unwrap_or_default().len());
            }
            reader.batch_was_taken(batch);
            if !is_full {
                break;
            }
        }
        assert_eq!(lengths, [40_000, 40_000, 100_000, "was there".len()]);
    }

    #[test]
    fn memory_of_a_large_packet_is_given_back() {
        const FRAGMENT_BYTES: usize = 60_000;
        let ring = TraceBuffer::new(16 << 20, FillPolicy::Ring).unwrap();
        let buffer = CentralBuffer::new(BufferId(1), ring, ReadMode::RingAtEnd);
        let buffer = Arc::new(buffer);
        let large = packet(&"x".repeat(2 * KEPT_BYTES_MAX));
        let mut flags = ChunkFlags::LAST_PACKET_CONTINUES;
        let mut fragments = large.chunks(FRAGMENT_BYTES).peekable();
        let mut chunk = 0;
        while let Some(fragment) = fragments.next() {
            if fragments.peek().is_none() {
                flags = flags.difference(ChunkFlags::LAST_PACKET_CONTINUES);
            }
            commit(&buffer, 1, chunk, flags, fragment);
            flags = flags.union(ChunkFlags::FIRST_PACKET_CONTINUES);
            chunk += 1;
        }
        let config = SessionConfig::new(&Default::default(), &LocalChoices::default()).unwrap();
        let mut reader = TraceReader::new(vec![buffer], &config);
        let mut taken_bytes = 0;
        let mut pass = Pass::new(Extent::Everything);
        reader.begin_reading();
        reader.enter_buffer(&mut pass, 0);
        let mut is_full = true;
        while is_full {
            is_full = reader.fill_batch(&mut pass);
            let batch = reader.take_batch().unwrap_or_default();
            taken_bytes += batch.newer.len();
            reader.batch_was_taken(batch);
        }
        assert!(taken_bytes > large.len());
        assert!(reader.packets.newer.capacity() <= KEPT_BYTES_MAX);
    }
}
