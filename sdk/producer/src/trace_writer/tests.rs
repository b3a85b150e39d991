use super::super::ArbiterConfig;
use super::super::testing::{BUFFER, FakeService, ReceivedPacket, Setup};
use super::*;
use tracezero_core::ids::ChunkId;
use tracezero_core::shm::{ChunkFlags, PACKETS_PER_CHUNK_MAX, PageLayout};

/// The field `first_packet_on_sequence`, the first bytes of a sequence.
const FIRST: &[u8] = &[0xb8, 0x05, 0x01];
/// The field `previous_packet_dropped`, the first bytes after a loss.
const AFTER_LOSS: &[u8] = &[0xd0, 0x02, 0x81, 0x02];

const BOTH_PAGE_SIZES: [usize; 2] = [4096, 65536];

fn writer(arbiter: &Arc<Arbiter>) -> TraceWriter {
    TraceWriter::new(arbiter, BUFFER, BufferExhaustedPolicy::Drop)
}

fn four_chunks(page_size_bytes: usize) -> Setup {
    Setup {
        page_size_bytes,
        layout: PageLayout::Four,
        ..Setup::default()
    }
}

/// Returns the expected packet: the fields that the writer adds, then `fields`.
fn with_prefix(prefix: &[u8], fields: &[u8]) -> Vec<u8> {
    [prefix, fields].concat()
}

/// Returns the encoding of field 1 with `len` bytes.
fn bytes_field(len: usize) -> Vec<u8> {
    let mut buffer = protozero::HeapBuffered::<Message<'_>>::new();
    buffer.message().append_bytes::<1>(&vec![b'x'; len]);
    buffer.to_vec()
}

/// Returns a writer's last chunk.
fn last_chunk(service: &FakeService, writer_id: WriterId) -> super::super::testing::ReceivedChunk {
    service.chunks(writer_id).pop().unwrap()
}

fn id_of(writer: &TraceWriter) -> WriterId {
    writer.writer_id().unwrap()
}

#[test]
fn a_small_packet_has_the_golden_bytes() {
    let setup = Setup {
        is_slow: true,
        ..Setup::default()
    };
    let (arbiter, service) = setup.build();
    let mut writer = writer(&arbiter);
    writer.packet(|packet| packet.begin_nested::<900>().append_string::<1>("foo"));
    assert_eq!(service.page_word_bits(0), 0x1000_0001);
    writer.flush();
    assert_eq!(service.page_word_bits(0), 0x1000_0003);
    service.take_commits();
    let chunk = last_chunk(&service, id_of(&writer));
    assert_eq!(chunk.chunk_id, ChunkId(0));
    assert_eq!(chunk.packets.bits(), 0x0002);
    assert_eq!(
        chunk.payload[..13],
        *b"\x0b\xb8\x05\x01\xa2\x38\x05\x0a\x03foo\0"
    );
}

#[test]
fn a_packet_over_two_chunks_has_the_golden_bytes_and_one_patch() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = writer(&arbiter);
    let text = "z".repeat(4200);
    writer.packet(|packet| packet.begin_nested::<900>().append_string::<1>(&text));
    writer.flush();

    let chunks = service.chunks(id_of(&writer));
    assert_eq!(chunks[0].packets.bits(), 0x1801);
    let head = [
        0xec, 0x9f, 0x80, 0x00, 0xb8, 0x05, 0x01, 0xa2, 0x38, 0xeb, 0xa0, 0x80, 0x00, 0x0a, 0xe8,
        0x20,
    ];
    assert_eq!(chunks[0].payload[..16], head);
    assert!(
        chunks[1]
            .packets
            .flags()
            .contains(ChunkFlags::FIRST_PACKET_CONTINUES)
    );
    assert_eq!(chunks[1].payload[..4], [0x88, 0x81, 0x80, 0x00]);

    let patches: Vec<_> = service
        .requests()
        .into_iter()
        .flat_map(|request| request.chunks_to_patch)
        .collect();
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].chunk_id, ChunkId(0));
    assert_eq!(patches[0].writer_id, id_of(&writer));
    assert_eq!(patches[0].target_buffer, BUFFER);
    assert!(!patches[0].has_more_patches);
    assert_eq!(patches[0].patches[0].offset_bytes, 9);
    assert_eq!(patches[0].patches[0].data, [0xeb, 0xa0, 0x80, 0x00]);
}

#[test]
fn small_packets_arrive_in_order_and_only_first_is_marked() {
    for page_size_bytes in BOTH_PAGE_SIZES {
        let (arbiter, service) = four_chunks(page_size_bytes).build();
        let mut writer = writer(&arbiter);
        let id = id_of(&writer);
        for number in 0..32 {
            writer.packet(|packet| packet.append_uint32::<1>(number));
        }
        drop(writer);
        let packets = service.whole_packets(id);
        assert_eq!(packets.len(), 32);
        for (number, packet) in (0..).zip(packets) {
            let prefix = if number == 0 { FIRST } else { &[] };
            assert_eq!(packet, with_prefix(prefix, &[0x08, number]));
        }
    }
}

#[test]
fn packets_larger_than_a_chunk_are_whole_after_patching() {
    for page_size_bytes in BOTH_PAGE_SIZES {
        let (arbiter, service) = four_chunks(page_size_bytes).build();
        let mut writer = writer(&arbiter);
        let large = vec![0x5a; page_size_bytes / 4];
        for _ in 0..2 {
            writer.packet(|packet| {
                let mut outer = packet.begin_nested::<2>();
                outer.append_uint32::<1>(7);
                {
                    let mut inner = outer.begin_nested::<3>();
                    inner.append_bytes::<1>(&large);
                    inner.append_bytes::<2>(&large);
                }
                outer.append_uint32::<4>(8);
            });
        }
        writer.flush();
        let packets = service.whole_packets(id_of(&writer));
        assert_eq!(packets.len(), 2);
        for (index, packet) in packets.iter().enumerate() {
            let fields = if index == 0 { &packet[3..] } else { packet };
            let decoder = protozero::Decoder::new(fields);
            let outer = decoder.last::<protozero::types::Bytes>(2).unwrap().unwrap();
            let outer = protozero::Decoder::new(outer);
            assert_eq!(outer.last::<protozero::types::Uint32>(1).unwrap(), Some(7));
            assert_eq!(outer.last::<protozero::types::Uint32>(4).unwrap(), Some(8));
            let inner = outer.last::<protozero::types::Bytes>(3).unwrap().unwrap();
            let inner = protozero::Decoder::new(inner);
            for field in [1, 2] {
                let value = inner.last::<protozero::types::Bytes>(field).unwrap();
                assert_eq!(value, Some(&large[..]));
            }
        }
    }
}

#[test]
fn packets_up_to_126_bytes_have_one_size_byte() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = writer(&arbiter);
    writer.packet(|packet| packet.append_bool::<1>(true));
    for len in [124, 125] {
        writer.packet(|packet| packet.append_bytes::<1>(&vec![0; len]));
    }
    writer.flush();
    let chunk = last_chunk(&service, id_of(&writer));
    assert_eq!(chunk.payload[6], 126);
    assert_eq!(chunk.payload[133..137], [0xff, 0x80, 0x80, 0x00]);
}

#[test]
fn a_finished_packet_is_scrapable_while_its_chunk_is_open() {
    let (arbiter, service) = four_chunks(4096).build();
    let mut writer = writer(&arbiter);
    let packet = writer.begin_packet();
    assert_eq!(service.scrape(0, 0), None);
    drop(packet);
    let scraped = service.scrape(0, 0).unwrap();
    assert_eq!(
        (scraped.header.packets.count(), scraped.is_complete),
        (2, false)
    );
    drop(writer.begin_packet());
    assert_eq!(service.scrape(0, 0).unwrap().header.packets.count(), 3);
    let id = id_of(&writer);
    drop(writer);
    let chunk = last_chunk(&service, id);
    assert_eq!(chunk.packets.count(), 3);
    let first = Some(FIRST.to_vec());
    assert_eq!(chunk.fragments(), [first, Some(vec![]), Some(vec![])]);
}

#[test]
fn a_packet_that_fills_its_chunk_is_committed_at_once() {
    for page_size_bytes in BOTH_PAGE_SIZES {
        let (arbiter, service) = four_chunks(page_size_bytes).build();
        let mut writer = writer(&arbiter);
        let room = PageLayout::Four.payload_size_bytes(page_size_bytes) - 4 - FIRST.len();
        // The tag, and a length of two or three bytes.
        let overhead = if room < 16384 { 3 } else { 4 };
        writer.packet(|packet| packet.append_bytes::<1>(&vec![1; room - overhead]));
        let chunk = last_chunk(&service, id_of(&writer));
        assert_eq!(chunk.packets.bits(), 1);
        let id = id_of(&writer);
        drop(writer);
        assert_eq!(service.chunks(id).len(), 1);
    }
}

#[test]
fn a_chunk_with_1022_packets_is_closed_with_an_empty_one() {
    let (arbiter, service) = Setup {
        page_size_bytes: 65536,
        ..Setup::default()
    }
    .build();
    let mut writer = writer(&arbiter);
    for _ in 0..PACKETS_PER_CHUNK_MAX {
        writer.packet(|packet| packet.append_bool::<1>(true));
    }
    assert!(service.requests().is_empty());
    writer.packet(|packet| packet.append_bool::<1>(true));
    let chunk = last_chunk(&service, id_of(&writer));
    assert_eq!(chunk.packets.bits(), 1023);
    assert_eq!(chunk.fragments().last(), Some(&Some(vec![])));
    writer.flush();
    assert_eq!(last_chunk(&service, id_of(&writer)).chunk_id, ChunkId(1));
    assert_eq!(service.whole_packets(id_of(&writer)).len(), 1023);
}

#[test]
fn a_leaked_packet_ends_where_the_next_one_begins() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = writer(&arbiter);
    let mut packet = writer.begin_packet();
    let mut message = packet.message();
    let mut nested = message.begin_nested::<2>();
    nested.append_uint32::<1>(1);
    std::mem::forget(nested);
    std::mem::forget(message);
    std::mem::forget(packet);
    writer.packet(|packet| packet.append_uint32::<1>(2));
    let mut packet = writer.begin_packet();
    packet.message().append_uint32::<1>(3);
    std::mem::forget(packet);
    writer.flush();
    let expected = [
        with_prefix(FIRST, &[0x12, 2, 0x08, 1]),
        vec![0x08, 2],
        vec![0x08, 3],
    ];
    assert_eq!(service.whole_packets(id_of(&writer)), expected);
}

#[test]
fn a_panic_while_writing_ends_the_packet() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = writer(&arbiter);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        writer.packet(|packet| {
            packet.append_uint32::<1>(1);
            std::panic::resume_unwind(Box::new("a panic without a message"));
        });
    }));
    assert!(unwound.is_err());
    writer.flush();
    let expected = [with_prefix(FIRST, &[0x08, 1])];
    assert_eq!(service.whole_packets(id_of(&writer)), expected);
}

#[test]
fn flush_commits_and_next_packet_takes_a_new_chunk() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = writer(&arbiter);
    let id = id_of(&writer);
    writer.flush();
    assert!(service.requests().is_empty());
    for number in 1..=3 {
        writer.packet(|packet| packet.append_uint32::<1>(number));
        assert_eq!(service.chunks(id).len() as u32, number - 1);
        writer.flush();
        assert_eq!(service.chunks(id).len() as u32, number);
        writer.flush();
    }
    assert_eq!(service.requests().len(), 3);
    assert_eq!(service.whole_packets(id).len(), 3);
}

#[test]
fn lengths_of_one_chunk_come_as_one_entry_of_patches() {
    let (arbiter, service) = four_chunks(4096).build();
    let mut writer = writer(&arbiter);
    writer.packet(|packet| {
        let mut a = packet.begin_nested::<1>();
        let mut b = a.begin_nested::<2>();
        let mut c = b.begin_nested::<3>();
        c.append_uint32::<1>(1);
        c.append_bytes::<2>(&[7; 1024]);
    });
    writer.flush();
    let patches: Vec<_> = service
        .requests()
        .into_iter()
        .flat_map(|request| request.chunks_to_patch)
        .collect();
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].patches.len(), 3);
    assert!(!patches[0].has_more_patches);
    assert_eq!(service.whole_packets(id_of(&writer)).len(), 1);
}

#[test]
fn lengths_of_a_chunk_wait_for_its_outermost_message() {
    let (arbiter, service) = four_chunks(4096).build();
    let mut writer = writer(&arbiter);
    writer.packet(|packet| {
        {
            // The inner length is known early, but its slot is behind the outer length's, which is
            // still open.
            let mut outer = packet.begin_nested::<1>();
            outer.begin_nested::<2>().append_bytes::<1>(&[1; 1200]);
            outer.append_bytes::<3>(&[2; 2000]);
        }
        packet.append_bytes::<4>(&[3; 2000]);
    });
    writer.flush();
    let entries: Vec<_> = service
        .requests()
        .into_iter()
        .flat_map(|request| request.chunks_to_patch)
        .map(|entry| {
            (
                entry.chunk_id.0,
                entry.patches.len(),
                entry.has_more_patches,
            )
        })
        .collect();
    assert_eq!(entries, [(0, 2, false)]);
    assert_eq!(service.whole_packets(id_of(&writer)).len(), 1);
}

#[test]
fn memory_exhausted_within_a_packet_loses_only_that_packet() {
    for page_size_bytes in BOTH_PAGE_SIZES {
        let (arbiter, service) = Setup {
            pages: 1,
            layout: PageLayout::One,
            page_size_bytes,
            ..Setup::default()
        }
        .build();
        let mut writer = writer(&arbiter);
        let id = id_of(&writer);
        drop(writer.begin_packet());
        writer.packet(|packet| {
            let mut nested = packet.begin_nested::<1>();
            nested.append_bytes::<1>(&vec![1; page_size_bytes]);
            nested.append_bytes::<2>(&vec![2; 3 * page_size_bytes]);
        });
        assert!(writer.is_dropping());
        assert_eq!(writer.packet_counts().drop_episodes, 1);
        assert_eq!(writer.packet_counts().packets_dropped, 1);
        let chunk = last_chunk(&service, id);
        assert_eq!(chunk.packets.bits(), 2);
        assert_eq!(chunk.payload[..8], *b"\x03\xb8\x05\x01\xff\xff\xff\x7f");
        assert!(service.requests()[0].chunks_to_patch.is_empty());

        writer.packet(|packet| packet.append_bool::<1>(true));
        assert!(!writer.is_dropping());
        writer.flush();
        assert_eq!(writer.packet_counts().drop_episodes, 1);
        assert_eq!(writer.packet_counts().packets_dropped, 1);
        assert_eq!(
            service.packets(id),
            [
                ReceivedPacket::Whole(FIRST.to_vec()),
                ReceivedPacket::Abandoned {
                    fragments_before: 0
                },
                ReceivedPacket::Whole(with_prefix(AFTER_LOSS, &[0x08, 1])),
            ]
        );
        let chunk = last_chunk(&service, id);
        assert_eq!(chunk.chunk_id, ChunkId(1));
        assert_eq!(chunk.payload[..5], *b"\x06\xd0\x02\x81\x02");
    }
}

#[test]
fn memory_exhausted_from_the_start_leaves_no_gap_and_no_mark() {
    let (arbiter, service) = Setup {
        pages: 2,
        is_slow: true,
        ..Setup::default()
    }
    .build();
    let mut hog = writer(&arbiter);
    drop(hog.begin_packet());
    let mut other_hog = writer(&arbiter);
    drop(other_hog.begin_packet());

    let mut writer = writer(&arbiter);
    for _ in 0..10 {
        writer.packet(|packet| packet.append_bytes::<1>(&[1; 600]));
    }
    assert!(writer.is_dropping());
    hog.flush();
    service.take_commits();
    let counts = writer.packet_counts();
    assert_eq!((counts.packets_begun, counts.packets_dropped), (10, 10));
    assert_eq!(counts.drop_episodes, 1);

    writer.packet(|packet| packet.append_bool::<1>(true));
    writer.flush();
    service.take_commits();
    let expected = [with_prefix(AFTER_LOSS, &[0x08, 1])];
    assert_eq!(service.whole_packets(id_of(&writer)), expected);
    assert_eq!(writer.packet_counts().packets_dropped, 10);
}

#[test]
fn writer_recovers_with_first_packet_after_memory_is_freed() {
    // So few pages that the writer looks at all of them at once.
    let (arbiter, service) = Setup {
        pages: 4,
        is_slow: true,
        ..Setup::default()
    }
    .build();
    let mut hogs: Vec<_> = (0..4).map(|_| writer(&arbiter)).collect();
    for hog in &mut hogs {
        drop(hog.begin_packet());
    }
    let mut writer = writer(&arbiter);
    writer.packet(|packet| packet.append_bool::<1>(true));
    assert!(writer.is_dropping());
    hogs.clear();
    writer.packet(|packet| packet.append_bool::<1>(true));
    assert!(writer.is_dropping(), "committed, but not freed");
    service.take_commits();
    writer.packet(|packet| packet.append_bool::<1>(true));
    assert!(!writer.is_dropping());
}

#[test]
fn each_exhaustion_of_memory_counts_as_one_episode() {
    let (arbiter, _service) = Setup {
        pages: 1,
        ..Setup::default()
    }
    .build();
    let mut writer = writer(&arbiter);
    for episodes in 1..=2 {
        writer.packet(|packet| packet.append_bytes::<1>(&[0; 8000]));
        assert!(writer.is_dropping());
        assert_eq!(writer.packet_counts().drop_episodes, episodes);
        let mut hog = TraceWriter::new(&arbiter, BUFFER, BufferExhaustedPolicy::Drop);
        drop(hog.begin_packet());
        for _ in 0..5 {
            writer.packet(|packet| packet.append_bytes::<1>(&[0; 8000]));
        }
        assert_eq!(writer.packet_counts().drop_episodes, episodes);
        drop(hog);
        writer.packet(|packet| packet.append_bool::<1>(true));
        assert!(!writer.is_dropping());
        assert_eq!(writer.packet_counts().drop_episodes, episodes);
    }
    assert_eq!(writer.packet_counts().packets_dropped, 12);
}

#[test]
fn packet_given_up_late_is_not_counted_here_but_is_patched() {
    let (arbiter, service) = Setup {
        pages: 3,
        is_slow: true,
        ..Setup::default()
    }
    .build();
    let mut writer = writer(&arbiter);
    writer.packet(|packet| {
        let mut nested = packet.begin_nested::<1>();
        nested.append_bytes::<1>(&[1; 16000]);
        nested.append_bytes::<2>(&[2; 2000]);
    });
    assert!(writer.is_dropping());
    writer.flush();
    service.take_commits();
    let counts = writer.packet_counts();
    assert_eq!((counts.packets_begun, counts.packets_dropped), (1, 0));
    assert_eq!(
        service.packets(id_of(&writer)),
        [ReceivedPacket::Abandoned {
            fragments_before: 2
        }]
    );
    let chunk = last_chunk(&service, id_of(&writer));
    assert_eq!(chunk.packets.flags(), ChunkFlags::FIRST_PACKET_CONTINUES);
}

#[test]
fn garbage_of_any_size_is_dropped_while_memory_stays_exhausted() {
    let (arbiter, service) = Setup {
        pages: 1,
        ..Setup::default()
    }
    .build();
    let mut hog = writer(&arbiter);
    drop(hog.begin_packet());
    let mut writer = writer(&arbiter);
    for len in [512, 512, 8, 1024, 1020, 1012, 0, 5000, 3] {
        writer.packet(|packet| {
            let mut nested = packet.begin_nested::<1>();
            nested.append_bytes::<1>(&vec![0; len]);
            nested.begin_nested::<2>().append_bool::<1>(true);
        });
    }
    writer.flush();
    assert_eq!(writer.packet_counts().packets_dropped, 9);
    assert!(service.chunks(id_of(&writer)).is_empty());
}

/// Compares the chunks of both ways for packets of all sizes, including some that span chunks.
#[test]
fn write_packet_leaves_the_same_chunks_as_single_fields() {
    for layout in [PageLayout::One, PageLayout::Fourteen] {
        let [by_fields, at_once] = [false, true].map(|is_at_once| {
            let setup = Setup {
                layout,
                pages: 64,
                ..Setup::default()
            };
            let (arbiter, service) = setup.build();
            let mut writer = writer(&arbiter);
            for len in (0..300).chain([5000, 1]) {
                let fields = bytes_field(len);
                if is_at_once {
                    writer.write_packet(&fields);
                } else {
                    writer.packet(|packet| packet.append_raw(&fields));
                }
            }
            writer.flush();
            let chunks = service.chunks(id_of(&writer)).into_iter();
            let chunks: Vec<_> = chunks
                .map(|chunk| (chunk.packets.bits(), chunk.fragments()))
                .collect();
            (chunks, writer.packet_counts())
        });
        assert_eq!(by_fields, at_once);
        assert_eq!(at_once.1.packets_begun, 302);
    }
}

#[test]
fn packets_of_write_packet_are_counted_and_scrapable() {
    let setup = Setup {
        pages: 1,
        is_slow: true,
        ..Setup::default()
    };
    let (arbiter, service) = setup.build();
    let mut writer = writer(&arbiter);
    for fields in [&[], &[8, 1][..], &[], &[8, 2]] {
        writer.write_packet(fields);
    }
    let scraped = service.scrape(0, 0).unwrap();
    assert_eq!(scraped.header.packets.count(), 5); // One is counted ahead.
    let counts = writer.packet_counts();
    assert_eq!((counts.packets_begun, counts.packets_empty), (4, 1));
    writer.flush();
    writer.write_packet(&[8, 3]);
    let counts = writer.packet_counts();
    assert_eq!((counts.packets_begun, counts.packets_dropped), (5, 1));
    service.take_commits();
    std::mem::forget(writer.begin_packet());
    writer.write_packet(&[8, 4]);
    writer.flush();
    service.take_commits();
    assert_eq!(
        service.whole_packets(id_of(&writer)),
        [FIRST, &[8, 1], &[8, 2], AFTER_LOSS, &[8, 4]]
    );
}

#[test]
fn an_empty_packet_counts_as_one() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = writer(&arbiter);
    for _ in 0..3 {
        drop(writer.begin_packet());
    }
    writer.flush();
    let counts = writer.packet_counts();
    assert_eq!((counts.packets_begun, counts.packets_empty), (3, 2));
    assert_eq!(service.whole_packets(id_of(&writer)).len(), 1);
}

#[test]
fn a_writer_moves_between_threads() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = writer(&arbiter);
    writer.packet(|packet| packet.append_uint32::<1>(1));
    let id = id_of(&writer);
    std::thread::spawn(move || writer.packet(|packet| packet.append_uint32::<1>(2)))
        .join()
        .unwrap();
    assert_eq!(service.whole_packets(id).len(), 2);
}

/// Packets of all sizes, so that they cross the end of a small chunk at every position. A short
/// packet follows each.
#[test]
fn a_packet_of_any_size_arrives_whole_at_any_place_in_a_chunk() {
    let (arbiter, service) = Setup {
        layout: PageLayout::Fourteen,
        ..Setup::default()
    }
    .build();
    let mut expected = Vec::new();
    let mut writer = writer(&arbiter);
    for len in 0..700 {
        writer.packet(|packet| packet.append_bytes::<1>(&vec![b'x'; len]));
        expected.push(bytes_field(len));
        writer.packet(|packet| {
            let mut nested = packet.begin_nested::<2>();
            nested.begin_nested::<3>().append_fixed64::<1>(len as u64);
        });
        let fixed = with_prefix(&[0x12, 11, 0x1a, 9, 0x09], &(len as u64).to_le_bytes());
        expected.push(fixed);
    }
    writer.flush();
    expected[0].splice(0..0, FIRST.iter().copied());
    let packets = service.whole_packets(id_of(&writer));
    assert_eq!(packets.len(), expected.len());
    for (packet, expected) in packets.iter().zip(&expected) {
        // The length of a message that spans chunks has four bytes.
        assert_eq!(without_redundant_lengths(packet), *expected);
    }
}

/// Returns a packet with nested messages (field 2, see the test above) with its lengths in the
/// shortest form, and any other packet unchanged.
fn without_redundant_lengths(packet: &[u8]) -> Vec<u8> {
    let bytes = |field, bytes| {
        let decoder = protozero::Decoder::new(bytes);
        decoder.last::<protozero::types::Bytes>(field).unwrap()
    };
    let Some(outer) = bytes(2, packet) else {
        return packet.to_vec();
    };
    let inner = bytes(3, outer).unwrap();
    with_prefix(&[0x12, 11, 0x1a, 9], inner)
}

#[test]
fn by_default_chunk_sizes_follow_demand() {
    let config = ArbiterConfig::default();
    assert_eq!(config.page_layout, None);
    assert_eq!(config.stall_limit, std::time::Duration::from_secs(30));
}
