//! Tests of memory that another process writes to. That process is an honest or a hostile producer.
//!
//! In some tests, a second mapping of the same file plays the other process. In others, threads
//! play it, which store to the same addresses by atomics, so that a race detector sees both sides.

use std::os::fd::AsFd as _;
use std::sync::atomic::AtomicBool;

use rustix::fs::FallocateFlags;

use super::layout::{CHUNK_HEADER_SIZE_BYTES, PAGE_HEADER_SIZE_BYTES};
use super::sync::{AtomicU32, Ordering};
use super::tests::{chunk_of, place};
use super::*;
use crate::ids::{ChunkId, WriterId};
use crate::received_file::{ClosingFiles, ReceivedFile};

const PAGE_SIZES_BYTES: [usize; 5] = [4096, 8192, 16384, 32768, 65536];

const STATES: [ChunkState; 4] = [
    ChunkState::Free,
    ChunkState::BeingWritten,
    ChunkState::BeingRead,
    ChunkState::Complete,
];

/// A generator of random numbers: xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn geometry(page_size_bytes: usize, pages: usize) -> Geometry {
    Geometry::new(pages * page_size_bytes, page_size_bytes).unwrap()
}

/// Creates memory of the service, and a producer that maps it as another process would.
fn created(page_size_bytes: usize, pages: usize) -> (ProducerMemory, ForeignMemory) {
    let (memory, shared) = ForeignMemory::create(geometry(page_size_bytes, pages)).unwrap();
    let sent = shared.as_fd().try_clone_to_owned().unwrap();
    let attached = SharedFd::attach(sent, page_size_bytes).unwrap();
    (ProducerMemory::attach(&attached).unwrap(), memory)
}

/// Stores a page word, as a hostile producer could.
fn store_word(producer: &ProducerMemory, page_index: u32, word: PageWord) {
    let page_word = producer.mapping.page_word(page_index).unwrap();
    page_word.store(word.bits(), Ordering::Relaxed);
}

/// Returns a word of the mapping, which hostile threads change.
#[allow(unsafe_code)]
fn word_at(producer: &ProducerMemory, offset_bytes: usize) -> &AtomicU32 {
    assert!(offset_bytes < producer.geometry().size_bytes() && offset_bytes.is_multiple_of(4));
    // SAFETY: the assertion has checked that the offset is inside the mapping.
    let address = unsafe { producer.mapping.backing.address(offset_bytes) };
    // SAFETY: the address is aligned, and valid as long as the mapping. The tests access these
    // bytes only by atomics.
    unsafe { AtomicU32::from_ptr(address.cast()) }
}

#[test]
fn a_taken_chunk_is_copied_and_free() {
    let mut copy = ChunkCopy::new();
    for page_size_bytes in PAGE_SIZES_BYTES {
        let (producer, mut memory) = created(page_size_bytes, 2);
        for layout in PageLayout::ALL {
            let chunks: Vec<_> = (0..layout.chunk_count())
                .map(|index| {
                    let header = chunk_of(u16::from(index) + 1, 7);
                    let mut chunk = producer.acquire_for_writing(1, layout, header).unwrap();
                    chunk.append_packet(&vec![index; chunk.free_bytes() - FRAGMENT_SIZE_BYTES]);
                    chunk.complete()
                })
                .collect();
            for (index, place) in (0..).zip(chunks) {
                let taken = memory.take(place, &mut copy).unwrap();
                let expected = CopiedHeader {
                    writer_id: WriterId(u16::from(index) + 1),
                    chunk_id: ChunkId(7),
                    packets: PacketsWord::new(1, ChunkFlags::NONE),
                };
                assert_eq!(taken, expected);
                let payload = copy.payload();
                assert_eq!(payload.len(), layout.payload_size_bytes(page_size_bytes));
                assert!(
                    payload[FRAGMENT_SIZE_BYTES..]
                        .iter()
                        .all(|byte| *byte == index)
                );
                let word = memory.page_word(1).unwrap();
                assert_eq!(word.used_mask() & 1 << index, 0);
            }
            assert_eq!(memory.page_word(1), Some(PageWord::FREE));
        }
    }
}

#[test]
fn a_chunk_that_is_not_complete_is_an_error_and_stays_as_it_is() {
    let (producer, mut memory) = created(4096, 1);
    let mut copy = ChunkCopy::new();
    for state in STATES {
        let word = PageWord::partitioned(PageLayout::Two)
            .with_state(0, ChunkState::BeingWritten)
            .with_state(1, state);
        store_word(&producer, 0, word);
        let taken = memory.take(place(0, 1), &mut copy);
        let expected = match state {
            ChunkState::Complete => word.with_state(1, ChunkState::Free),
            _ => word,
        };
        assert_eq!(taken.is_ok(), state == ChunkState::Complete);
        if let Err(error) = taken {
            assert_eq!(error, MoveError::WrongState(state));
        }
        assert_eq!(memory.page_word(0), Some(expected));
    }
}

#[test]
fn a_chunk_that_does_not_exist_is_an_error() {
    let (producer, mut memory) = created(4096, 1);
    let mut copy = ChunkCopy::new();
    let all_states = 0x0fff_ffff;
    // Try all codes of layouts, valid and reserved ones, each with and without the reserved bit.
    // All chunks are Complete.
    for code in 0..16 {
        let word = PageWord::from_bits(code << 28 | all_states);
        for chunk_index in 0..=255 {
            store_word(&producer, 0, word);
            let exists = chunk_index < word.chunk_count();
            let scraped = memory.scrape(place(0, chunk_index), &mut copy);
            assert_eq!(scraped, None, "it has no packets");
            let taken = memory.take(place(0, chunk_index), &mut copy);
            assert_eq!(taken.is_ok(), exists);
            if let Err(error) = taken {
                assert_eq!(error, MoveError::NoSuchChunk);
                assert_eq!(memory.page_word(0), Some(word));
            }
        }
    }
    for page_index in [1, u32::MAX] {
        assert_eq!(memory.page_word(page_index), None);
        let taken = memory.take(place(page_index, 0), &mut copy);
        assert_eq!(taken, Err(MoveError::NoSuchChunk));
        let scraped = memory.scrape(place(page_index, 0), &mut copy);
        assert_eq!(scraped, None);
    }
}

#[test]
#[allow(unsafe_code)]
fn a_chunk_that_the_other_process_takes_back_is_an_error() {
    let (producer, _) = created(4096, 1);
    let words = [
        (PageWord::FREE, MoveError::NoSuchChunk),
        (
            PageWord::partitioned(PageLayout::One),
            MoveError::WrongState(ChunkState::Free),
        ),
        (
            PageWord::partitioned(PageLayout::Seven).with_state(0, ChunkState::BeingWritten),
            MoveError::WrongState(ChunkState::BeingWritten),
        ),
        (PageWord::from_bits(u32::MAX), MoveError::NoSuchChunk),
    ];
    for (word, expected) in words {
        store_word(&producer, 0, PageWord::FREE);
        let chunk = producer.acquire_for_writing(0, PageLayout::One, chunk_of(1, 0));
        let place = chunk.unwrap().complete();
        let extent = producer.mapping.acquire_for_reading(place).unwrap();
        store_word(&producer, 0, word);
        // SAFETY: this is the extent of the chunk that was just acquired. No other code uses the
        // chunk.
        let freed = unsafe { producer.mapping.free(place, extent) };
        assert_eq!(freed, Err(expected));
        assert_eq!(producer.page_word(0), Some(word));
    }
}

/// Fills some chunks of the first page at random. Returns the places of those in use.
fn write_at_random(producer: &ProducerMemory, random: &mut Random) -> Vec<ChunkPlace> {
    let layout = PageLayout::ALL[random.below(5)];
    let mut places = Vec::new();
    for chunk_id in 0..random.below(usize::from(layout.chunk_count()) + 1) as u32 {
        let header = NewChunk {
            flags: ChunkFlags::from_bits(random.next() as u8),
            ..chunk_of(random.below(4) as u16, chunk_id)
        };
        let mut chunk = producer.acquire_for_writing(0, layout, header).unwrap();
        let end = random.below(5);
        for _ in 0..random.below(4) {
            let room = chunk.free_bytes().saturating_sub(FRAGMENT_SIZE_BYTES);
            if chunk.has_room_for_packet() {
                chunk.append_packet(&vec![random.next() as u8; random.below(room.min(300) + 1)]);
            }
        }
        match end {
            0 => chunk.abandon_fragment(),
            1 if chunk.begin_fragment() => chunk.fill_fragment(b"open"),
            2 if chunk.begin_fragment() => {
                chunk.fill_fragment(b"begun");
                chunk.end_continuing(5);
            }
            _ => chunk.publish_finished(),
        }
        places.push(chunk.place());
        if random.below(2) == 0 {
            let _ = chunk.complete();
        }
    }
    places
}

#[test]
fn both_kinds_of_memory_copy_the_same_and_leave_the_same_behind() {
    let mut random = Random(1);
    let mut copy = ChunkCopy::new();
    let mut payload = Vec::new();
    let (mut scraped_count, mut taken_count) = (0, 0);
    for round in 0..3000 {
        let page_size_bytes = PAGE_SIZES_BYTES[random.below(2)];
        let seed = 1 + random.next();
        let (own_producer, mut own) = shared_memory(geometry(page_size_bytes, 1)).unwrap();
        let (foreign_producer, mut foreign) = created(page_size_bytes, 1);
        let places = write_at_random(&own_producer, &mut Random(seed));
        assert_eq!(
            places,
            write_at_random(&foreign_producer, &mut Random(seed))
        );
        for place in places {
            let scraped = foreign.scrape(place, &mut copy);
            assert_eq!(own.scrape(place, &mut payload), scraped, "round {round}");
            if scraped.is_some() {
                assert_eq!(copy.payload(), payload);
                scraped_count += 1;
            }
            let taken = foreign.take(place, &mut copy);
            match own.acquire_for_reading(place) {
                Ok(chunk) => {
                    let taken = taken.unwrap();
                    assert_eq!(taken.writer_id, chunk.header().writer_id);
                    assert_eq!(taken.chunk_id, chunk.header().chunk_id);
                    assert_eq!(taken.packets, chunk.header().packets);
                    assert_eq!(copy.payload(), chunk.payload());
                    taken_count += 1;
                }
                Err(error) => assert_eq!(taken, Err(error)),
            }
            assert_eq!(own.page_word(0), foreign.page_word(0));
        }
        // Headers and payloads are the same in both memories, too.
        for offset_bytes in (0..page_size_bytes).step_by(4) {
            let word = |producer| word_at(producer, offset_bytes).load(Ordering::Relaxed);
            assert_eq!(word(&own_producer), word(&foreign_producer));
        }
    }
    assert!(scraped_count > 1000 && taken_count > 1000);
}

#[test]
fn chunks_in_use_are_found_by_their_writers() {
    let (producer, mut memory) = created(4096, 1);
    let mut copy = ChunkCopy::new();
    for writer_id in [1, 2] {
        let header = chunk_of(writer_id, 0);
        let mut chunk = producer
            .acquire_for_writing(0, PageLayout::Four, header)
            .unwrap();
        chunk.append_packet(&[writer_id as u8; 3]);
        let _ = chunk.complete();
    }
    // This chunk has no packets yet.
    let _chunk = producer.acquire_for_writing(0, PageLayout::Four, chunk_of(2, 1));
    let used = memory.used_chunks(|writer_id| writer_id == WriterId(2));
    let found = UsedChunk {
        place: place(0, 1),
        writer_id: WriterId(2),
        chunk_id: ChunkId(0),
    };
    assert_eq!(used, [found]);
    let scraped = memory.scrape(found.place, &mut copy).unwrap();
    assert!(found.is(&scraped));
    assert_eq!(scraped.header.writer_id, WriterId(2));
    assert_eq!(copy.payload()[..5], *b"\x03\x02\x02\x02\0");
    assert_eq!(memory.scrape(place(0, 2), &mut copy), None);
}

#[test]
fn forged_headers_and_sizes_stay_inside_the_chunk() {
    let (producer, mut memory) = created(4096, 1);
    let mut copy = ChunkCopy::new();
    let mut random = Random(2);
    let sizes: [u32; 6] = [0, 0x7f, 0xffff_ffff, 0x7fff_ffff, 0x7e80_8080, 0x0080_8f8f];
    for layout in PageLayout::ALL {
        for _ in 0..2000 {
            for offset_bytes in (PAGE_HEADER_SIZE_BYTES..4096).step_by(4) {
                let value = sizes[random.below(6)] ^ (random.next() as u32 & 0x0101_0101);
                word_at(&producer, offset_bytes).store(value, Ordering::Relaxed);
            }
            let chunk_index = random.below(layout.chunk_count().into()) as u8;
            let state = [ChunkState::BeingWritten, ChunkState::Complete][random.below(2)];
            let word = PageWord::partitioned(layout).with_state(chunk_index, state);
            store_word(&producer, 0, word);
            let place = place(0, chunk_index);
            let payload_size_bytes = layout.payload_size_bytes(4096);
            if memory.scrape(place, &mut copy).is_some() {
                assert_eq!(copy.payload().len(), payload_size_bytes);
            }
            assert_eq!(memory.page_word(0), Some(word));
            if memory.take(place, &mut copy).is_ok() {
                assert_eq!(copy.payload().len(), payload_size_bytes);
                assert_eq!(memory.page_word(0), Some(PageWord::FREE));
                let start = layout.chunk_offset_bytes(4096, chunk_index);
                assert_no_headers(&producer, start, layout.chunk_size_bytes(4096));
            }
            store_word(&producer, 0, PageWord::FREE);
        }
    }
}

/// Asserts that these bytes contain nothing that a later scrape could mistake for a count of
/// packets, whatever layout the page has then.
fn assert_no_headers(producer: &ProducerMemory, start_bytes: usize, len: usize) {
    for layout in PageLayout::ALL {
        for chunk_index in 0..layout.chunk_count() {
            let count_bytes =
                layout.chunk_offset_bytes(4096, chunk_index) + CHUNK_HEADER_SIZE_BYTES - 4;
            if (start_bytes..start_bytes + len).contains(&count_bytes) {
                assert_eq!(word_at(producer, count_bytes).load(Ordering::Relaxed), 0);
            }
        }
    }
}

#[test]
fn copies_after_the_first_allocate_nothing() {
    for page_size_bytes in PAGE_SIZES_BYTES {
        let (producer, mut memory) = created(page_size_bytes, 1);
        let chunk = producer.acquire_for_writing(0, PageLayout::One, chunk_of(1, 0));
        let mut chunk = chunk.unwrap();
        chunk.append_packet(b"packet");
        let place = chunk.complete();
        let mut copy = ChunkCopy::new();
        assert!(memory.scrape(place, &mut copy).is_some());
        let before = copy.payload().as_ptr();
        assert!(memory.take(place, &mut copy).is_ok());
        assert_eq!(copy.payload().as_ptr(), before);
    }
}

/// Creates memory, which the service adopts. Also returns a second descriptor of it, by which a
/// test can change the memory as its creator could.
fn adopted(pages: u64) -> (std::fs::File, ForeignMemory) {
    let created = SharedFd::create(geometry(4096, pages as usize)).unwrap();
    let fd = || created.as_fd().try_clone_to_owned().unwrap();
    let received = ReceivedFile::new(fd(), &ClosingFiles::default());
    (fd().into(), ForeignMemory::adopt(received, 4096).unwrap())
}

#[test]
fn adopted_memory_cannot_be_cut_and_holes_are_zeros() {
    let (file, mut memory) = adopted(4);
    let mut copy = ChunkCopy::new();
    for size_bytes in [0, 4096, 1 << 20] {
        assert!(file.set_len(size_bytes).is_err());
    }
    let sent = file.try_clone().unwrap().into();
    let producer = ProducerMemory::attach(&SharedFd::attach(sent, 4096).unwrap()).unwrap();
    for page_index in 0..4 {
        let header = chunk_of(1, page_index);
        let chunk = producer.acquire_for_writing(page_index, PageLayout::One, header);
        chunk.unwrap().append_packet(b"packet");
    }
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for (offset, len) in [(0, 4096), (4096 + 100, 2 * 4096)] {
        rustix::fs::fallocate(&file, hole, offset, len).unwrap();
    }
    for page_index in 0..4 {
        let place = place(page_index, 0);
        let is_gone = [0, 2, 3].contains(&page_index);
        assert_eq!(
            memory.page_word(page_index) == Some(PageWord::FREE),
            is_gone
        );
        assert_eq!(memory.scrape(place, &mut copy), None);
        assert!(memory.take(place, &mut copy).is_err());
    }
    // Another thread punches holes into the memory while the service copies chunks.
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                rustix::fs::fallocate(&file, hole, 0, 4 * 4096).unwrap();
            }
        });
        for _ in 0..5000 {
            let word = PageWord::partitioned(PageLayout::One).with_state(0, ChunkState::Complete);
            store_word(&producer, 1, word);
            if memory.take(place(1, 0), &mut copy).is_ok() {
                assert_eq!(copy.payload().len(), 4080);
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn hostile_threads_disturb_neither_the_service_nor_an_honest_writer() {
    const PAGES: u32 = 4;
    const HONEST_PAGE: u32 = PAGES - 1;
    let (producer, _) = shared_memory(geometry(4096, PAGES as usize)).unwrap();
    let mut memory = ForeignMemory::of_same_process(&producer);
    let is_done = &AtomicBool::new(false);
    let producer = &producer;
    let scribble = |seed| {
        let mut random = Random(seed);
        while !is_done.load(Ordering::Relaxed) {
            let page = random.below(HONEST_PAGE as usize) * 4096;
            // Write mostly to page words and headers, because the service reads other bytes only if
            // these are valid. The service may see words of both hostile threads mixed, even in one
            // header, as it may with another process.
            let offset_bytes = match random.below(4) {
                0 | 1 => 0,
                2 => {
                    let layout = PageLayout::ALL[random.below(5)];
                    let index = random.below(layout.chunk_count().into()) as u8;
                    layout.chunk_offset_bytes(4096, index) + 4 * random.below(4)
                }
                _ => 4 * random.below(1024),
            };
            let value = match random.below(3) {
                0 => random.next() as u32,
                1 => PageWord::from_bits(random.next() as u32 & 0x0fff_ffff).bits() | 1 << 28,
                _ => (1 + random.below(5) as u32) << 28 | 0x0fff_ffff,
            };
            word_at(producer, page + offset_bytes).store(value, Ordering::Release);
        }
    };
    let write_honestly = || {
        let mut written: u32 = 0;
        while !is_done.load(Ordering::Relaxed) {
            let header = chunk_of(1, written);
            let chunk = producer.acquire_for_writing(HONEST_PAGE, PageLayout::Two, header);
            let Some(mut chunk) = chunk else {
                std::thread::yield_now();
                continue;
            };
            for _ in 0..3 {
                chunk.append_packet(&written.to_le_bytes());
                chunk.publish_finished();
            }
            let _ = chunk.complete();
            written += 1;
        }
    };
    let check_honest = |header: &CopiedHeader, fragments: u16, payload: &[u8]| {
        assert_eq!(header.writer_id, WriterId(1));
        let packet = [&[4], &header.chunk_id.0.to_le_bytes()[..]].concat();
        let whole = packet.repeat(usize::from(fragments.min(3)));
        assert_eq!(payload[..whole.len()], whole);
    };
    std::thread::scope(|scope| {
        scope.spawn(move || scribble(3));
        scope.spawn(move || scribble(4));
        scope.spawn(write_honestly);
        let mut copy = ChunkCopy::new();
        let mut random = Random(5);
        let (mut taken_from_honest, mut taken_from_hostile) = (0, 0);
        // The operating system decides which thread runs. So continue until the service has taken
        // enough chunks of both kinds of writers.
        while taken_from_honest < 200 || taken_from_hostile < 200 {
            let place = place(random.below(PAGES as usize) as u32, random.below(14) as u8);
            let is_honest = place.page_index == HONEST_PAGE;
            let sizes = PageLayout::ALL.map(|layout| layout.payload_size_bytes(4096));
            if let Some(scraped) = memory.scrape(place, &mut copy) {
                assert!(sizes.contains(&copy.payload().len()));
                let header = CopiedHeader {
                    writer_id: scraped.header.writer_id,
                    chunk_id: scraped.header.chunk_id,
                    packets: scraped.header.packets,
                };
                let unfinished = u16::from(!scraped.is_complete);
                if is_honest {
                    check_honest(
                        &header,
                        scraped.header.packets.count() - unfinished,
                        copy.payload(),
                    );
                }
            }
            if let Ok(taken) = memory.take(place, &mut copy) {
                assert!(sizes.contains(&copy.payload().len()));
                if is_honest {
                    assert_eq!(taken.packets.count(), 4);
                    check_honest(&taken, 3, copy.payload());
                    taken_from_honest += 1;
                } else {
                    taken_from_hostile += 1;
                }
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}
