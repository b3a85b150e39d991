//! Measures the trace buffer: chunks in, packets out.
//!
//! 100 chunk templates of about 2.7 KB with 5 to 15 packets each are committed in turn. In the
//! figures for writing, each commit counts as 4096 bytes, the size of a chunk in shared memory, to
//! be comparable with other published figures; the bytes that were really stored are printed beside
//! it. `plain_copy` copies the same bytes to a wrapping offset in memory of the same size, and
//! counts them in the same way. Reading counts the bytes of the packets, or, if small events are
//! read into a trace, the events.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};
use tracezero_core::commit::Patch;
use tracezero_core::ids::ChunkId;
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_service::read_as_trace;
use tracezero_service::trace_buffer::TraceBuffer;

mod chunks;

use chunks::{CREDITED_BYTES, PlainCopy, Sequence, TEMPLATES, Template, ring};

const WRITE_RING_BYTES: usize = 64 << 20;
const COMMITS: usize = WRITE_RING_BYTES / CREDITED_BYTES;
const WRITERS: u32 = 1000;
/// The number of sequences, as many as two producers have ids for.
const SEQUENCES: u32 = 65_536;

const READ_RING_BYTES: usize = 128 << 20;
/// The number of chunks that fit into the ring without wrapping.
const READ_CHUNKS: usize = READ_RING_BYTES / CREDITED_BYTES - 1;
/// The number of chunks of each packet in the benchmark with fragments.
const CHUNKS_PER_PACKET: usize = 3;

const PATCH_RING_BYTES: usize = 16 << 20;
const PATCH_CHUNKS: u32 = 4096;

/// Measures commits. Each iteration continues where the last one stopped, in a ring that has
/// wrapped before.
fn write(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, writers: u32) {
    let templates = Template::generate();
    let mut templates = templates.iter().cycle();
    let mut buffer = ring(WRITE_RING_BYTES);
    let mut sequences: Vec<_> = (0..writers).map(Sequence::new).collect();
    let mut turn = 0;
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            for template in templates.by_ref().take(COMMITS) {
                sequences[turn].commit(template, ChunkFlags::default(), &mut buffer);
                turn = if turn + 1 < sequences.len() {
                    turn + 1
                } else {
                    0
                };
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

    write(&mut group, "sequences_65536", SEQUENCES);

    let templates = Template::generate();
    let mut templates = templates.iter().cycle();
    let mut plain_copy = PlainCopy::new(WRITE_RING_BYTES);
    group.bench_function("plain_copy", |bencher| {
        bencher.iter(|| {
            for template in templates.by_ref().take(COMMITS) {
                plain_copy.copy(template);
            }
        });
    });
    group.finish();
}

/// Measures reading a fresh ring from begin to end.
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

    let merged: Vec<_> = templates
        .iter()
        .map(|template| Template::of(&[template.payload.len()]))
        .collect();
    let first = ChunkFlags::LAST_PACKET_CONTINUES;
    let last = ChunkFlags::FIRST_PACKET_CONTINUES;
    read(&mut group, "fragmented", |index, sequence, buffer| {
        let flags = [first, first.union(last), last][index % CHUNKS_PER_PACKET];
        sequence.commit(&merged[index % TEMPLATES], flags, buffer);
    });
    group.finish();
}

/// Returns a chunk with as many events of this size as fit.
fn events(event_bytes: usize) -> Template {
    const PAYLOAD_MAX_BYTES: usize = CREDITED_BYTES - 16;
    let mut event = vec![0x40, 0x85, 0x01, 0x68, 0, 0x5a, (event_bytes - 7) as u8];
    event.resize(event_bytes, 1);
    event.insert(0, event_bytes as u8);
    let count = PAYLOAD_MAX_BYTES / event.len();
    Template {
        payload: event.repeat(count),
        fragments: count as u16,
    }
}

/// Measures reading the events of threads at full speed, from the buffer into a trace.
fn trace_buffer_read_small(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trace_buffer_read_small");
    group.sample_size(20);
    let mut trace = Vec::with_capacity(2 * READ_RING_BYTES);
    for event_bytes in [28, 60] {
        let template = events(event_bytes);
        let fill = || {
            let mut buffer = ring(READ_RING_BYTES);
            let mut sequence = Sequence::new(0);
            for _ in 0..READ_CHUNKS {
                sequence.commit(&template, ChunkFlags::default(), &mut buffer);
            }
            buffer
        };
        let events = READ_CHUNKS as u64 * u64::from(template.fragments);
        group.throughput(Throughput::Elements(events));
        group.bench_function(format!("{event_bytes}_bytes"), |bencher| {
            bencher.iter_batched_ref(
                fill,
                |buffer| {
                    trace.clear();
                    read_as_trace(buffer, &mut trace);
                    black_box(trace.len())
                },
                BatchSize::PerIteration,
            );
        });
    }
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
    trace_buffer_read_small,
    trace_buffer_patch
);
criterion_main!(benches);
