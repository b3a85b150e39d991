//! Tests of the shared memory through the handles of both sides: the format, the cycle of states,
//! scraping.

use std::fs::File;
use std::os::fd::AsFd as _;

use super::layout::{CHUNK_HEADER_SIZE_BYTES, PAGE_HEADER_SIZE_BYTES};
use super::*;
use crate::ids::{ChunkId, WriterId};

const PAGE_SIZES_BYTES: [usize; 5] = [4096, 8192, 16384, 32768, 65536];

fn memory(page_size_bytes: usize, pages: usize) -> (ProducerMemory, ServiceMemory) {
    shared_memory(Geometry::new(pages * page_size_bytes, page_size_bytes).unwrap()).unwrap()
}

pub(super) fn chunk_of(writer_id: u16, chunk_id: u32) -> NewChunk {
    NewChunk {
        writer_id: WriterId(writer_id),
        chunk_id: ChunkId(chunk_id),
        flags: ChunkFlags::NONE,
    }
}

pub(super) fn place(page_index: u32, chunk_index: u8) -> ChunkPlace {
    ChunkPlace {
        page_index,
        chunk_index,
    }
}

#[test]
fn page_keeps_the_layout_of_its_first_chunk() {
    for page_size_bytes in PAGE_SIZES_BYTES {
        let (producer, _service) = memory(page_size_bytes, 14);
        let masks = [0x1, 0x3, 0xf, 0x7f, 0x3fff];
        for (page_index, (layout, mask)) in (0..).zip(PageLayout::ALL.into_iter().zip(masks)) {
            let first = producer
                .acquire_for_writing(page_index, layout, chunk_of(1, 0))
                .unwrap();
            assert_eq!(first.place(), place(page_index, 0));
            let word = producer.page_word(page_index).unwrap();
            assert_eq!((word.free_mask(), word.used_mask()), (mask & !1, 1));
            for chunk_index in 1..layout.chunk_count() {
                let other_layout = PageLayout::Four;
                let next = producer
                    .acquire_for_writing(page_index, other_layout, chunk_of(1, 1))
                    .unwrap();
                assert_eq!(next.place(), place(page_index, chunk_index));
                assert_eq!(next.payload_size_bytes(), first.payload_size_bytes());
            }
            assert!(!producer.seems_free(page_index));
            assert!(
                producer
                    .acquire_for_writing(page_index, layout, chunk_of(1, 2))
                    .is_none()
            );
            assert_eq!(
                producer.page_word(page_index).unwrap().layout(),
                Some(layout)
            );
        }
        assert_eq!(producer.page_word(5), Some(PageWord::FREE));
    }
}

#[test]
fn chunks_pass_all_states_and_the_last_one_frees_the_page() {
    for page_size_bytes in PAGE_SIZES_BYTES {
        let (producer, service) = memory(page_size_bytes, 2);
        for layout in PageLayout::ALL {
            let chunk_count = layout.chunk_count();
            let writables: Vec<_> = (0..chunk_count)
                .map(|_| {
                    producer
                        .acquire_for_writing(1, layout, chunk_of(7, 0))
                        .unwrap()
                })
                .collect();
            let word = || service.page_word(1).unwrap();
            for (chunk_index, writable) in (0..).zip(writables) {
                assert!(!word().is_complete());
                assert_eq!(
                    word().chunk_state(chunk_index),
                    Some(ChunkState::BeingWritten)
                );
                assert_eq!(
                    service.acquire_for_reading(place(1, chunk_index)).err(),
                    Some(MoveError::WrongState(ChunkState::BeingWritten))
                );
                assert_eq!(writable.complete(), place(1, chunk_index));
                assert_eq!(word().chunk_state(chunk_index), Some(ChunkState::Complete));
            }
            assert!(word().is_complete());
            let readables: Vec<_> = (0..chunk_count)
                .map(|chunk_index| service.acquire_for_reading(place(1, chunk_index)).unwrap())
                .collect();
            for (chunk_index, readable) in (0..).zip(readables) {
                assert!(!word().is_free());
                assert_eq!(word().chunk_state(chunk_index), Some(ChunkState::BeingRead));
                assert_eq!(readable.header().writer_id, WriterId(7));
                readable.free().unwrap();
            }
            assert_eq!(word(), PageWord::FREE);
        }
    }
}

#[test]
fn a_place_outside_the_memory_or_the_layout_is_refused() {
    let (producer, mut service) = memory(4096, 1);
    let _chunk = producer.acquire_for_writing(0, PageLayout::Two, chunk_of(1, 0));
    let outside = [place(1, 0), place(u32::MAX, 0), place(0, 2), place(0, 255)];
    for outside in outside {
        assert_eq!(
            service.acquire_for_reading(outside).err(),
            Some(MoveError::NoSuchChunk)
        );
        assert_eq!(service.scrape(outside, &mut Vec::new()), None);
    }
    assert!(
        producer
            .acquire_for_writing(1, PageLayout::One, chunk_of(1, 0))
            .is_none()
    );
}

#[test]
fn header_is_read_as_written_and_zero_after_the_free() {
    let (producer, service) = memory(4096, 1);
    for (writer_id, chunk_id, flags) in [(1, 0, 0), (0x7fff, u32::MAX, 0x3f), (300, 1 << 31, 1)] {
        let header = NewChunk {
            writer_id: WriterId(writer_id),
            chunk_id: ChunkId(chunk_id),
            flags: ChunkFlags::from_bits(flags),
        };
        let chunk = producer
            .acquire_for_writing(0, PageLayout::Seven, header)
            .unwrap();
        assert_eq!(chunk.chunk_id(), header.chunk_id);
        let chunk = service.acquire_for_reading(chunk.complete()).unwrap();
        assert_eq!(chunk.header().writer_id, header.writer_id);
        assert_eq!(chunk.header().chunk_id, header.chunk_id);
        assert_eq!(chunk.header().packets, PacketsWord::new(0, header.flags));
        chunk.free().unwrap();
        assert_eq!(page_bytes(&service, 0)[..16], [0; 16]);
    }
}

#[test]
fn counting_and_flagging_show_in_the_packets_word() {
    let (producer, service) = memory(4096, 1);
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
        .unwrap();
    chunk.append_packet(b"one");
    assert_eq!(chunk.packets(), PacketsWord::new(1, ChunkFlags::NONE));
    assert!(chunk.begin_fragment());
    chunk.fill_fragment(b"two");
    assert_eq!(chunk.packets().count(), 2);
    chunk.set_needs_patching();
    assert_eq!(
        chunk.packets(),
        PacketsWord::new(2, ChunkFlags::NEEDS_PATCHING)
    );
    chunk.end_continuing(3);
    let both = ChunkFlags::NEEDS_PATCHING.union(ChunkFlags::LAST_PACKET_CONTINUES);
    assert_eq!(chunk.packets(), PacketsWord::new(2, both));
    assert!(!chunk.begin_fragment());
    let chunk = service.acquire_for_reading(chunk.complete()).unwrap();
    assert_eq!(chunk.header().packets, PacketsWord::new(2, both));
    assert_eq!(chunk.payload()[..11], *b"\x03one\x83\x80\x80\x00two");
}

/// Returns the bytes of a page, none of whose chunks is being written.
#[allow(unsafe_code)]
fn page_bytes(service: &ServiceMemory, page_index: usize) -> Vec<u8> {
    let page_size_bytes = service.geometry().page_size_bytes();
    // SAFETY: within the mapping, and the test writes nothing during the call.
    unsafe {
        service
            .mapping
            .backing
            .read(page_index * page_size_bytes, page_size_bytes)
    }
    .to_vec()
}

#[test]
fn published_packet_and_empty_one_behind_have_golden_bytes() {
    let (producer, service) = memory(4096, 1);
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
        .unwrap();
    chunk.append_packet(&[
        0xb8, 0x05, 0x01, 0xa2, 0x38, 0x05, 0x0a, 0x03, 0x66, 0x6f, 0x6f,
    ]);
    chunk.publish_finished();
    chunk.publish_finished();
    let _ = chunk.complete();
    let page = page_bytes(&service, 0);
    assert_eq!(page[..8], [0x03, 0, 0, 0x10, 0, 0, 0, 0]);
    assert_eq!(page[8..16], [0, 0, 0, 0, 0x01, 0, 0x02, 0]);
    assert_eq!(
        page[16..29],
        [
            0x0b, 0xb8, 0x05, 0x01, 0xa2, 0x38, 0x05, 0x0a, 0x03, 0x66, 0x6f, 0x6f, 0
        ]
    );
}

#[test]
fn abandoned_fragment_has_the_reserved_size_and_is_the_last() {
    let (producer, service) = memory(4096, 1);
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
        .unwrap();
    chunk.append_packet(b"good");
    assert!(chunk.begin_fragment());
    chunk.fill_fragment(b"lost");
    chunk.abandon_fragment();
    assert!(!chunk.has_room_for_packet());
    let chunk = service.acquire_for_reading(chunk.complete()).unwrap();
    assert_eq!(
        chunk.header().packets,
        PacketsWord::new(2, ChunkFlags::NONE)
    );
    assert_eq!(chunk.payload()[..9], *b"\x04good\xff\xff\xff\x7f");
}

#[test]
fn continuation_has_a_size_of_four_bytes_in_front() {
    let (producer, service) = memory(4096, 1);
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::Two, chunk_of(1, 1))
        .unwrap();
    let whole = chunk.writable_range();
    assert_eq!(whole.len, chunk.payload_size_bytes());
    chunk.begin_continuation();
    let behind_size = chunk.writable_range();
    assert_eq!(behind_size.start.addr(), whole.start.addr() + 4);
    assert_eq!(behind_size.len, whole.len - 4);
    chunk.end_continuation(3);
    chunk.append_packet(b"next");
    let chunk = service.acquire_for_reading(chunk.complete()).unwrap();
    let flags = ChunkFlags::FIRST_PACKET_CONTINUES;
    assert_eq!(chunk.header().packets, PacketsWord::new(2, flags));
    assert_eq!(chunk.payload()[..12], *b"\x83\x80\x80\0\0\0\0\x04next");
}

#[test]
fn a_packet_that_fills_the_chunk_is_not_published_ahead() {
    let (producer, service) = memory(4096, 1);
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
        .unwrap();
    let room = chunk.payload_size_bytes() - FRAGMENT_SIZE_BYTES;
    chunk.append_packet(&vec![1; room]);
    assert_eq!(chunk.free_bytes(), 0);
    chunk.publish_finished();
    assert_eq!(chunk.packets().count(), 1);
    let chunk = service.acquire_for_reading(chunk.complete()).unwrap();
    assert_eq!(chunk.header().packets.count(), 1);
}

#[test]
fn a_chunk_takes_1022_packets_and_its_count_ends_at_1023() {
    let (producer, service) = memory(65536, 1);
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
        .unwrap();
    let mut packets = 0;
    while chunk.has_room_for_packet() {
        chunk.append_packet(b"p");
        chunk.publish_finished();
        packets += 1;
        assert_eq!(chunk.packets().count(), packets + 1);
    }
    assert_eq!(packets, PACKETS_PER_CHUNK_MAX);
    let chunk = service.acquire_for_reading(chunk.complete()).unwrap();
    assert_eq!(chunk.header().packets.count(), 1023);
    assert_eq!(chunk.payload()[2 * 1022], 0);
}

#[test]
fn a_packet_begins_only_where_twelve_bytes_are_free() {
    let (producer, _service) = memory(4096, 1);
    for (free_bytes, has_room) in [(12, true), (11, false)] {
        let mut chunk = producer
            .acquire_for_writing(0, PageLayout::Fourteen, chunk_of(1, 0))
            .unwrap();
        let len = chunk.payload_size_bytes() - FRAGMENT_SIZE_BYTES - free_bytes;
        chunk.append_packet(&vec![1; len]);
        assert_eq!(chunk.free_bytes(), free_bytes);
        assert_eq!(chunk.has_room_for_packet(), has_room);
        assert_eq!(chunk.begin_fragment(), has_room);
    }
}

#[test]
fn taken_chunk_still_has_payload_of_an_earlier_use() {
    let (producer, service) = memory(4096, 1);
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
        .unwrap();
    chunk.append_packet(b"stale");
    service
        .acquire_for_reading(chunk.complete())
        .unwrap()
        .free()
        .unwrap();
    let chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(2, 0))
        .unwrap();
    let chunk = service.acquire_for_reading(chunk.complete()).unwrap();
    assert_eq!(chunk.header().packets.count(), 0);
    assert_eq!(chunk.payload()[..6], *b"\x05stale");
}

/// Takes, fills, reads and frees all chunks of page 0 in this layout. The content would be headers
/// of chunks with packets, if it were read as headers.
fn fill_and_free(producer: &ProducerMemory, service: &ServiceMemory, layout: PageLayout) {
    let chunks: Vec<_> = (0..layout.chunk_count())
        .map(|_| {
            let mut chunk = producer
                .acquire_for_writing(0, layout, chunk_of(1, 0))
                .unwrap();
            chunk.append_packet(&vec![0x11; chunk.free_bytes() - FRAGMENT_SIZE_BYTES]);
            chunk.complete()
        })
        .collect();
    for place in chunks {
        let chunk = service.acquire_for_reading(place).unwrap();
        chunk.free().unwrap();
    }
}

#[test]
fn a_chunk_without_its_header_has_no_packets_to_scrape() {
    for page_size_bytes in PAGE_SIZES_BYTES {
        for old_layout in PageLayout::ALL {
            for layout in PageLayout::ALL {
                let (producer, mut service) = memory(page_size_bytes, 1);
                fill_and_free(&producer, &service, old_layout);
                for _ in 0..layout.chunk_count() {
                    let word = service.mapping.page_word(0).unwrap();
                    let (_, chunk_index) = state::take_free_chunk(word, layout).unwrap();
                    let found = service.scrape(place(0, chunk_index), &mut Vec::new());
                    assert_eq!(found, None, "{old_layout:?}, {layout:?} {chunk_index}");
                }
            }
        }
    }
}

#[test]
fn dropping_a_readable_chunk_frees_it() {
    let (producer, service) = memory(4096, 1);
    let chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
        .unwrap();
    drop(service.acquire_for_reading(chunk.complete()).unwrap());
    assert_eq!(service.page_word(0), Some(PageWord::FREE));
}

#[test]
fn a_scrape_sees_finished_packets_only() {
    let (producer, mut service) = memory(4096, 1);
    let mut payload = vec![0xee; 10];
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::Four, chunk_of(3, 9))
        .unwrap();
    let place = chunk.place();
    assert_eq!(service.scrape(place, &mut payload), None);
    assert!(chunk.begin_fragment());
    chunk.fill_fragment(b"one");
    assert_eq!(service.scrape(place, &mut payload), None);
    chunk.end_continuation(3);
    assert_eq!(service.scrape(place, &mut payload), None);
    chunk.publish_finished();
    let scraped = service.scrape(place, &mut payload).unwrap();
    assert_eq!(
        scraped,
        ScrapedChunk {
            header: CopiedHeader {
                writer_id: WriterId(3),
                chunk_id: ChunkId(9),
                packets: PacketsWord::new(2, ChunkFlags::NONE),
            },
            is_complete: false,
        }
    );
    assert_eq!(payload.len(), chunk.payload_size_bytes());
    assert_eq!(payload[..8], *b"\x83\x80\x80\0one\0");

    assert!(chunk.begin_fragment());
    chunk.fill_fragment(b"second");
    let again = service.scrape(place, &mut payload).unwrap();
    assert_eq!(again, scraped);
    assert_eq!(payload[..8], *b"\x83\x80\x80\0one\0");
    chunk.end_continuing(6);
    let again = service.scrape(place, &mut payload).unwrap();
    assert_eq!(
        again.header.packets.flags(),
        ChunkFlags::LAST_PACKET_CONTINUES
    );
    assert_eq!(payload[7..], vec![0; payload.len() - 7]);
    assert_eq!(
        producer.page_word(0).unwrap().chunk_state(0),
        Some(ChunkState::BeingWritten)
    );
}

#[test]
fn scrape_sees_all_of_a_complete_chunk_and_keeps_its_state() {
    let (producer, mut service) = memory(4096, 1);
    let mut payload = Vec::new();
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(3, 0))
        .unwrap();
    chunk.append_packet(b"one");
    chunk.append_packet(&[7; 200]);
    assert!(chunk.begin_fragment());
    chunk.fill_fragment(b"lost");
    let place = chunk.complete();
    let scraped = service.scrape(place, &mut payload).unwrap();
    assert!(scraped.is_complete);
    assert_eq!(scraped.header.packets.count(), 3);
    assert_eq!(payload[..4], *b"\x03one");
    assert_eq!(payload[4..8], [0xc8, 0x81, 0x80, 0]);
    assert_eq!(payload[208..213], [0xff, 0xff, 0xff, 0x7f, 0]);
    let readable = service.acquire_for_reading(place).unwrap();
    assert_eq!(readable.payload()[..212], payload[..212]);
    readable.free().unwrap();
    assert_eq!(service.scrape(place, &mut payload), None);
}

#[test]
fn a_size_that_leads_out_of_the_payload_ends_the_scrape() {
    let (producer, mut service) = memory(4096, 1);
    let place = place(0, 0);
    for size in [[0xff, 0xff, 0xff, 0x7e], [0xff; 4], [0xf0, 0x9f, 0x80, 0]] {
        let mut chunk = producer
            .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
            .unwrap();
        chunk.append_packet(b"hostile");
        let _ = chunk.complete();
        overwrite(
            &service,
            PAGE_HEADER_SIZE_BYTES + CHUNK_HEADER_SIZE_BYTES,
            &size,
        );
        let mut payload = Vec::new();
        assert!(service.scrape(place, &mut payload).is_some());
        assert_eq!(payload[..4], size);
        assert_eq!(payload[4..], vec![0; 4076]);
        service.acquire_for_reading(place).unwrap().free().unwrap();
    }
}

/// Overwrites shared memory, as a hostile producer could.
#[allow(unsafe_code)]
fn overwrite(service: &ServiceMemory, offset_bytes: usize, bytes: &[u8]) {
    // SAFETY: payload of a chunk without a handle, and the test does not read it during the call.
    unsafe { service.mapping.backing.write(offset_bytes, bytes) }
}

#[test]
fn memory_outlives_both_sides_while_a_chunk_is_held() {
    let (producer, service) = memory(4096, 1);
    let mut chunk = producer
        .acquire_for_writing(0, PageLayout::One, chunk_of(1, 0))
        .unwrap();
    drop((producer, service));
    chunk.append_packet(b"into the void");
    assert_eq!(chunk.packets().count(), 1);
    let _ = chunk.complete();
}

#[test]
fn threads_that_take_and_free_chunks_never_share_one() {
    let (producer, service) = memory(4096, 2);
    let (producer, service) = (&producer, &service);
    let take_and_free = |writer_id: u16| -> u32 {
        let mut taken = 0;
        for chunk_id in 0..20_000_u32 {
            let page_index = chunk_id % 2;
            let header = chunk_of(writer_id, chunk_id);
            let layout = PageLayout::ALL[chunk_id as usize % 5];
            let Some(mut chunk) = producer.acquire_for_writing(page_index, layout, header) else {
                continue;
            };
            let text = [writer_id.to_le_bytes(), (chunk_id as u16).to_le_bytes()].concat();
            chunk.append_packet(&text);
            let chunk = service.acquire_for_reading(chunk.complete()).unwrap();
            assert_eq!(chunk.header().writer_id, WriterId(writer_id));
            assert_eq!(chunk.header().chunk_id, ChunkId(chunk_id));
            assert_eq!(chunk.header().packets.count(), 1);
            assert_eq!(chunk.payload()[1..5], text[..]);
            chunk.free().unwrap();
            taken += 1;
        }
        taken
    };
    let taken: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|writer_id| scope.spawn(move || take_and_free(writer_id)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // The scheduler decides which threads get chunks. The first thread that asks gets one.
    assert!(taken > 0);
    for page_index in 0..2 {
        assert_eq!(service.page_word(page_index), Some(PageWord::FREE));
    }
}

/// Memory that a service has made, as a producer attaches it.
fn attached(page_size_bytes: usize, pages: usize) -> (ProducerMemory, ServiceMemory) {
    let geometry = Geometry::new(pages * page_size_bytes, page_size_bytes).unwrap();
    let created = SharedFd::create(geometry).unwrap();
    let sent = created.as_fd().try_clone_to_owned().unwrap();
    let (_, service) = shared_memory_of_file(geometry, &File::from(sent)).unwrap();
    let sent = created.as_fd().try_clone_to_owned().unwrap();
    let producer = ProducerMemory::attach(&SharedFd::attach(sent, page_size_bytes).unwrap());
    (producer.unwrap(), service)
}

#[test]
fn attached_memory_hands_chunks_over() {
    let (producer, service) = attached(4096, 1);
    for round in 0..100 {
        for index in 0..PageLayout::Fourteen.chunk_count() {
            let chunk = producer.acquire_for_writing(0, PageLayout::Fourteen, chunk_of(1, round));
            let mut chunk = chunk.unwrap();
            chunk.append_packet(&[round as u8; 7]);
            assert_eq!(chunk.complete(), place(0, index));
        }
        for index in 0..PageLayout::Fourteen.chunk_count() {
            let chunk = service.acquire_for_reading(place(0, index)).unwrap();
            assert_eq!(
                chunk.payload()[..8],
                [[7].as_slice(), &[round as u8; 7]].concat()
            );
        }
    }
}

#[test]
fn chunks_over_one_that_is_being_written_are_refused() {
    let (producer, service) = attached(4096, 1);
    let held = producer.acquire_for_writing(0, PageLayout::Two, chunk_of(1, 0));
    let held = held.unwrap();
    // The other process frees the page although the chunk is being written.
    let word = service.mapping.page_word(0).unwrap();
    for layout in PageLayout::ALL {
        word.store(PageWord::FREE.bits(), std::sync::atomic::Ordering::Relaxed);
        assert!(
            producer
                .acquire_for_writing(0, layout, chunk_of(2, 0))
                .is_none()
        );
    }
    // When no chunk of the page is being written, all layouts are possible again.
    assert_eq!(held.complete(), place(0, 0));
    word.store(PageWord::FREE.bits(), std::sync::atomic::Ordering::Relaxed);
    assert!(
        producer
            .acquire_for_writing(0, PageLayout::Seven, chunk_of(2, 0))
            .is_some()
    );
}
