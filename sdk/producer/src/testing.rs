//! A fake service for tests of the producer. It takes commits at once or when told to, keeps all
//! that it receives, and reassembles packets in the simplest way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::arbiter::{Arbiter, ArbiterConfig};
use tracezero_core::commit::{CommitRequest, LossCount, ServiceEndpoint};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{
    ABANDONED_FRAGMENT_SIZE, ChunkFlags, ChunkPlace, Geometry, PacketsWord, PageLayout,
    ScrapedChunk, ServiceMemory, shared_memory,
};

/// The buffer that tests write to.
pub(super) const BUFFER: BufferId = BufferId(7);

/// The configuration of a test's memory, arbiter and service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) page_size_bytes: usize,
    pub(super) pages: usize,
    pub(super) layout: PageLayout,
    pub(super) stall_limit: Duration,
    /// True if the service takes commits only when it is told to.
    pub(super) is_slow: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            page_size_bytes: 4096,
            pages: 14,
            layout: PageLayout::One,
            stall_limit: Duration::from_millis(1),
            is_slow: false,
        }
    }
}

impl Setup {
    pub(super) fn build(self) -> (Arc<Arbiter>, Arc<FakeService>) {
        let size_bytes = self.pages * self.page_size_bytes;
        let geometry = Geometry::new(size_bytes, self.page_size_bytes).unwrap();
        let (producer, memory) = shared_memory(geometry).unwrap();
        let service = Arc::new(FakeService {
            memory: Mutex::new(memory),
            is_slow: self.is_slow,
            has_no_room: AtomicBool::new(false),
            room_waits: Mutex::default(),
            received: Mutex::new(Received::default()),
        });
        let config = ArbiterConfig {
            page_layout: Some(self.layout),
            stall_limit: self.stall_limit,
        };
        let endpoint: Arc<dyn ServiceEndpoint> = service.clone();
        (Arbiter::new(producer, endpoint, config), service)
    }
}

/// The fake service.
#[derive(Debug)]
pub(super) struct FakeService {
    memory: Mutex<ServiceMemory>,
    is_slow: bool,
    /// True if the reader of the buffer is behind, so that the buffer has no room.
    has_no_room: AtomicBool,
    /// The timeout of each wait for room, in order.
    room_waits: Mutex<Vec<Duration>>,
    received: Mutex<Received>,
}

#[derive(Debug, Default)]
struct Received {
    /// All requests. `taken` is the number of them that the service has taken.
    requests: Vec<CommitRequest>,
    taken: usize,
    /// The chunks of each writer, in the order of their commits.
    chunks: BTreeMap<u16, Vec<ReceivedChunk>>,
    registered: Vec<(WriterId, BufferId)>,
    unregistered: Vec<WriterId>,
}

/// A chunk as the service copied it, with its patches applied.
#[derive(Clone, Debug)]
pub(super) struct ReceivedChunk {
    pub(super) chunk_id: ChunkId,
    pub(super) packets: PacketsWord,
    pub(super) payload: Vec<u8>,
    pub(super) patches: usize,
    has_more_patches: bool,
}

/// A packet, complete or cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReceivedPacket {
    Whole(Vec<u8>),
    /// The writer gave it up, after committing this number of fragments.
    Abandoned {
        fragments_before: usize,
    },
}

impl ServiceEndpoint for FakeService {
    fn commit(&self, request: &CommitRequest) {
        assert!(!request.is_empty());
        self.received.lock().requests.push(request.clone());
        if !self.is_slow {
            self.take_commits();
        }
    }

    fn wait_for_room(&self, target_buffer: BufferId, timeout: Duration) -> bool {
        assert_eq!(target_buffer, BUFFER);
        self.room_waits.lock().push(timeout);
        // Relaxed: the test sets it on the same thread.
        !self.has_no_room.load(Ordering::Relaxed)
    }

    fn register_writer(&self, writer_id: WriterId, target_buffer: BufferId, _: &Arc<LossCount>) {
        let mut received = self.received.lock();
        received.registered.push((writer_id, target_buffer));
    }

    fn unregister_writer(&self, writer_id: WriterId) {
        self.received.lock().unregistered.push(writer_id);
    }
}

impl FakeService {
    /// Takes all requests that were not taken yet.
    pub(super) fn take_commits(&self) {
        let memory = self.memory.lock();
        let mut received = self.received.lock();
        while let Some(request) = received.requests.get(received.taken).cloned() {
            received.taken += 1;
            received.take(&memory, &request);
        }
    }

    /// Sets whether the buffer has room. Returns the timeouts of all waits for room since the last
    /// call.
    pub(super) fn set_room(&self, has_room: bool) -> Vec<Duration> {
        // Relaxed: as in `wait_for_room`.
        self.has_no_room.store(!has_room, Ordering::Relaxed);
        std::mem::take(&mut self.room_waits.lock())
    }

    /// Returns all requests so far, taken or not.
    pub(super) fn requests(&self) -> Vec<CommitRequest> {
        self.received.lock().requests.clone()
    }

    pub(super) fn registered(&self) -> Vec<(WriterId, BufferId)> {
        self.received.lock().registered.clone()
    }

    pub(super) fn unregistered(&self) -> Vec<WriterId> {
        self.received.lock().unregistered.clone()
    }

    /// Returns the chunks of a writer.
    pub(super) fn chunks(&self, writer_id: WriterId) -> Vec<ReceivedChunk> {
        let received = self.received.lock();
        received
            .chunks
            .get(&writer_id.0)
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the non-empty packets of a writer. Also checks that its chunks are in order, and
    /// that flags, counts and patches agree.
    pub(super) fn packets(&self, writer_id: WriterId) -> Vec<ReceivedPacket> {
        let mut packets = Vec::new();
        // The number of fragments and the bytes of a packet that continues in the next chunk.
        let mut open: Option<(usize, Vec<u8>)> = None;
        for (index, chunk) in self.chunks(writer_id).iter().enumerate() {
            assert_eq!(chunk.chunk_id, ChunkId(index as u32));
            assert!(!chunk.has_more_patches, "patches are missing");
            let flags = chunk.packets.flags();
            assert_eq!(
                flags.contains(ChunkFlags::FIRST_PACKET_CONTINUES),
                open.is_some()
            );
            assert_eq!(
                flags.contains(ChunkFlags::NEEDS_PATCHING),
                chunk.patches > 0
            );
            let continues = flags.contains(ChunkFlags::LAST_PACKET_CONTINUES);
            let fragments = chunk.fragments();
            let last = fragments.len() - 1;
            for (index, fragment) in fragments.into_iter().enumerate() {
                let (mut count, mut bytes) = open.take().unwrap_or_default();
                let Some(fragment) = fragment else {
                    packets.push(ReceivedPacket::Abandoned {
                        fragments_before: count,
                    });
                    continue;
                };
                count += 1;
                bytes.extend(fragment);
                if index == last && continues {
                    open = Some((count, bytes));
                } else if !bytes.is_empty() {
                    packets.push(ReceivedPacket::Whole(bytes));
                }
            }
        }
        assert!(open.is_none(), "the last packet is not finished");
        packets
    }

    /// Returns the packets of a writer; panics if one was given up.
    pub(super) fn whole_packets(&self, writer_id: WriterId) -> Vec<Vec<u8>> {
        self.packets(writer_id)
            .into_iter()
            .map(|packet| match packet {
                ReceivedPacket::Whole(bytes) => bytes,
                ReceivedPacket::Abandoned { .. } => panic!("a packet was given up"),
            })
            .collect()
    }

    /// Returns the bits of a page's word.
    pub(super) fn page_word_bits(&self, page_index: u32) -> u32 {
        self.memory.lock().page_word(page_index).unwrap().bits()
    }

    pub(super) fn scrape(&self, page_index: u32, chunk_index: u8) -> Option<ScrapedChunk> {
        let place = ChunkPlace {
            page_index,
            chunk_index,
        };
        self.memory.lock().scrape(place, &mut Vec::new())
    }
}

impl Received {
    fn take(&mut self, memory: &ServiceMemory, request: &CommitRequest) {
        for chunk_to_move in &request.chunks_to_move {
            let place = ChunkPlace {
                page_index: chunk_to_move.page_index,
                chunk_index: chunk_to_move.chunk_index,
            };
            let chunk = memory.acquire_for_reading(place).unwrap();
            let chunks = self.chunks.entry(chunk.header().writer_id.0).or_default();
            chunks.push(ReceivedChunk {
                chunk_id: chunk.header().chunk_id,
                packets: chunk.header().packets,
                payload: chunk.payload().to_vec(),
                patches: 0,
                has_more_patches: chunk
                    .header()
                    .packets
                    .flags()
                    .contains(ChunkFlags::NEEDS_PATCHING),
            });
            chunk.free().unwrap();
        }
        for entry in &request.chunks_to_patch {
            let chunks = self.chunks.get_mut(&entry.writer_id.0).unwrap();
            let chunk = &mut chunks[entry.chunk_id.0 as usize];
            assert_eq!(chunk.chunk_id, entry.chunk_id);
            assert!(chunk.has_more_patches);
            assert!(!entry.patches.is_empty());
            for patch in &entry.patches {
                let offset = usize::from(patch.offset_bytes);
                chunk.payload[offset..offset + 4].copy_from_slice(&patch.data);
            }
            chunk.patches += entry.patches.len();
            chunk.has_more_patches = entry.has_more_patches;
        }
    }
}

impl ReceivedChunk {
    /// Returns the fragments, as many as are counted; `None` for one that was given up.
    pub(super) fn fragments(&self) -> Vec<Option<Vec<u8>>> {
        let mut rest = &self.payload[..];
        (0..self.packets.count())
            .map(|_| {
                let (size, size_bytes) = read_size(rest);
                rest = &rest[size_bytes..];
                if size == ABANDONED_FRAGMENT_SIZE {
                    return None;
                }
                let (fragment, behind) = rest.split_at(size as usize);
                rest = behind;
                Some(fragment.to_vec())
            })
            .collect()
    }
}

fn read_size(bytes: &[u8]) -> (u32, usize) {
    let mut size = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        size |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return (size, index + 1);
        }
    }
    panic!("the size of a fragment has more than 4 bytes");
}
