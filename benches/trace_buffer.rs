//! The central buffer: chunks in, packets out.
//!
//! 100 chunk templates of about 2.7 KB with 5 to 15 packets each are committed in turn. Writing is
//! credited with 4096 bytes for each commit, the size of a chunk in shared memory, for comparison
//! with other published figures; the bytes that were really stored are printed beside it.
//! `plain_copy` copies the same bytes to a wrapping offset in memory of the same size, and is
//! credited alike. Reading counts the bytes of the packets.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};
use tracezero::commit::Patch;
use tracezero::ids::{ChunkId, ProducerId, WriterId};
use tracezero::service::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk};
use tracezero::shm::layout::ChunkFlags;

const TEMPLATES: usize = 100;
/// What a commit is credited with.
const CREDITED_BYTES: usize = 4096;
/// Payload of a template at most.
const PAYLOAD_MAX_BYTES: usize = 4080;

const WRITE_RING_BYTES: usize = 64 << 20;
const COMMITS: usize = WRITE_RING_BYTES / CREDITED_BYTES;
const WRITERS: u16 = 1000;

const READ_RING_BYTES: usize = 128 << 20;
/// These fit into the ring that is read without wrapping.
const READ_CHUNKS: usize = READ_RING_BYTES / CREDITED_BYTES - 1;
/// Chunks that a packet of the fragmented read lies in.
const CHUNKS_PER_PACKET: usize = 3;

const PATCH_RING_BYTES: usize = 16 << 20;
const PATCH_CHUNKS: u32 = 4096;

/// What a chunk holds.
struct Template {
    payload: Vec<u8>,
    fragments: u16,
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
    /// Templates that are the same in every run and in other implementations of this bench.
    fn generate() -> Vec<Self> {
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
        let mut template = Self {
            payload: Vec::new(),
            fragments: 0,
        };
        let wanted = 5 + random.next() % 11;
        while usize::from(template.fragments) < wanted
            && template.payload.len() < PAYLOAD_MAX_BYTES - 50
        {
            let free_bytes = PAYLOAD_MAX_BYTES - template.payload.len();
            let total_bytes = (50 + random.next() % 451).min(free_bytes);
            if total_bytes < 10 {
                break;
            }
            template.add(total_bytes);
        }
        template
    }

    /// Adds a fragment that takes `total_bytes` with its size.
    fn add(&mut self, total_bytes: usize) {
        let filler = b'a' + (self.fragments % 26) as u8;
        let end = self.payload.len() + total_bytes;
        if total_bytes <= 128 {
            self.payload.push((total_bytes - 1) as u8);
        } else {
            let len = total_bytes - 2;
            self.payload.extend([len as u8 | 0x80, (len >> 7) as u8]);
        }
        self.payload.resize(end, filler);
        self.fragments += 1;
    }

    /// One fragment of the same size.
    fn merged(&self) -> Self {
        let mut merged = Self {
            payload: Vec::new(),
            fragments: 0,
        };
        merged.add(self.payload.len());
        merged
    }
}

/// One writer of one producer, and how far it has come.
#[derive(Clone, Copy)]
struct Sequence {
    producer_id: ProducerId,
    writer_id: WriterId,
    client: ClientIdentity,
    next_chunk: ChunkId,
}

impl Sequence {
    fn new(index: u16) -> Self {
        Self {
            producer_id: ProducerId(index + 1),
            writer_id: WriterId(index + 1),
            client: ClientIdentity {
                uid: Some(1000 + u32::from(index)),
                pid: Some(100 + u32::from(index)),
            },
            next_chunk: ChunkId(0),
        }
    }

    #[inline]
    fn commit(&mut self, template: &Template, flags: ChunkFlags, buffer: &mut TraceBuffer) {
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

fn ring(size_bytes: usize) -> TraceBuffer {
    TraceBuffer::new(size_bytes as u64, FillPolicy::Ring).expect("memory for the buffer")
}

/// Commits that go on where the last iteration stopped, in a ring that has wrapped before.
fn write(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, writers: u16) {
    let templates = Template::generate();
    let mut templates = templates.iter().cycle();
    let mut buffer = ring(WRITE_RING_BYTES);
    let mut sequences: Vec<_> = (0..writers).map(Sequence::new).collect();
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let indices = (0..sequences.len()).cycle();
            for (index, template) in indices.zip(templates.by_ref()).take(COMMITS) {
                sequences[index].commit(template, ChunkFlags::default(), &mut buffer);
            }
        });
    });
    let stats = buffer.stats();
    println!(
        "{name}: {} bytes stored for each commit, credited with {CREDITED_BYTES}",
        stats.bytes_written / stats.chunks_written.max(1)
    );
}

fn trace_buffer_write(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trace_buffer_write");
    group.sample_size(50);
    group.throughput(Throughput::Bytes((COMMITS * CREDITED_BYTES) as u64));
    write(&mut group, "single_writer", 1);
    write(&mut group, "many_writers", WRITERS);

    let templates = Template::generate();
    let mut templates = templates.iter().cycle();
    let mut memory = vec![1; WRITE_RING_BYTES];
    let mut offset = 0;
    group.bench_function("plain_copy", |bencher| {
        bencher.iter(|| {
            for template in templates.by_ref().take(COMMITS) {
                let payload = black_box(template.payload.as_slice());
                if offset + payload.len() > memory.len() {
                    offset = 0;
                }
                memory[offset..offset + payload.len()].copy_from_slice(payload);
                offset += payload.len();
            }
        });
    });
    black_box(memory);
    group.finish();
}

/// Reads a fresh ring from begin to end.
fn read(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    commit: impl Fn(usize, &mut Sequence, &mut TraceBuffer),
) {
    let fill = || {
        let mut buffer = ring(READ_RING_BYTES);
        let mut sequence = Sequence::new(0);
        for index in 0..READ_CHUNKS {
            commit(index, &mut sequence, &mut buffer);
        }
        buffer
    };
    let read = |buffer: &mut TraceBuffer| {
        let mut bytes = 0;
        buffer.begin_read();
        while let Some(packet) = buffer.read_packet() {
            assert!(packet.loss().is_empty());
            bytes += packet.slices().map(<[u8]>::len).sum::<usize>();
        }
        bytes
    };
    group.throughput(Throughput::Bytes(read(&mut fill()) as u64));
    group.bench_function(name, |bencher| {
        bencher.iter_batched_ref(
            fill,
            |buffer| black_box(read(buffer)),
            BatchSize::PerIteration,
        );
    });
}

fn trace_buffer_read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trace_buffer_read");
    group.sample_size(20);
    let templates = Template::generate();
    read(&mut group, "whole", |index, sequence, buffer| {
        sequence.commit(&templates[index % TEMPLATES], ChunkFlags::default(), buffer);
    });

    let merged: Vec<_> = templates.iter().map(Template::merged).collect();
    let first = ChunkFlags::LAST_PACKET_CONTINUES;
    let last = ChunkFlags::FIRST_PACKET_CONTINUES;
    read(&mut group, "fragmented", |index, sequence, buffer| {
        let flags = [first, first.union(last), last][index % CHUNKS_PER_PACKET];
        sequence.commit(&merged[index % TEMPLATES], flags, buffer);
    });
    group.finish();
}

fn trace_buffer_patch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trace_buffer_patch");
    let templates = Template::generate();
    let mut buffer = ring(PATCH_RING_BYTES);
    let mut sequence = Sequence::new(0);
    for template in templates.iter().cycle().take(PATCH_CHUNKS as usize) {
        sequence.commit(template, ChunkFlags::default(), &mut buffer);
    }
    let newest = PATCH_CHUNKS - 1;
    let patches = [Patch {
        offset_bytes: 10,
        data: [1, 2, 3, 4],
    }];
    for (name, chunk_id, is_there) in [
        ("newest", newest, true),
        ("tenth", newest - 10, true),
        ("absent", newest + 1, false),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let Sequence {
                    producer_id,
                    writer_id,
                    ..
                } = sequence;
                let chunk_id = black_box(ChunkId(chunk_id));
                let found = buffer.patch_chunk(producer_id, writer_id, chunk_id, &patches, false);
                assert_eq!(found, is_there);
            });
        });
    }
    group.finish();
}

criterion_group!(
    benches,
    trace_buffer_write,
    trace_buffer_read,
    trace_buffer_patch
);
criterion_main!(benches);
