use std::collections::{BTreeMap, HashSet};

use support::trace_buffer::assert_same_both_ways;
use tracezero_core::commit::Patch;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{
    LossMask, PacketCounts, StorageBalance, TraceBuffer, UntrustedChunk,
};

use crate::choices::Shape;

/// The distance to a writer's newest chunk up to which a late chunk can be told from a repeated
/// one.
const LATE_IDS_MAX: u32 = 100;

/// The largest jump of chunk ids that is tracked. Ids wrap around, so they can be ordered within
/// half of their range only. After larger jumps, which no real writer makes, a chunk may seem older
/// than it is, and its packets are no longer predicted.
const JUMP_MAX: u32 = 1 << 29;

/// The size that marks a packet as aborted by its writer.
const ABORTED: u64 = 0x0fff_ffff;

/// A trace buffer, with independent counts of the packets that go in and out.
///
/// [`Self::audit`] asserts at any time that
/// - the storage balance is even, in chunks and in bytes, and the memory in use is within bounds,
/// - the packets read of each writer are as many as the buffer counts,
/// - if all chunks of a writer were complete, were committed once, and were not patched, the
///   buffer's counts add up to the packets that began in them,
/// - the statistics count each patch call by its result.
pub struct AuditedBuffer {
    buffer: TraceBuffer,
    expected: BTreeMap<(u32, u16), ExpectedCounts>,
    patches_succeeded: u64,
    patches_failed: u64,
}

/// The independent counts for one writer.
#[derive(Debug)]
struct ExpectedCounts {
    delivered: u64,
    /// The number of packets that began in the writer's chunks; `None` once it is unknown.
    begun: Option<u64>,
    ids: HashSet<u32>,
    newest: u32,
}

/// A packet that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadPacket {
    /// The producer of the packet.
    pub producer_id: ProducerId,
    /// The writer of the packet.
    pub writer_id: WriterId,
    /// The bytes of the packet, by fragment.
    pub slices: Vec<Vec<u8>>,
    /// The loss before the packet.
    pub loss: LossMask,
}

impl AuditedBuffer {
    /// Creates an empty buffer.
    pub fn new(shape: Shape) -> Self {
        Self {
            buffer: TraceBuffer::new(shape.size_bytes(), shape.policy()).expect("a small buffer"),
            expected: BTreeMap::new(),
            patches_succeeded: 0,
            patches_failed: 0,
        }
    }

    /// Returns the buffer, to inspect or observe it.
    pub fn buffer(&mut self) -> &mut TraceBuffer {
        &mut self.buffer
    }

    /// Commits a chunk.
    pub fn commit(&mut self, chunk: &UntrustedChunk<'_>) {
        let id = chunk.chunk_id.0;
        let key = (chunk.producer_id.value(), chunk.writer_id.0);
        let expected = self.expected.entry(key).or_insert(ExpectedCounts {
            delivered: 0,
            begun: Some(0),
            ids: HashSet::new(),
            newest: id,
        });
        let is_new = expected.ids.insert(id);
        let is_late = id.wrapping_sub(expected.newest) > i32::MAX as u32;
        let is_too_late = is_late && expected.newest.wrapping_sub(id) > LATE_IDS_MAX;
        let jumps = !is_late && id.wrapping_sub(expected.newest) > JUMP_MAX;
        if !is_late {
            expected.newest = id;
        }
        expected.begun = (expected.begun)
            .filter(|_| chunk.complete && is_new && !is_too_late && !jumps)
            .map(|begun| begun + packets_begun_in(chunk));
        self.buffer.commit_chunk(chunk);
    }

    /// Patches a chunk with any bytes. From then on, the number of its packets is not predicted.
    pub fn patch(
        &mut self,
        producer_id: ProducerId,
        writer_id: WriterId,
        chunk_id: ChunkId,
        patches: &[Patch],
        has_more: bool,
    ) -> bool {
        if let Some(expected) = self.expected.get_mut(&(producer_id.value(), writer_id.0)) {
            expected.begun = None;
        }
        self.patch_with_what_is_there(producer_id, writer_id, chunk_id, patches, has_more)
    }

    /// Patches a chunk with the bytes that it already has: only its flag changes.
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
    pub fn read(&mut self) -> Option<ReadPacket> {
        let delivered = read(&mut self.buffer);
        if let Some(packet) = &delivered {
            let key = (packet.producer_id.value(), packet.writer_id.0);
            let expected = self.expected.get_mut(&key).expect("a writer that wrote");
            expected.delivered += 1;
        }
        delivered
    }

    /// Reads all packets, from the buffer and from a clone, and asserts that they are equal.
    pub fn read_all(&mut self) -> Vec<ReadPacket> {
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

    /// Compares the buffer's counts with the independent ones.
    pub fn audit(&self) {
        check_balance(&self.buffer);
        let stats = self.buffer.stats();
        assert_eq!(stats.patches_failed, self.patches_failed);
        // A failed call counts as one failed patch. Its patches before the failed one count neither
        // as succeeded nor as failed.
        assert_eq!(stats.patches_succeeded, self.patches_succeeded);
        assert_eq!(self.buffer.all_packet_counts().count(), self.expected.len());
        for (producer_id, writer_id, counts) in self.buffer.all_packet_counts() {
            let expected = &self.expected[&(producer_id.value(), writer_id.0)];
            assert_eq!(counts.read, expected.delivered, "{expected:?}");
            assert_eq!(
                counts.committed(),
                counts.read + counts.unread + counts.folded + lost(&counts)
            );
            if let Some(begun) = expected.begun {
                assert_eq!(counts.committed(), begun, "{counts:?} {expected:?}");
            }
        }
    }
}

/// Returns the sum of all losses.
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

fn read(buffer: &mut TraceBuffer) -> Option<ReadPacket> {
    let packet = buffer.read_packet()?;
    let slices: Vec<_> = packet.slices().map(<[u8]>::to_vec).collect();
    assert!(slices.iter().all(|slice| !slice.is_empty()));
    assert_eq!(
        slices.iter().map(Vec::len).sum::<usize>(),
        packet.len_bytes()
    );
    let loss = packet.loss();
    assert!(loss.is_empty() || loss.contains(LossMask::PRESENT) && loss != LossMask::PRESENT);
    Some(ReadPacket {
        producer_id: packet.origin().producer_id,
        writer_id: packet.origin().writer_id,
        slices,
        loss,
    })
}

/// Returns the number of packets whose first fragment is in this complete chunk.
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

/// Splits off the fragment at the start. Returns its size, and the bytes after it.
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
