//! Models of every hand-over of chunks. Loom runs each model under all interleavings that it finds:
//! `RUSTFLAGS="--cfg loom" cargo test -p tracezero-core --lib --release loom`.
//!
//! Loom only notices a conflict between a load and an exchange if the exchange comes first when
//! loom runs the model for the first time. The main thread runs first then. So each model writes on
//! its main thread, and reads on another thread.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::ids::{ChunkId, WriterId};

const FIRST: ChunkPlace = ChunkPlace {
    page_index: 0,
    chunk_index: 0,
};

fn one_page() -> (ProducerMemory, ServiceMemory) {
    shared_memory(Geometry::new(4096, 4096).unwrap()).unwrap()
}

fn two_pages() -> (ProducerMemory, ServiceMemory) {
    shared_memory(Geometry::new(8192, 4096).unwrap()).unwrap()
}

fn take(producer: &ProducerMemory, layout: PageLayout, writer_id: u16) -> Option<WritableChunk> {
    let header = NewChunk {
        writer_id: WriterId(writer_id),
        chunk_id: ChunkId(u32::from(writer_id)),
        flags: ChunkFlags::NONE,
    };
    producer.acquire_for_writing(0, layout, header)
}

/// Completes a chunk of writer 1, then one of writer 2, if the page has room. Returns their number.
fn write_two_chunks(producer: &ProducerMemory) -> u32 {
    let mut written = 0;
    for writer_id in 1..=2 {
        if let Some(mut chunk) = take(producer, PageLayout::One, writer_id) {
            chunk.append_packet(&[writer_id as u8; 3]);
            let _ = chunk.complete();
            written += 1;
        }
    }
    written
}

/// Completes a chunk with two packets, and publishes each.
fn write_two_packets(producer: &ProducerMemory) {
    let mut chunk = take(producer, PageLayout::One, 1).unwrap();
    chunk.append_packet(b"one");
    chunk.publish_finished();
    chunk.append_packet(b"two");
    chunk.publish_finished();
    let _ = chunk.complete();
}

#[test]
fn writers_that_take_chunks_at_once_get_different_ones() {
    loom::model(|| {
        let (producer, _service) = one_page();
        let writers: Vec<_> = (1..=2)
            .map(|writer_id| {
                let producer = producer.clone();
                thread::spawn(move || {
                    let chunk = take(&producer, PageLayout::Two, writer_id).unwrap();
                    chunk.place().chunk_index
                })
            })
            .collect();
        let mut taken: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1]);
        assert!(take(&producer, PageLayout::Two, 3).is_none());
    });
}

#[test]
fn one_of_two_writers_gets_the_only_chunk() {
    loom::model(|| {
        let (producer, _service) = one_page();
        let rival = producer.clone();
        let other = thread::spawn(move || take(&rival, PageLayout::One, 1).is_some());
        let mine = take(&producer, PageLayout::One, 2).is_some();
        assert!(other.join().unwrap() ^ mine);
    });
}

#[test]
fn chunk_cycles_between_writer_and_service_without_a_race() {
    loom::model(|| {
        let (producer, service) = one_page();
        let reader = thread::spawn(move || {
            let mut read = 0;
            for _ in 0..2 {
                if let Ok(chunk) = service.acquire_for_reading(FIRST) {
                    let writer_id = chunk.header().writer_id.0;
                    assert_eq!(chunk.header().chunk_id.0, u32::from(writer_id));
                    assert_eq!(chunk.header().packets.count(), 1);
                    assert_eq!(chunk.payload()[0], 3);
                    assert_eq!(chunk.payload()[1..4], [writer_id as u8; 3]);
                    chunk.free().unwrap();
                    read += 1;
                }
            }
            read
        });
        let written = write_two_chunks(&producer);
        let read = reader.join().unwrap();
        assert!(written >= 1 && read <= written);
        assert_eq!(producer.page_word(0).unwrap().is_free(), read == written);
    });
}

#[test]
fn the_next_writer_writes_after_the_reader_has_read() {
    loom::model(|| {
        let (producer, service) = one_page();
        let mut chunk = take(&producer, PageLayout::One, 1).unwrap();
        chunk.append_packet(b"old");
        let place = chunk.complete();
        let writer = thread::spawn(move || {
            if let Some(mut chunk) = take(&producer, PageLayout::One, 2) {
                chunk.append_packet(b"new");
            }
        });
        let chunk = service.acquire_for_reading(place).unwrap();
        assert_eq!(chunk.payload()[..4], *b"\x03old");
        chunk.free().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn freeing_and_taking_on_one_page_lose_no_move() {
    loom::model(|| {
        let (producer, service) = one_page();
        let first = take(&producer, PageLayout::Two, 1).unwrap().complete();
        let second = take(&producer, PageLayout::Two, 2).unwrap().complete();
        let service = Arc::new(service);
        let reader = {
            let service = Arc::clone(&service);
            thread::spawn(move || service.acquire_for_reading(second).unwrap().free().unwrap())
        };
        service.acquire_for_reading(first).unwrap().free().unwrap();
        let taken = take(&producer, PageLayout::Two, 3);
        reader.join().unwrap();
        let used = service.page_word(0).unwrap().used_mask();
        assert_eq!(used, 1 << taken.unwrap().place().chunk_index);
    });
}

#[test]
fn completing_and_taking_on_one_page_lose_no_move() {
    loom::model(|| {
        let (producer, service) = one_page();
        let first = take(&producer, PageLayout::Two, 1).unwrap();
        let rival = producer.clone();
        let taker = thread::spawn(move || {
            let second = take(&rival, PageLayout::Two, 2).unwrap();
            second.place().chunk_index
        });
        let completed = first.complete();
        let taken = taker.join().unwrap();
        assert_ne!(taken, completed.chunk_index);
        let word = service.page_word(0).unwrap();
        let state = |chunk_index| word.chunk_state(chunk_index);
        assert_eq!(state(completed.chunk_index), Some(ChunkState::Complete));
        assert_eq!(state(taken), Some(ChunkState::BeingWritten));
    });
}

#[test]
fn two_chunks_completed_at_once_can_both_be_read() {
    loom::model(|| {
        let (producer, service) = one_page();
        let mut first = take(&producer, PageLayout::Two, 1).unwrap();
        let mut second = take(&producer, PageLayout::Two, 2).unwrap();
        let other = thread::spawn(move || {
            second.append_packet(b"second");
            second.complete()
        });
        first.append_packet(b"first");
        let places = [first.complete(), other.join().unwrap()];
        for (place, payload) in places.into_iter().zip([&b"\x05first"[..], b"\x06second"]) {
            let chunk = service.acquire_for_reading(place).unwrap();
            assert_eq!(chunk.payload()[..payload.len()], *payload);
            chunk.free().unwrap();
        }
        assert!(service.page_word(0).unwrap().is_free());
    });
}

#[test]
fn completing_and_freeing_on_one_page_lose_no_move() {
    loom::model(|| {
        let (producer, service) = one_page();
        let first = take(&producer, PageLayout::Two, 1).unwrap().complete();
        let second = take(&producer, PageLayout::Two, 2).unwrap();
        let service = Arc::new(service);
        let reader = {
            let service = Arc::clone(&service);
            thread::spawn(move || service.acquire_for_reading(first).unwrap().free().unwrap())
        };
        let second = second.complete();
        reader.join().unwrap();
        let word = service.page_word(0).unwrap();
        assert_eq!(word.used_mask(), 1 << second.chunk_index);
        service.acquire_for_reading(second).unwrap().free().unwrap();
        assert!(service.page_word(0).unwrap().is_free());
    });
}

#[test]
fn only_one_of_two_readers_gets_a_complete_chunk() {
    loom::model(|| {
        let (producer, service) = one_page();
        let place = take(&producer, PageLayout::One, 1).unwrap().complete();
        let service = Arc::new(service);
        let reader = {
            let service = Arc::clone(&service);
            thread::spawn(move || service.acquire_for_reading(place).map(ReadableChunk::free))
        };
        let mine = service.acquire_for_reading(place).map(ReadableChunk::free);
        assert!(mine.is_ok() ^ reader.join().unwrap().is_ok());
        assert!(service.page_word(0).unwrap().is_free());
    });
}

#[test]
fn scrape_beside_a_writer_sees_whole_packets_without_a_race() {
    loom::model(|| {
        let (producer, mut service) = one_page();
        let scraper = thread::spawn(move || {
            let mut payload = Vec::new();
            if let Some(scraped) = service.scrape(FIRST, &mut payload) {
                assert_eq!(
                    (scraped.header.writer_id.0, scraped.header.chunk_id.0),
                    (1, 1)
                );
                let whole = b"\x03one\x03two\0";
                let finished_bytes = match (scraped.is_complete, scraped.header.packets.count()) {
                    (false, 2) => 4,
                    (false, 3) => 8,
                    (true, 3) => 9,
                    other => panic!("{other:?} was never published"),
                };
                assert_eq!(payload[..finished_bytes], whole[..finished_bytes]);
                assert!(payload[finished_bytes..].iter().all(|byte| *byte == 0));
            }
        });
        write_two_packets(&producer);
        scraper.join().unwrap();
    });
}

#[test]
fn scrape_after_a_free_never_mixes_two_writers() {
    loom::model(|| {
        let (producer, mut service) = one_page();
        let mut chunk = take(&producer, PageLayout::One, 1).unwrap();
        chunk.append_packet(b"old");
        chunk.append_packet(b"old");
        let _ = chunk.complete();
        service.acquire_for_reading(FIRST).unwrap().free().unwrap();
        let scraper = thread::spawn(move || {
            let mut payload = Vec::new();
            if let Some(scraped) = service.scrape(FIRST, &mut payload) {
                assert_eq!(
                    (scraped.header.writer_id.0, scraped.header.chunk_id.0),
                    (2, 2)
                );
                assert_eq!(payload[..5], *b"\x03new\0");
            }
        });
        let mut chunk = take(&producer, PageLayout::One, 2).unwrap();
        chunk.append_packet(b"new");
        chunk.publish_finished();
        scraper.join().unwrap();
    });
}

#[test]
fn scrape_sees_the_packets_before_one_that_is_given_up() {
    loom::model(|| {
        let (producer, mut service) = one_page();
        let scraper = thread::spawn(move || {
            let mut payload = Vec::new();
            if let Some(scraped) = service.scrape(FIRST, &mut payload) {
                assert_eq!(scraped.header.packets.count(), 2);
                assert_eq!(payload[..4], *b"\x03one");
                if !scraped.is_complete {
                    assert!(payload[4..].iter().all(|byte| *byte == 0));
                }
            }
        });
        let mut chunk = take(&producer, PageLayout::One, 1).unwrap();
        chunk.append_packet(b"one");
        assert!(chunk.begin_fragment());
        chunk.abandon_fragment();
        let _ = chunk.complete();
        scraper.join().unwrap();
    });
}

#[test]
fn chunk_cycles_between_writer_and_copying_service_without_a_race() {
    loom::model(|| {
        let (producer, _) = one_page();
        let mut memory = ForeignMemory::of_same_process(&producer);
        let reader = thread::spawn(move || {
            let mut copy = ChunkCopy::new();
            let mut taken = 0;
            for _ in 0..2 {
                if let Ok(header) = memory.take(FIRST, &mut copy) {
                    let writer_id = header.writer_id.0;
                    assert_eq!(header.chunk_id.0, u32::from(writer_id));
                    assert_eq!(header.packets.count(), 1);
                    assert_eq!(copy.payload()[0], 3);
                    assert_eq!(copy.payload()[1..4], [writer_id as u8; 3]);
                    taken += 1;
                }
            }
            taken
        });
        let written = write_two_chunks(&producer);
        let taken = reader.join().unwrap();
        assert!(written >= 1 && taken <= written);
        assert_eq!(producer.page_word(0).unwrap().is_free(), taken == written);
    });
}

#[test]
fn the_next_writer_writes_after_the_copy() {
    // In another layout, the next chunk begins at the same place.
    for layout in [PageLayout::One, PageLayout::Two] {
        loom::model(move || {
            let (producer, _) = one_page();
            let mut memory = ForeignMemory::of_same_process(&producer);
            let mut chunk = take(&producer, PageLayout::One, 1).unwrap();
            chunk.append_packet(b"old");
            let place = chunk.complete();
            let writer = thread::spawn(move || {
                if let Some(mut chunk) = take(&producer, layout, 2) {
                    chunk.append_packet(b"new");
                }
            });
            let mut copy = ChunkCopy::new();
            memory.take(place, &mut copy).unwrap();
            assert_eq!(copy.payload()[..4], *b"\x03old");
            writer.join().unwrap();
        });
    }
}

#[test]
fn copying_and_completing_on_one_page_lose_no_move() {
    loom::model(|| {
        let (producer, _) = one_page();
        let mut memory = ForeignMemory::of_same_process(&producer);
        let first = take(&producer, PageLayout::Two, 1).unwrap().complete();
        let second = take(&producer, PageLayout::Two, 2).unwrap();
        let reader = thread::spawn(move || {
            memory.take(first, &mut ChunkCopy::new()).unwrap();
            memory
        });
        let second = second.complete();
        let mut memory = reader.join().unwrap();
        let word = memory.page_word(0).unwrap();
        assert_eq!(word.used_mask(), 1 << second.chunk_index);
        memory.take(second, &mut ChunkCopy::new()).unwrap();
        assert!(memory.page_word(0).unwrap().is_free());
    });
}

#[test]
fn copying_scrape_beside_a_writer_sees_whole_packets_without_a_race() {
    loom::model(|| {
        let (producer, _) = one_page();
        let mut memory = ForeignMemory::of_same_process(&producer);
        let scraper = thread::spawn(move || {
            let mut copy = ChunkCopy::new();
            if let Some(scraped) = memory.scrape(FIRST, &mut copy) {
                assert_eq!(
                    (scraped.header.writer_id.0, scraped.header.chunk_id.0),
                    (1, 1)
                );
                let whole = b"\x03one\x03two\0";
                let finished_bytes = match (scraped.is_complete, scraped.header.packets.count()) {
                    (false, 2) => 4,
                    (false, 3) => 8,
                    (true, 3) => 9,
                    other => panic!("{other:?} was never published"),
                };
                let payload = copy.payload();
                assert_eq!(payload[..finished_bytes], whole[..finished_bytes]);
                assert!(payload[finished_bytes..].iter().all(|byte| *byte == 0));
            }
        });
        write_two_packets(&producer);
        scraper.join().unwrap();
    });
}

#[test]
fn copying_scrape_after_a_take_never_mixes_two_writers() {
    loom::model(|| {
        let (producer, _) = one_page();
        let mut memory = ForeignMemory::of_same_process(&producer);
        let mut chunk = take(&producer, PageLayout::One, 1).unwrap();
        chunk.append_packet(b"old");
        chunk.append_packet(b"old");
        let _ = chunk.complete();
        memory.take(FIRST, &mut ChunkCopy::new()).unwrap();
        let scraper = thread::spawn(move || {
            let mut copy = ChunkCopy::new();
            if let Some(scraped) = memory.scrape(FIRST, &mut copy) {
                assert_eq!(
                    (scraped.header.writer_id.0, scraped.header.chunk_id.0),
                    (2, 2)
                );
                assert_eq!(copy.payload()[..5], *b"\x03new\0");
            }
        });
        let mut chunk = take(&producer, PageLayout::One, 2).unwrap();
        chunk.append_packet(b"new");
        chunk.publish_finished();
        scraper.join().unwrap();
    });
}

/// Writes a packet into a chunk of each of two pages, one after the other, while `used_chunks` looks
/// for chunks in use. It may find neither, the first, or both.
fn look_beside_a_writer(
    producer: &ProducerMemory,
    mut used_chunks: impl FnMut() -> Vec<UsedChunk> + Send + 'static,
) {
    let looker = thread::spawn(move || {
        let found = used_chunks().into_iter().map(|chunk| chunk.chunk_id.0);
        let found: Vec<_> = found.collect();
        assert!([0, 1].starts_with(&found), "{found:?}");
    });
    for page_index in 0..2 {
        let header = NewChunk {
            writer_id: WriterId(1),
            chunk_id: ChunkId(page_index),
            flags: ChunkFlags::NONE,
        };
        let chunk = producer.acquire_for_writing(page_index, PageLayout::One, header);
        let mut chunk = chunk.unwrap();
        chunk.append_packet(b"");
        chunk.publish_finished();
    }
    looker.join().unwrap();
}

/// Runs a model in all interleavings with at most two switches from a thread that could go on: all of
/// them would take hours.
fn model_with_two_switches(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn a_look_finds_no_chunk_without_the_one_before() {
    model_with_two_switches(|| {
        let (producer, mut service) = two_pages();
        look_beside_a_writer(&producer, move || service.used_chunks(|_| true));
    });
}

#[test]
fn a_look_of_another_process_finds_no_chunk_without_the_one_before() {
    model_with_two_switches(|| {
        let (producer, _) = two_pages();
        let mut memory = ForeignMemory::of_same_process(&producer);
        look_beside_a_writer(&producer, move || memory.used_chunks(|_| true));
    });
}
