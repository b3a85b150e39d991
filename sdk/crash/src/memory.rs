//! The shared memory of a process, and the table of its writers.

use std::collections::HashMap;

use tracezero_core::coordination::{PacketCounts, WriterTotals};
use tracezero_core::crash_files::format::COUNT_MAX;
use tracezero_core::crash_files::format::{HEADER_BYTES, Meta, ROW_BYTES, WriterRow};
use tracezero_core::ids::{BufferId, ChunkId, ProducerId, WriterId};
use tracezero_core::shm::{Geometry, ScrapedChunk, ServiceMemory};
use tracezero_service::trace_buffer::{ClientIdentity, TraceBuffer, UntrustedChunk};

/// The id that the service of the process gave to its only producer.
pub(crate) const PRODUCER: ProducerId = ProducerId::new(1);

/// Decodes the rows behind the header of `meta`.
pub(crate) fn writer_rows(meta: &[u8]) -> Vec<WriterRow> {
    let rows = meta.get(HEADER_BYTES..).unwrap_or_default();
    let words = |row: &[u8]| {
        let mut words = [0; ROW_BYTES / 8];
        for (word, bytes) in words.iter_mut().zip(row.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        }
        words
    };
    rows.chunks_exact(ROW_BYTES)
        .filter_map(|row| WriterRow::decode(words(row)))
        .collect()
}

/// Returns what the writers of a buffer counted.
pub(crate) fn totals_of(rows: &[WriterRow], buffer: BufferId) -> Vec<(ProducerId, WriterTotals)> {
    let mut totals: HashMap<Option<WriterId>, WriterTotals> = HashMap::new();
    for row in rows.iter().filter(|row| row.target_buffer == buffer) {
        // Damaged numbers must not overflow where they are added up.
        let [begun, empty, dropped, episodes] = row.counts.map(|count| count.min(COUNT_MAX));
        let empty = empty.min(begun);
        let dropped = dropped.min(begun - empty);
        let total = totals.entry(row.writer_id).or_insert_with(|| WriterTotals {
            writer_id: row.writer_id,
            target_buffer: buffer,
            thread_name: row.thread_name.clone(),
            counts: PacketCounts::default(),
        });
        let add = |sum: &mut u64, count: u64| *sum += count;
        add(&mut total.counts.packets_begun, begun);
        add(&mut total.counts.packets_empty, empty);
        add(&mut total.counts.packets_dropped, dropped);
        add(&mut total.counts.drop_episodes, episodes);
    }
    totals
        .into_values()
        .map(|totals| (PRODUCER, totals))
        .collect()
}

/// A copy of the shared memory.
#[derive(Debug)]
pub(crate) struct MemoryCopy {
    memory: ServiceMemory,
    /// The buffer of each living writer.
    targets: HashMap<WriterId, BufferId>,
}

impl MemoryCopy {
    /// Copies the memory. Returns `None` if its sizes are not those in `meta`.
    pub(crate) fn new(meta: &Meta, rows: &[WriterRow], bytes: &[u8]) -> Option<Self> {
        let (size_bytes, page_bytes) = (meta.memory_size_bytes, meta.page_size_bytes);
        let geometry = Geometry::new(size_bytes as usize, page_bytes as usize).ok()?;
        let living = rows.iter().filter(|row| row.is_living);
        let target = |row: &WriterRow| Some((row.writer_id?, row.target_buffer));
        Some(Self {
            memory: ServiceMemory::of_dead_process(geometry, bytes).ok()?,
            targets: living.filter_map(target).collect(),
        })
    }

    /// Returns the size of the memory.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.memory.geometry().size_bytes() as u64
    }

    /// Commits the chunks that writers of a buffer had not handed over, or whose copy was not
    /// finished. Of chunks that writers were filling, only finished packets. Leaves out chunks for
    /// which `is_newer` returns false.
    pub(crate) fn commit_to(
        &mut self,
        target: BufferId,
        buffer: &mut TraceBuffer,
        client: ClientIdentity,
        is_newer: impl Fn(WriterId, ChunkId) -> bool,
    ) {
        let mut payload = Vec::new();
        let targets = &self.targets;
        let is_wanted = |writer_id| targets.get(&writer_id) == Some(&target);
        for chunk in self.memory.used_chunks(is_wanted) {
            if !is_newer(chunk.writer_id, chunk.chunk_id) {
                continue;
            }
            let scraped = self.memory.scrape(chunk.place, &mut payload);
            let Some(ScrapedChunk {
                header,
                is_complete,
            }) = scraped
            else {
                continue;
            };
            buffer.commit_chunk(&UntrustedChunk {
                producer_id: PRODUCER,
                client,
                writer_id: header.writer_id,
                chunk_id: header.chunk_id,
                fragment_count: header.packets.count(),
                flags: header.packets.flags(),
                complete: is_complete,
                payload: &payload,
            });
        }
    }
}
