//! Tests of single calls to the trace buffer.

use super::chunk_queue::QueuedChunk;
use super::sequence_table::SEQUENCES_PER_BUFFER_MAX;
use super::*;

mod crash_files; // what a kill between two stores leaves in the file
mod growing; // rings whose memory grows with the lag of their reader
mod random; // random writers and readers

/// Creates the successor of a buffer.
fn successor(buffer: &TraceBuffer) -> TraceBuffer {
    let mut successor = buffer.empty_copy().unwrap();
    successor.continue_after(buffer);
    successor
}

/// Checks what must hold between any two calls.
fn assert_consistent(buffer: &TraceBuffer) {
    let ring = &buffer.ring;
    let (mut id, mut covered_bytes, mut chunks) = (ring.first(), 0, 0);
    while id != ring.end() {
        let slot = ring.slot(id);
        covered_bytes += slot.size_bytes();
        assert!(slot.consumed_bytes <= slot.payload_bytes);
        assert!(slot.payload_bytes <= slot.reserved_bytes);
        if let Some(sequence) = slot.sequence {
            chunks += 1;
            assert!(
                id.is_at_or_behind(ring.held_from()),
                "a chunk is passed over"
            );
            let queued = |chunk: QueuedChunk| chunk.slot == id && chunk.id == slot.chunk_id;
            assert_eq!(
                buffer.sequences[sequence]
                    .chunks()
                    .filter(|&chunk| queued(chunk))
                    .count(),
                1
            );
        }
        id = id.next();
    }
    let slots = ring.end().count_from(ring.first()) as usize;
    assert!(slots <= ring.slots_max(), "{slots} slots");
    assert_eq!(
        covered_bytes,
        ring.used_bytes(),
        "slots cover what is used, once"
    );
    let queued: usize = buffer
        .sequences
        .iter()
        .map(|(sequence, _)| sequence.chunks().count())
        .sum();
    assert_eq!(chunks, queued);
    let balance = buffer.storage_balance();
    assert!(balance.is_even(), "{balance:?}");
    assert_eq!(buffer.unread_bytes(), balance.unread.bytes);
    if !buffer.can_ever_grow() {
        assert!(
            ring.unused_memory().iter().all(|&byte| byte == 0),
            "unused memory was touched"
        );
    }
}

fn whole_packets(chunk_id: u32, payload: &[u8]) -> UntrustedChunk<'_> {
    UntrustedChunk {
        producer_id: ProducerId::new(1),
        client: ClientIdentity::default(),
        writer_id: WriterId(1),
        chunk_id: ChunkId(chunk_id),
        fragment_count: 2,
        flags: ChunkFlags::default(),
        complete: true,
        payload,
    }
}

fn counts(buffer: &TraceBuffer) -> PacketCounts {
    buffer
        .packet_counts(ProducerId::new(1), WriterId(1))
        .unwrap()
}

#[test]
fn sizes_from_4_gib_on_are_refused() {
    assert_eq!(
        TraceBuffer::new(1, FillPolicy::Ring).unwrap().size_bytes(),
        4096
    );
    for size_bytes in [(1 << 32) - 4095, 1 << 32, u64::MAX] {
        let error = TraceBuffer::new(size_bytes, FillPolicy::Ring).unwrap_err();
        assert!(
            matches!(error, BufferError::TooLarge { size_bytes: named } if named == size_bytes)
        );
    }
}

#[test]
fn an_empty_copy_has_pages_of_the_same_kind() {
    let huge = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
    assert!(!huge.empty_copy().unwrap().ring.has_small_pages());
    let mut small = TraceBuffer::of_small_pages(1 << 20, FillPolicy::Ring).unwrap();
    assert!(small.empty_copy().unwrap().ring.has_small_pages());
    // All of them are present.
    for id in 0..300 {
        small.commit_chunk(&whole_packets(id, &[0; 4000]));
    }
    assert!(small.empty_copy().unwrap().ring.has_small_pages());
}

#[test]
fn a_write_ends_the_read_cycle() {
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    assert!(buffer.read_packet().is_none());
    buffer.commit_chunk(&whole_packets(0, b"\x01a\x01b"));
    buffer.begin_read();
    assert!(buffer.read_packet().is_some());
    buffer.commit_chunk(&whole_packets(1, b"\x01c\x01d"));
    assert!(buffer.read_packet().is_none());
    buffer.begin_read();
    let first = buffer.read_packet().unwrap().slices().next();
    assert_eq!(first, Some(b"b".as_slice()));
}

#[test]
fn a_clone_refuses_chunks_and_patches_and_counts_them() {
    let mut source = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    source.commit_chunk(&whole_packets(0, b"\x01a\x01b"));
    let mut clone = source.clone_read_only().unwrap();
    clone.commit_chunk(&whole_packets(1, b"\x01c\x01d"));
    assert!(!clone.patch_chunk(ProducerId::new(1), WriterId(1), ChunkId(0), &[], false));
    assert_eq!(
        (clone.stats().chunks_discarded, clone.stats().patches_failed),
        (1, 1)
    );
    assert_eq!((counts(&clone).unread, counts(&clone).discarded), (2, 2));
    assert_eq!((counts(&source).unread, counts(&source).discarded), (2, 0));
}

#[test]
fn successor_stores_only_the_rest_of_an_unfinished_chunk() {
    let whole = whole_packets(7, b"\x03one\x03two");
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    buffer.commit_chunk(&UntrustedChunk {
        complete: false,
        ..whole
    });
    let mut successor = successor(&buffer);
    successor.commit_chunk(&whole);
    for (buffer, packet) in [(&mut buffer, b"one"), (&mut successor, b"two")] {
        buffer.begin_read();
        let packets: Vec<Vec<u8>> = std::iter::from_fn(|| {
            let packet = buffer.read_packet()?;
            assert!(packet.loss().is_empty());
            Some(packet.slices().collect::<Vec<_>>().concat())
        })
        .collect();
        assert_eq!(packets, [packet]);
        assert_eq!((counts(buffer).read, counts(buffer).lost()), (1, 0));
    }
}

#[test]
fn a_packet_that_waits_for_a_producer_that_is_gone_holds_nothing_back() {
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    let whole = whole_packets(0, b"\x03one\x03two");
    buffer.commit_chunk(&UntrustedChunk {
        flags: ChunkFlags::NEEDS_PATCHING.union(ChunkFlags::LAST_PACKET_CONTINUES),
        ..whole
    });
    buffer.commit_chunk(&UntrustedChunk {
        flags: ChunkFlags::FIRST_PACKET_CONTINUES,
        ..whole_packets(1, b"\x03end\x05three")
    });
    let read = |buffer: &mut TraceBuffer| {
        buffer.begin_read();
        let packets = std::iter::from_fn(|| {
            let packet = buffer.read_packet()?;
            Some(packet.slices().collect::<Vec<_>>().concat())
        });
        packets.collect::<Vec<_>>()
    };
    assert_eq!(read(&mut buffer), [b"one"]);
    buffer.end_writers(ProducerId::new(2));
    assert_eq!(read(&mut buffer), [b""; 0]);
    buffer.end_writers(ProducerId::new(1));
    assert_eq!(read(&mut buffer), [b"three"]);
    assert_eq!((counts(&buffer).read, counts(&buffer).aborted), (2, 1));
}

#[test]
fn successor_reports_packets_that_a_full_buffer_refused() {
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Discard).unwrap();
    let mut id = 0;
    while !buffer.is_full() {
        buffer.commit_chunk(&whole_packets(id, b"\x01a\x01b"));
        id += 1;
    }
    let whole = whole_packets(id, b"\x03one\x03two");
    buffer.commit_chunk(&UntrustedChunk {
        complete: false,
        ..whole
    });
    // Two packets of the chunk that filled the buffer, and one packet of the incomplete chunk.
    assert_eq!(counts(&buffer).discarded, 3);

    let mut successor = successor(&buffer);
    successor.commit_chunk(&whole);
    successor.begin_read();
    let packet = successor.read_packet().expect("what was not refused");
    assert_eq!(packet.slices().collect::<Vec<_>>(), [b"two"]);
    assert_eq!(packet.loss(), LossMask::READ_GAP);
    assert!(successor.read_packet().is_none());
    assert_eq!((counts(&successor).read, counts(&successor).lost()), (1, 0));
}

#[test]
fn a_successor_knows_which_chunk_comes_next() {
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    buffer.commit_chunk(&whole_packets(7, b"\x01a\x01b"));
    let loss_before = |chunk_id| {
        let mut successor = successor(&buffer);
        successor.commit_chunk(&whole_packets(chunk_id, b"\x01c\x01d"));
        successor.begin_read();
        successor.read_packet().map(|packet| packet.loss())
    };
    assert_eq!(loss_before(7), None);
    assert_eq!(loss_before(8), Some(LossMask::NONE));
    assert_eq!(loss_before(9), Some(LossMask::READ_GAP));
}

#[test]
fn successor_reports_losses_not_reported_before() {
    let other = [0x80; 2000];
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    let overwrite = |buffer: &mut TraceBuffer, first| {
        for chunk_id in first..first + 3 {
            buffer.commit_chunk(&UntrustedChunk {
                writer_id: WriterId(2),
                fragment_count: 0,
                complete: false,
                ..whole_packets(chunk_id, &other)
            });
        }
    };
    buffer.commit_chunk(&whole_packets(0, b"\x01a\x01b"));
    overwrite(&mut buffer, 0);
    buffer.commit_chunk(&whole_packets(1, b"\x01c\x01d"));
    let mut told_by_packet = successor(&buffer);
    overwrite(&mut buffer, 3);
    let mut not_told = successor(&buffer);
    for (successor, loss) in [
        (&mut told_by_packet, LossMask::NONE),
        (&mut not_told, LossMask::OVERWRITE),
    ] {
        successor.commit_chunk(&whole_packets(2, b"\x01e\x01f"));
        successor.begin_read();
        assert_eq!(
            successor.read_packet().map(|packet| packet.loss()),
            Some(loss)
        );
    }
}

#[test]
fn refused_packets_are_counted_once() {
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Discard).unwrap();
    buffer.commit_chunk(&whole_packets(0, b"\x01a\x01b"));
    let oversize = UntrustedChunk {
        fragment_count: 5000,
        ..whole_packets(1, &[0; 5000])
    };
    buffer.commit_chunk(&oversize);
    assert_eq!(
        (buffer.stats().abi_violations, counts(&buffer).discarded),
        (1, 0)
    );
    let many_packets = b"\x01a".repeat(2500);
    for _ in 0..2 {
        buffer.commit_chunk(&UntrustedChunk {
            payload: &many_packets,
            chunk_id: ChunkId(2),
            fragment_count: 2500,
            ..oversize
        });
        assert_eq!(counts(&buffer).discarded, 2500);
    }
    // The first commit does not fit and seals the buffer.
    let most_of_it = &many_packets[..4070];
    let sealing = UntrustedChunk {
        fragment_count: 2035,
        ..whole_packets(3, most_of_it)
    };
    for _ in 0..2 {
        buffer.commit_chunk(&sealing);
        assert_eq!(counts(&buffer).discarded, 2500 + 2035);
    }
    for chunk_id in [5, 0, 4, 5] {
        for complete in [false, true] {
            buffer.commit_chunk(&UntrustedChunk {
                complete,
                ..whole_packets(chunk_id, b"\x01a\x01b")
            });
        }
    }
    assert_eq!(buffer.stats().chunks_discarded, 10);
    assert_eq!(
        (counts(&buffer).unread, counts(&buffer).discarded),
        (2, 2500 + 2035 + 2 + 2)
    );
}

#[test]
fn packet_waits_for_an_unfinished_chunk_in_its_middle() {
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    let (first, last) = (
        ChunkFlags::FIRST_PACKET_CONTINUES,
        ChunkFlags::LAST_PACKET_CONTINUES,
    );
    let mut commit = |chunk_id, flags, complete, payload: &[u8]| {
        buffer.commit_chunk(&UntrustedChunk {
            fragment_count: 1,
            flags,
            complete,
            ..whole_packets(chunk_id, payload)
        });
        buffer.begin_read();
        buffer
            .read_packet()
            .map(|packet| packet.slices().collect::<Vec<_>>().concat())
    };
    assert_eq!(commit(0, last, true, b"\x01a"), None);
    // Chunk 1 is scraped while its only fragment is being written. Chunk 2 is copied after that.
    assert_eq!(commit(1, first.union(last), false, b"\x01b"), None);
    assert_eq!(commit(2, first, true, b"\x01c"), None);
    assert_eq!(
        commit(1, first.union(last), true, b"\x01b"),
        Some(b"abc".to_vec())
    );
}

#[test]
fn older_chunk_that_evicts_newer_ones_keeps_losses_in_order() {
    // One packet of 2998 bytes.
    let mut payload = vec![b'_'; 3000];
    payload[..2].copy_from_slice(&[0xb6, 0x17]);
    let large = |writer, chunk_id| UntrustedChunk {
        writer_id: WriterId(writer),
        fragment_count: 1,
        ..whole_packets(chunk_id, &payload)
    };
    for newer_ones_lie_in_the_tail in [false, true] {
        let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        buffer.commit_chunk(&whole_packets(0, b"\x01a\x01a"));
        assert_eq!(losses_of_first_writer(&mut buffer), [LossMask::NONE; 2]);
        if newer_ones_lie_in_the_tail {
            buffer.commit_chunk(&large(2, 0));
        }
        for chunk_id in [3, 4] {
            buffer.commit_chunk(&whole_packets(chunk_id, b"\x01b\x01c"));
        }
        buffer.commit_chunk(&large(2, 1));
        assert_eq!(counts(&buffer).unread, 4);
        // Chunk 1 is missing. Chunk 2 evicts chunks 3 and 4.
        buffer.commit_chunk(&large(1, 2));
        buffer.commit_chunk(&whole_packets(5, b"\x01d\x01e"));
        assert_eq!(
            losses_of_first_writer(&mut buffer),
            [LossMask::READ_GAP, LossMask::OVERWRITE, LossMask::NONE]
        );
        assert_eq!((counts(&buffer).read, counts(&buffer).overwritten), (5, 4));
    }
}

fn losses_of_first_writer(buffer: &mut TraceBuffer) -> Vec<LossMask> {
    let mut losses = Vec::new();
    buffer.begin_read();
    while let Some(packet) = buffer.read_packet() {
        if packet.origin().writer_id == WriterId(1) {
            losses.push(packet.loss());
        }
    }
    losses
}

/// The packets that the observer of a buffer was called with: writer, loss and bytes.
type Shown = std::sync::Arc<std::sync::Mutex<Vec<(u16, LossMask, Vec<u8>)>>>;

fn observe(buffer: &mut TraceBuffer) -> Shown {
    let shown = Shown::default();
    let observed = shown.clone();
    buffer.observe_overwrites(move |packet: &Packet<'_>| {
        let bytes = packet.slices().collect::<Vec<_>>().concat();
        assert_eq!(bytes.len(), packet.len_bytes());
        let packet = (packet.origin().writer_id.0, packet.loss(), bytes);
        observed.lock().unwrap().push(packet);
        Overwritten::Lost
    });
    shown
}

#[test]
fn observer_gets_whole_packets_in_order() {
    let (first, last) = (
        ChunkFlags::FIRST_PACKET_CONTINUES,
        ChunkFlags::LAST_PACKET_CONTINUES,
    );
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    let shown = observe(&mut buffer);
    // Chunk 1 comes last, but its packets belong in the middle. One packet spans chunks 1 and 2.
    // The first packet of chunk 0 is read before chunk 1 comes.
    buffer.commit_chunk(&whole_packets(0, b"\x01r\x01a"));
    buffer.commit_chunk(&UntrustedChunk {
        flags: first,
        ..whole_packets(2, b"\x02cc\x01d")
    });
    buffer.begin_read();
    assert!(buffer.read_packet().is_some());
    buffer.commit_chunk(&UntrustedChunk {
        flags: last,
        ..whole_packets(1, b"\x01b\x01c")
    });
    assert!(shown.lock().unwrap().is_empty());

    let most_of_it = [&[0xc0, 0x1f], [b'_'; 4032].as_slice()].concat();
    let filler = UntrustedChunk {
        writer_id: WriterId(2),
        fragment_count: 1,
        ..whole_packets(0, &most_of_it)
    };
    buffer.commit_chunk(&filler);
    let expected: Vec<_> = [b"a".as_slice(), b"b", b"ccc", b"d"]
        .iter()
        .zip([LossMask::NONE].into_iter().chain([LossMask::OVERWRITE; 3]))
        .map(|(bytes, loss)| (1, loss, bytes.to_vec()))
        .collect();
    assert_eq!(*shown.lock().unwrap(), expected);
    assert_eq!((counts(&buffer).read, counts(&buffer).overwritten), (1, 4));

    buffer.ignore_overwrites();
    buffer.commit_chunk(&UntrustedChunk {
        chunk_id: ChunkId(1),
        ..filler
    });
    assert_eq!(shown.lock().unwrap().len(), 4);
}

#[test]
fn observer_gets_no_incomplete_packets() {
    let last = ChunkFlags::LAST_PACKET_CONTINUES;
    for flags in [last, last.union(ChunkFlags::NEEDS_PATCHING)] {
        let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        let shown = observe(&mut buffer);
        buffer.commit_chunk(&UntrustedChunk {
            flags,
            ..whole_packets(0, b"\x01a\x01b")
        });
        for chunk_id in 0..128 {
            buffer.commit_chunk(&UntrustedChunk {
                writer_id: WriterId(2),
                ..whole_packets(chunk_id, b"\x01y\x01z")
            });
        }
        assert_eq!(*shown.lock().unwrap(), [(1, LossMask::NONE, b"a".to_vec())]);
        assert_eq!(counts(&buffer).overwritten, 2);
    }
}

#[test]
fn self_contained_chunk_is_evicted_without_its_payload() {
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    buffer.commit_chunk(&whole_packets(0, b"\x01a\x01b"));
    // Destroy the payload, so that reading it would report corruption.
    let oldest = buffer.ring.first();
    buffer.ring.payload_mut(oldest).fill(0xff);
    for chunk_id in 0..128 {
        buffer.commit_chunk(&UntrustedChunk {
            writer_id: WriterId(2),
            ..whole_packets(chunk_id, b"\x01y\x01z")
        });
    }
    assert_eq!(
        (counts(&buffer).overwritten, counts(&buffer).lost()),
        (2, 2)
    );
}

#[test]
fn given_up_packet_is_lost_at_once_and_stalls_nothing() {
    let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
    buffer.commit_chunk(&UntrustedChunk {
        flags: ChunkFlags::LAST_PACKET_CONTINUES,
        ..whole_packets(0, b"\x01a\x05begin")
    });
    buffer.commit_chunk(&UntrustedChunk {
        fragment_count: 1,
        flags: ChunkFlags::FIRST_PACKET_CONTINUES,
        ..whole_packets(1, b"\xff\xff\xff\x7f")
    });
    buffer.begin_read();
    assert!(buffer.read_packet().is_some());
    assert!(buffer.read_packet().is_none());
    assert_eq!((counts(&buffer).unread, counts(&buffer).aborted), (0, 1));
    assert_consistent(&buffer);
}

#[test]
fn rest_of_a_chunk_is_recognized_among_many_writers() {
    let mut buffer = TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap();
    let whole = |writer| UntrustedChunk {
        writer_id: WriterId(writer),
        ..whole_packets(0, b"\x01a\x01b")
    };
    for writer in 1..=1500 {
        buffer.commit_chunk(&UntrustedChunk {
            complete: false,
            ..whole(writer)
        });
    }
    let mut successor = successor(&buffer);
    for writer in 1..=1500 {
        successor.commit_chunk(&whole(writer));
    }
    let unread = |buffer: &TraceBuffer| -> u64 {
        let all = buffer.all_packet_counts();
        all.map(|(_, _, counts)| counts.unread).sum()
    };
    assert_eq!((unread(&buffer), unread(&successor)), (1500, 1500));
}

#[test]
fn whole_packets_before_one_that_is_patched_are_read_at_once() {
    let patch = |offset_bytes| Patch {
        offset_bytes,
        data: [0x81, 0x80, 0x80, 0],
    };
    let runs = |patches: &[Patch]| {
        let mut buffer = TraceBuffer::new(4096, FillPolicy::Ring).unwrap();
        buffer.commit_chunk(&UntrustedChunk {
            fragment_count: 3,
            flags: ChunkFlags::LAST_PACKET_CONTINUES.union(ChunkFlags::NEEDS_PATCHING),
            ..whole_packets(0, b"\x03one\x03two\x06\x0a0000x")
        });
        buffer.commit_chunk(&UntrustedChunk {
            fragment_count: 1,
            flags: ChunkFlags::FIRST_PACKET_CONTINUES,
            ..whole_packets(1, b"\x01y")
        });
        let (producer, writer) = (ProducerId::new(1), WriterId(1));
        assert!(buffer.patch_chunk(producer, writer, ChunkId(0), patches, false));
        buffer.begin_read();
        let mut read = Vec::new();
        while let Some(packets) = buffer.read_packets() {
            read.push(match packets {
                Packets::Run(run) => (true, run.bytes().to_vec()),
                Packets::One(packet) => (false, packet.slices().collect::<Vec<_>>().concat()),
            });
        }
        assert_consistent(&buffer);
        read
    };
    let last = (false, b"\x0a\x81\x80\x80\0xy".to_vec());
    assert_eq!(
        runs(&[patch(10)]),
        [(true, b"\x03one\x03two".to_vec()), last.clone()]
    );
    // The first patch changes the packet `two`, which was counted when the chunk was stored. So the
    // packets are looked at one by one.
    let altered = runs(&[patch(4), patch(10)]);
    assert!(altered.iter().all(|(is_run, _)| !is_run), "{altered:?}");
}

#[test]
fn chunks_of_too_many_writers_are_discarded() {
    const PACKETS: &[u8] = b"\x03one\x03two";
    let writer = |number: usize| UntrustedChunk {
        // A connection has up to 32,767 writers.
        producer_id: ProducerId::new(1 + (number / 32_767) as u32),
        writer_id: WriterId(1 + (number % 32_767) as u16),
        ..whole_packets(0, PACKETS)
    };
    let mut buffer = TraceBuffer::new(4 << 20, FillPolicy::Ring).unwrap();
    (0..SEQUENCES_PER_BUFFER_MAX).for_each(|number| buffer.commit_chunk(&writer(number)));
    assert_eq!(buffer.stats().chunks_discarded, 0);
    let late = writer(SEQUENCES_PER_BUFFER_MAX);
    buffer.commit_chunk(&late);
    buffer.commit_chunk(&late);
    assert_eq!(buffer.stats().chunks_discarded, 2);
    assert_eq!(buffer.all_packet_counts().count(), SEQUENCES_PER_BUFFER_MAX);
    assert!(
        buffer
            .packet_counts(late.producer_id, late.writer_id)
            .is_none()
    );
    let next = ChunkId(1);
    assert!(!buffer.patch_chunk(late.producer_id, late.writer_id, next, &[], false));

    // The writers that are known go on, also in the buffer that replaces this one.
    let mut successor = successor(&buffer);
    for buffer in [&mut buffer, &mut successor] {
        buffer.commit_chunk(&late);
        buffer.commit_chunk(&whole_packets(1, PACKETS));
        assert_eq!(buffer.all_packet_counts().count(), SEQUENCES_PER_BUFFER_MAX);
        assert!(!losses_of_first_writer(buffer).is_empty());
    }
}

/// A chunk of `writer_id` without fragments.
fn empty_chunk(writer_id: u16, chunk_id: u32) -> UntrustedChunk<'static> {
    UntrustedChunk {
        writer_id: WriterId(writer_id),
        fragment_count: 0,
        ..whole_packets(chunk_id, &[])
    }
}

/// Checks the number of slots and the balance. Looks only once at each chunk.
fn assert_balanced(buffer: &TraceBuffer, slots: u64) {
    let ring = &buffer.ring;
    assert_eq!(u64::from(ring.end().count_from(ring.first())), slots);
    let balance = buffer.storage_balance();
    assert!(balance.is_even(), "{balance:?}");
}

#[test]
fn descriptors_take_no_more_memory_than_the_ring() {
    for mut buffer in [
        TraceBuffer::new(1 << 20, FillPolicy::Ring).unwrap(),
        // It has two segments, of which the first has room for all slots.
        TraceBuffer::growing(4 << 20).unwrap(),
    ] {
        let slots_max = buffer.capacity_bytes() / 64;
        buffer.commit_chunk(&whole_packets(0, b"\x03one\x03two"));
        for chunk_id in 0..2 * slots_max {
            buffer.commit_chunk(&empty_chunk(2, chunk_id as u32));
        }
        assert_balanced(&buffer, slots_max);
        assert_eq!(buffer.stats().chunks_overwritten, 1);
        assert_eq!(counts(&buffer).overwritten, 2);
        // A larger chunk takes the place of many.
        for chunk_id in 1..100 {
            let payload = [&[0xfe, 1][..], &[0; 254], b"\x03two"].concat();
            buffer.commit_chunk(&whole_packets(chunk_id, &payload));
        }
        // Each takes the place of 18 chunks without fragments.
        assert_balanced(&buffer, slots_max - 99 * 17);
        assert_eq!(losses_of_first_writer(&mut buffer).len(), 2 * 99);
    }
}

#[test]
fn full_buffer_with_too_many_chunks_discards() {
    const BUFFER_BYTES: u64 = 1 << 20;
    let mut buffer = TraceBuffer::new(BUFFER_BYTES, FillPolicy::Discard).unwrap();
    for chunk_id in 0..20_000 {
        buffer.commit_chunk(&empty_chunk(2, chunk_id));
    }
    assert!(buffer.is_full());
    let stored = BUFFER_BYTES / 64;
    let stats = buffer.stats();
    assert_eq!(
        (stats.chunks_written, stats.chunks_discarded),
        (stored, 20_000 - stored)
    );
    assert_balanced(&buffer, stored);
}

#[test]
fn sequences_give_back_the_memory_of_their_queues() {
    const RING_BYTES: u64 = 256 << 10;
    const SLOTS_MAX: usize = 4096;
    let mut buffer = TraceBuffer::new(RING_BYTES, FillPolicy::Ring).unwrap();
    for writer_id in 1..=100 {
        for chunk_id in 0..SLOTS_MAX as u32 {
            buffer.commit_chunk(&empty_chunk(writer_id, chunk_id));
        }
        // Each writer has one chunk left, so that its sequence is not forgotten.
        for earlier in 1..=writer_id {
            buffer.commit_chunk(&empty_chunk(
                earlier,
                SLOTS_MAX as u32 + u32::from(writer_id),
            ));
        }
    }
    let capacity = buffer.sequences.queue_capacity();
    assert!(capacity < 10 * SLOTS_MAX, "{capacity}");
}
