use std::collections::{BTreeMap, HashSet};

use support::trace_buffer::assert_same_both_ways;
use tracezero_service::trace_buffer::{
    LossMask, PacketCounts, StorageBalance, TraceBuffer, UntrustedChunk,
};
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;

use crate::choices::Shape;

/// So far behind the newest chunk of its writer a chunk is still told from one that comes again.
const LATE_IDS_MAX: u32 = 100;

/// Ids are ordered within half of their circle. A writer that jumps so far could come round and be
/// taken for older than itself; no writer does, and what becomes of such chunks cannot be told.
const JUMP_MAX: u32 = 1 << 29;

/// The size that marks a packet which its writer gave up.
const ABORTED: u64 = 0x0fff_ffff;

/// A trace buffer and a second account of what goes in and what comes out.
///
/// [`Self::audit`] asserts, at any time, that
/// - the storage balance is even, in chunks and in bytes, and the memory in use is within bounds,
/// - each writer was delivered as many packets as its account says,
/// - if all chunks of a writer were complete, came once, and were not patched, its account adds up
///   to the packets that began in them,
/// - each patch call shows in the statistics as what it returned.
pub struct AuditedBuffer {
    buffer: TraceBuffer,
    books: BTreeMap<(u16, u16), Book>,
    patches_succeeded: u64,
    patches_failed: u64,
}

/// What is known of one writer.
#[derive(Debug)]
struct Book {
    delivered: u64,
    /// Packets that began in its chunks; `None` if that cannot be said any more.
    begun: Option<u64>,
    ids: HashSet<u32>,
    newest: u32,
}

/// A packet that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The producer of the packet.
    pub producer_id: ProducerId,
    /// The writer of the packet.
    pub writer_id: WriterId,
    /// Its bytes, by fragment.
    pub slices: Vec<Vec<u8>>,
    /// What was lost before it.
    pub loss: LossMask,
}

impl AuditedBuffer {
    /// An empty buffer.
    pub fn new(shape: Shape) -> Self {
        Self {
            buffer: TraceBuffer::new(shape.size_bytes(), shape.policy()).expect("a small buffer"),
            books: BTreeMap::new(),
            patches_succeeded: 0,
            patches_failed: 0,
        }
    }

    /// The buffer, to look at and to be observed.
    pub fn buffer(&mut self) -> &mut TraceBuffer {
        &mut self.buffer
    }

    /// Commits a chunk.
    pub fn commit(&mut self, chunk: &UntrustedChunk<'_>) {
        let id = chunk.chunk_id.0;
        let key = (chunk.producer_id.0, chunk.writer_id.0);
        let book = self.books.entry(key).or_insert(Book {
            delivered: 0,
            begun: Some(0),
            ids: HashSet::new(),
            newest: id,
        });
        let is_new = book.ids.insert(id);
        let is_late = id.wrapping_sub(book.newest) > i32::MAX as u32;
        let is_too_late = is_late && book.newest.wrapping_sub(id) > LATE_IDS_MAX;
        let jumps = !is_late && id.wrapping_sub(book.newest) > JUMP_MAX;
        if !is_late {
            book.newest = id;
        }
        book.begun = (book.begun)
            .filter(|_| chunk.complete && is_new && !is_too_late && !jumps)
            .map(|begun| begun + packets_begun_in(chunk));
        self.buffer.commit_chunk(chunk);
    }

    /// Patches a chunk. Whatever is written, its packets can be read at most as they are then.
    pub fn patch(
        &mut self,
        producer_id: ProducerId,
        writer_id: WriterId,
        chunk_id: ChunkId,
        patches: &[Patch],
        has_more: bool,
    ) -> bool {
        if let Some(book) = self.books.get_mut(&(producer_id.0, writer_id.0)) {
            book.begun = None;
        }
        self.patch_with_what_is_there(producer_id, writer_id, chunk_id, patches, has_more)
    }

    /// Patches a chunk with the bytes that are there already: nothing but its flag changes.
    pub fn patch_with_what_is_there(
        &mut self,
        producer_id: ProducerId,
        writer_id: WriterId,
        chunk_id: ChunkId,
        patches: &[Patch],
        has_more: bool,
    ) -> bool {
        let buffer = &mut self.buffer;
        let is_patched = buffer.patch_chunk(producer_id, writer_id, chunk_id, patches, has_more);
        if is_patched {
            self.patches_succeeded += patches.len() as u64;
        } else {
            self.patches_failed += 1;
        }
        is_patched
    }

    /// Starts a read cycle.
    pub fn begin_read(&mut self) {
        self.buffer.begin_read();
    }

    /// Reads a packet.
    pub fn read(&mut self) -> Option<Delivered> {
        let delivered = read(&mut self.buffer);
        if let Some(packet) = &delivered {
            let key = (packet.producer_id.0, packet.writer_id.0);
            let book = self.books.get_mut(&key).expect("a writer that wrote");
            book.delivered += 1;
        }
        delivered
    }

    /// Reads all that can be read, here and in a clone, which must be the same.
    pub fn read_all(&mut self) -> Vec<Delivered> {
        assert_same_both_ways(&self.buffer);
        let mut clone = self.buffer.clone_read_only().expect("a small buffer");
        assert!(clone.storage_balance().is_even());
        clone.begin_read();
        let in_clone: Vec<_> = std::iter::from_fn(|| read(&mut clone)).collect();
        check_balance(&clone);

        self.begin_read();
        let here: Vec<_> = std::iter::from_fn(|| self.read()).collect();
        assert_eq!(in_clone, here);
        assert!(
            (clone.all_packet_counts().map(|(_, _, counts)| counts))
                .eq(self.buffer.all_packet_counts().map(|(_, _, counts)| counts))
        );
        here
    }

    /// Compares the two accounts.
    pub fn audit(&self) {
        check_balance(&self.buffer);
        let stats = self.buffer.stats();
        assert_eq!(stats.patches_failed, self.patches_failed);
        // Those before the one that failed count as applied in neither.
        assert_eq!(stats.patches_succeeded, self.patches_succeeded);
        assert_eq!(self.buffer.all_packet_counts().count(), self.books.len());
        for (producer_id, writer_id, counts) in self.buffer.all_packet_counts() {
            let book = &self.books[&(producer_id.0, writer_id.0)];
            assert_eq!(counts.read, book.delivered, "{book:?}");
            assert_eq!(
                counts.committed(),
                counts.read + counts.unread + lost(&counts)
            );
            if let Some(begun) = book.begun {
                assert_eq!(counts.committed(), begun, "{counts:?} {book:?}");
            }
        }
    }
}

/// The sum of losses by cause.
fn lost(counts: &PacketCounts) -> u64 {
    [
        counts.overwritten,
        counts.discarded,
        counts.late,
        counts.gap,
        counts.broken_chain,
        counts.aborted,
        counts.corrupted,
    ]
    .iter()
    .sum()
}

fn check_balance(buffer: &TraceBuffer) {
    let balance: StorageBalance = buffer.storage_balance();
    assert!(balance.is_even(), "{balance:?} {:?}", buffer.stats());
    assert!(buffer.used_bytes() <= buffer.size_bytes());
    assert!(buffer.tail_bytes() <= buffer.size_bytes());
}

fn read(buffer: &mut TraceBuffer) -> Option<Delivered> {
    let packet = buffer.read_packet()?;
    let slices: Vec<_> = packet.slices().map(<[u8]>::to_vec).collect();
    assert!(slices.iter().all(|slice| !slice.is_empty()));
    assert_eq!(
        slices.iter().map(Vec::len).sum::<usize>(),
        packet.len_bytes()
    );
    let loss = packet.loss();
    assert!(loss.is_empty() || loss.contains(LossMask::PRESENT) && loss != LossMask::PRESENT);
    Some(Delivered {
        producer_id: packet.origin().producer_id,
        writer_id: packet.origin().writer_id,
        slices,
        loss,
    })
}

/// How many packets have their first fragment in a complete chunk.
fn packets_begun_in(chunk: &UntrustedChunk<'_>) -> u64 {
    let mut sizes = Vec::new();
    let mut rest = chunk.payload;
    while sizes.len() < usize::from(chunk.fragment_count)
        && let Some((size, behind)) = split_fragment(rest)
    {
        sizes.push(size);
        rest = behind;
    }
    let is_continuation = |index| index == 0 && has(chunk, ChunkFlags::FIRST_PACKET_CONTINUES);
    let is_begin =
        |index| index + 1 == sizes.len() && has(chunk, ChunkFlags::LAST_PACKET_CONTINUES);
    (sizes.iter().enumerate())
        .filter(|&(index, &size)| !is_continuation(index) && (size != 0 || is_begin(index)))
        .count() as u64
}

fn has(chunk: &UntrustedChunk<'_>, flag: ChunkFlags) -> bool {
    chunk.flags.contains(flag)
}

/// The size of the fragment at the start, and what is behind it.
fn split_fragment(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let header_len = bytes.iter().take(10).position(|&byte| byte < 0x80)? + 1;
    let size = (bytes[..header_len].iter().rev())
        .fold(0_u64, |size, &byte| size << 7 | u64::from(byte & 0x7f));
    let behind = &bytes[header_len..];
    if size == ABORTED || size > behind.len() as u64 {
        return None;
    }
    Some((size, &behind[size as usize..]))
}
