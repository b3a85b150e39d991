//! Producers that change their shared memory at any time, while the service reads it.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracezero::{BufferConfig, DataSourceConfig, TraceConfig};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::{ChunkPlace, ForeignMemory, PageLayout, ProducerMemory, SharedFd};

use crate::VIOLATIONS_MAX;

use super::harness::{Random, World, packet, write};
use super::manual_producer::{ManualProducer, PAGE_BYTES, header, pages_of_memory};

const PAGES: u32 = 16;

fn config(data_source: &str) -> TraceConfig {
    TraceConfig::empty()
        .add_buffer(BufferConfig::ring(8192))
        .add_data_source(DataSourceConfig::new(data_source))
}

/// A producer whose memory is another process's, as far as the service knows.
struct ForeignProducer {
    manual: ManualProducer,
    /// The memory as a file: writing to it changes the memory.
    file: File,
}

impl ForeignProducer {
    fn connect(world: &World) -> Self {
        let (foreign, shared) = ForeignMemory::create(pages_of_memory(PAGES)).unwrap();
        let sent = shared.as_fd().try_clone_to_owned().unwrap();
        let attached = SharedFd::attach(sent, PAGE_BYTES as usize).unwrap();
        let memory = ProducerMemory::attach(&attached).unwrap();
        Self {
            manual: world.manual_producer_with("foreign", memory, foreign),
            file: shared.as_fd().try_clone_to_owned().unwrap().into(),
        }
    }

    fn commit(&self, page_index: u32, chunk_index: u8, target_buffer: BufferId) {
        let place = ChunkPlace {
            page_index,
            chunk_index,
        };
        self.manual.commit(place, target_buffer);
    }

    /// Writes a packet into a chunk, as an honest producer does, and commits it.
    fn write(&self, chunk_id: u32, text: &str, target_buffer: BufferId) {
        let header = header(WriterId(1), ChunkId(chunk_id));
        let mut chunk = self.manual.chunk(0, PageLayout::Two, header);
        chunk.append_packet(&packet(text));
        self.manual.commit(chunk.complete(), target_buffer);
    }

    fn violations(&self) -> u64 {
        self.manual.endpoint.violations()
    }
}

#[test]
fn packets_of_foreign_memory_are_in_the_trace() {
    let world = World::new();
    let producer = ForeignProducer::connect(&world);
    let session = world.session(config("foreign"));
    let target = world.service.buffers(session.id)[0].id;
    for id in [1, 2] {
        producer.manual.register_writer(WriterId(id), target);
    }
    for (chunk_id, text) in (0..).zip(["1", "2", "3"]) {
        producer.write(chunk_id, text, target);
    }
    let header = header(WriterId(2), ChunkId(0));
    let mut chunk = producer.manual.chunk(1, PageLayout::One, header);
    chunk.append_packet(&packet("scraped"));
    chunk.publish_finished();
    session.disable();
    assert_eq!(session.read().texts(), ["1", "2", "3", "scraped"]);
    assert_eq!(producer.violations(), 0);
}

#[test]
fn nothing_is_taken_of_a_producer_after_64_violations() {
    let world = World::new();
    let producer = ForeignProducer::connect(&world);
    let session = world.session(config("foreign"));
    let target = world.service.buffers(session.id)[0].id;
    for _ in 1..VIOLATIONS_MAX {
        producer.commit(PAGES, 0, target);
    }
    producer.write(0, "taken", target);
    producer.commit(0, 14, target);
    assert_eq!(producer.violations(), VIOLATIONS_MAX);
    producer.write(1, "not taken", target);
    assert_eq!(session.stats().chunks_discarded, 1);
    session.disable();
    assert_eq!(session.read().texts(), ["taken"]);
}

/// The number of seconds for which a test attacks the service: 1, or what the environment says.
fn attack_time() -> Duration {
    let seconds = std::env::var("TRACEZERO_ATTACK_SECONDS");
    Duration::from_secs(seconds.map_or(1, |seconds| seconds.parse().unwrap()))
}

/// Writes to page words and everything else of the memory.
fn scribble(file: &File, random: &mut Random) {
    let page = random.below(PAGES.into()) * u64::from(PAGE_BYTES);
    // Mostly page words and headers of chunks, which have the most effect.
    let offset = match random.below(4) {
        0 | 1 => 0,
        2 => random.below(64),
        _ => random.below(u64::from(PAGE_BYTES) - 8),
    };
    let layout = |random: &mut Random| (1 + random.below(7) as u32) << 28;
    let word = match random.below(3) {
        // All chunks of a page complete, in one of the layouts.
        0 => layout(random) | 0x0fff_ffff,
        1 => layout(random) | random.next() as u32 & 0x0fff_ffff,
        _ => random.next() as u32,
    };
    file.write_all_at(&word.to_ne_bytes(), page + offset)
        .unwrap();
}

#[test]
fn memory_that_changes_all_the_time_harms_nobody_else() {
    let world = World::new();
    let honest = world.producer("honest");
    honest.register("honest");
    let victim = world.session(config("honest"));
    let own = world.session(config("foreign"));
    let own_target = world.service.buffers(own.id)[0].id;
    let victims_target = world.service.buffers(victim.id)[0].id;
    let end = Instant::now() + attack_time();
    let is_over = AtomicBool::new(false);
    let commits = AtomicU64::new(0);

    let written = thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(1);
            let mut connections = 0;
            while Instant::now() < end {
                connections += 1;
                let hostile = ForeignProducer::connect(&world);
                for id in 1..20 {
                    let target = [own_target, victims_target][usize::from(id % 2)];
                    hostile.manual.register_writer(WriterId(id), target);
                }
                let is_expelled = AtomicBool::new(false);
                thread::scope(|scope| {
                    for seed in 1..=4 {
                        let (file, is_expelled) = (&hostile.file, &is_expelled);
                        scope.spawn(move || {
                            let mut random = Random(seed * 0x9e37_79b9);
                            while !is_expelled.load(Ordering::Relaxed) {
                                scribble(file, &mut random);
                            }
                        });
                    }
                    while hostile.violations() < VIOLATIONS_MAX {
                        let (page, chunk) = (random.below(u64::from(PAGES) + 1), random.below(16));
                        let target = [own_target, victims_target][random.below(2) as usize];
                        hostile.commit(page as u32, chunk as u8, target);
                        commits.fetch_add(1, Ordering::Relaxed);
                        if random.below(8) == 0 {
                            own.flush(0);
                        }
                    }
                    is_expelled.store(true, Ordering::Relaxed);
                });
            }
            assert!(connections > 1);
            is_over.store(true, Ordering::Relaxed);
        });
        let mut writer = honest.writer("honest");
        let mut read = Vec::new();
        let mut count = 0_usize;
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..100 {
                write(&mut writer, &count.to_string());
                count += 1;
            }
            victim.flush(0);
            read.extend(victim.read().texts());
        }
        drop(writer);
        victim.disable();
        read.extend(victim.read().texts());
        assert!((0..count).map(|number| number.to_string()).eq(read));
        count
    });
    assert!(written > 0 && commits.into_inner() > VIOLATIONS_MAX);
    own.disable();
    // Whatever is in it, it is a trace.
    assert!(!own.read().packets().is_empty());
}
