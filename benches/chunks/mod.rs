//! Chunks to commit. They are the same in every run, and the same as in implementations of these
//! benchmarks for other trace buffers.

use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk};

/// The number of templates.
pub const TEMPLATES: usize = 100;
/// The number of bytes that a commit counts as: the size of a chunk in shared memory.
pub const CREDITED_BYTES: usize = 4096;
/// The maximal payload of a template.
const PAYLOAD_MAX_BYTES: usize = 4080;
/// The number of writer ids. Together with the number of producer ids, it gives a different pair of
/// ids to each sequence.
const WRITERS_MAX: u32 = 32_000;

/// The content of a chunk.
pub struct Template {
    pub payload: Vec<u8>,
    pub fragments: u16,
}

/// The generator `minstd_rand` of the C++ standard library.
struct MinimalStandard(u64);

impl MinimalStandard {
    fn next(&mut self) -> usize {
        self.0 = self.0 * 48_271 % 2_147_483_647;
        self.0 as usize
    }
}

impl Template {
    /// Creates templates of about 2.7 KB, with 5 to 15 packets each.
    pub fn generate() -> Vec<Self> {
        let mut random = MinimalStandard(42);
        let templates: Vec<_> = (0..TEMPLATES).map(|_| Self::random(&mut random)).collect();
        let bytes: usize = templates
            .iter()
            .map(|template| template.payload.len())
            .sum();
        let fragments: usize = templates
            .iter()
            .map(|template| usize::from(template.fragments))
            .sum();
        assert_eq!((bytes, fragments), (267_310, 988));
        templates
    }

    fn random(random: &mut MinimalStandard) -> Self {
        let mut sizes_bytes = Vec::new();
        let mut used_bytes = 0;
        let wanted = 5 + random.next() % 11;
        while sizes_bytes.len() < wanted && used_bytes < PAYLOAD_MAX_BYTES - 50 {
            let size_bytes = (50 + random.next() % 451).min(PAYLOAD_MAX_BYTES - used_bytes);
            if size_bytes < 10 {
                break;
            }
            sizes_bytes.push(size_bytes);
            used_bytes += size_bytes;
        }
        Self::of(&sizes_bytes)
    }

    /// Creates a template with fragments of these sizes, headers included.
    pub fn of(sizes_bytes: &[usize]) -> Self {
        let mut payload = Vec::new();
        for (&size_bytes, filler) in sizes_bytes.iter().zip((b'a'..=b'z').cycle()) {
            let end = payload.len() + size_bytes;
            if size_bytes <= 128 {
                payload.push((size_bytes - 1) as u8);
            } else {
                let len = size_bytes - 2;
                payload.extend([len as u8 | 0x80, (len >> 7) as u8]);
            }
            payload.resize(end, filler);
        }
        Self {
            payload,
            fragments: sizes_bytes.len() as u16,
        }
    }
}

/// The packets of one writer of one producer, and the id of its next chunk.
#[derive(Clone, Copy)]
pub struct Sequence {
    pub producer_id: ProducerId,
    pub writer_id: WriterId,
    client: ClientIdentity,
    next_chunk: ChunkId,
}

impl Sequence {
    /// Creates a sequence. Different indexes have different ids.
    pub fn new(index: u32) -> Self {
        Self {
            producer_id: ProducerId::new(index + 1),
            writer_id: WriterId((index % WRITERS_MAX) as u16 + 1),
            client: ClientIdentity {
                uid: Some(1000 + index),
                pid: Some(100 + index),
            },
            next_chunk: ChunkId(0),
        }
    }

    #[inline]
    pub fn commit(&mut self, template: &Template, flags: ChunkFlags, buffer: &mut TraceBuffer) {
        buffer.commit_chunk(&UntrustedChunk {
            producer_id: self.producer_id,
            client: self.client,
            writer_id: self.writer_id,
            chunk_id: self.next_chunk,
            fragment_count: template.fragments,
            flags,
            complete: true,
            payload: &template.payload,
        });
        self.next_chunk = self.next_chunk.next();
    }
}

/// Creates a buffer that overwrites its oldest chunks.
pub fn ring(size_bytes: usize) -> TraceBuffer {
    TraceBuffer::new(size_bytes as u64, FillPolicy::Ring).expect("memory for the buffer")
}

/// Copies the bytes that a trace buffer would take, to the same places, without any bookkeeping.
pub struct PlainCopy {
    memory: Vec<u8>,
    offset_bytes: usize,
}

impl PlainCopy {
    pub fn new(size_bytes: usize) -> Self {
        Self {
            memory: vec![1; size_bytes],
            offset_bytes: 0,
        }
    }

    #[inline]
    pub fn copy(&mut self, template: &Template) {
        let payload = std::hint::black_box(template.payload.as_slice());
        let slot_bytes = (16 + payload.len()).next_multiple_of(16);
        if self.offset_bytes + slot_bytes > self.memory.len() {
            self.offset_bytes = 0;
        }
        self.memory[self.offset_bytes..][..payload.len()].copy_from_slice(payload);
        self.offset_bytes += slot_bytes;
    }
}
