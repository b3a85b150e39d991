use super::super::testing::{BUFFER, Setup};
use super::*;
use crate::TraceWriter;
use tracezero_core::commit::{ChunkToMove, CommitRequest};
use tracezero_core::ids::ChunkId;
use tracezero_core::shm::{ChunkFlags, ChunkPlace};

const WRITER: WriterId = WriterId(1);

fn header(chunk_id: u32) -> NewChunk {
    NewChunk {
        writer_id: WRITER,
        chunk_id: ChunkId(chunk_id),
        flags: ChunkFlags::NONE,
    }
}

fn acquire(arbiter: &Arbiter, chunk_id: u32) -> Option<WritableChunk> {
    arbiter.acquire_chunk(
        header(chunk_id),
        ChunkSize::Page,
        BufferExhaustedPolicy::Drop,
        None,
    )
}

fn return_chunk(arbiter: &Arbiter, chunk: WritableChunk, target_buffer: BufferId) {
    arbiter.return_chunk(
        chunk,
        WRITER,
        target_buffer,
        &mut PatchList::default(),
        &mut CommitBuilder::default(),
    );
}

fn moves(request: &CommitRequest) -> Vec<(u32, u8, u16)> {
    request
        .chunks_to_move
        .iter()
        .map(|chunk: &ChunkToMove| (chunk.page_index, chunk.chunk_index, chunk.target_buffer.0))
        .collect()
}

#[test]
fn chunks_fill_pages_in_order_and_commit_in_return_order() {
    for page_size_bytes in [4096, 65536] {
        let (arbiter, service) = Setup {
            page_size_bytes,
            layout: PageLayout::Fourteen,
            is_slow: true,
            ..Setup::default()
        }
        .build();
        let mut chunks: Vec<_> = (0..30)
            .map(|chunk_id| Some(acquire(&arbiter, chunk_id).unwrap()))
            .collect();
        for (index, chunk) in (0..).zip(&chunks) {
            let place = ChunkPlace {
                page_index: index / 14,
                chunk_index: (index % 14) as u8,
            };
            assert_eq!(chunk.as_ref().unwrap().place(), place);
        }
        // Swapped in pairs: 1, 0, 3, 2, and so on. The last chunk is not returned.
        let order: Vec<u16> = (0..28).map(|index| index ^ 1).chain([28]).collect();
        for index in &order {
            let chunk = chunks[usize::from(*index)].take().unwrap();
            return_chunk(&arbiter, chunk, BufferId(index + 1));
        }
        let expected: Vec<_> = order
            .iter()
            .map(|index| (u32::from(index / 14), (index % 14) as u8, index + 1))
            .collect();
        let committed: Vec<_> = service.requests().iter().flat_map(moves).collect();
        assert_eq!(committed, expected);
    }
}

#[test]
fn a_commit_reaches_the_service_before_the_chunk_is_returned() {
    let (arbiter, service) = Setup::default().build();
    for index in 0..3 {
        let chunk = acquire(&arbiter, index).unwrap();
        return_chunk(&arbiter, chunk, BUFFER);
        assert_eq!(service.requests().len(), index as usize + 1);
        assert_eq!(service.page_word_bits(0), 0);
    }
}

#[test]
fn drop_policy_gets_no_chunk_until_service_frees_one() {
    let (arbiter, service) = Setup {
        is_slow: true,
        ..Setup::default()
    }
    .build();
    let mut chunks: Vec<_> = (0..14)
        .map(|chunk_id| acquire(&arbiter, chunk_id).unwrap())
        .collect();
    assert!(acquire(&arbiter, 14).is_none());
    return_chunk(&arbiter, chunks.pop().unwrap(), BUFFER);
    assert!(acquire(&arbiter, 14).is_none());
    service.take_commits();
    assert!(acquire(&arbiter, 14).is_some());
}

#[test]
fn a_stalled_writer_gets_the_chunk_that_another_thread_frees() {
    let (arbiter, service) = Setup {
        pages: 1,
        stall_limit: Duration::from_secs(30),
        is_slow: true,
        ..Setup::default()
    }
    .build();
    for policy in [
        BufferExhaustedPolicy::Stall,
        BufferExhaustedPolicy::StallThenDrop,
    ] {
        let chunk = acquire(&arbiter, 0).unwrap();
        std::thread::scope(|scope| {
            let stalled =
                scope.spawn(|| arbiter.acquire_chunk(header(1), ChunkSize::Page, policy, None));
            std::thread::sleep(Duration::from_millis(2));
            assert!(!stalled.is_finished());
            return_chunk(&arbiter, chunk, BUFFER);
            service.take_commits();
            let chunk = stalled.join().unwrap().unwrap();
            return_chunk(&arbiter, chunk, BUFFER);
            service.take_commits();
        });
    }
}

#[test]
fn a_stalled_writer_blocks_nobody() {
    let (arbiter, _service) = Setup {
        pages: 1,
        stall_limit: Duration::from_secs(3600),
        ..Setup::default()
    }
    .build();
    let held = acquire(&arbiter, 0).unwrap();
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| {
            arbiter.acquire_chunk(
                header(1),
                ChunkSize::Page,
                BufferExhaustedPolicy::Stall,
                None,
            )
        });
        // While the other thread sleeps, it does not hold the lock.
        for _ in 0..20 {
            assert!(acquire(&arbiter, 2).is_none());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!stalled.is_finished());
        return_chunk(&arbiter, held, BUFFER);
        assert!(stalled.join().unwrap().is_some());
    });
}

#[test]
fn a_stalled_writer_gives_up_when_its_time_is_up() {
    let (arbiter, _service) = Setup {
        pages: 1,
        stall_limit: Duration::from_millis(20),
        ..Setup::default()
    }
    .build();
    let _held = acquire(&arbiter, 0).unwrap();
    let stalled = arbiter.acquire_chunk(
        header(1),
        ChunkSize::Page,
        BufferExhaustedPolicy::Stall,
        None,
    );
    assert!(stalled.is_none());
}

#[test]
fn four_thousand_writers_register_under_distinct_ids() {
    let (arbiter, service) = Setup::default().build();
    let writers: Vec<_> = (1..=4096)
        .map(|id| {
            let writer = TraceWriter::new(&arbiter, BufferId(id), BufferExhaustedPolicy::Drop);
            assert_eq!(writer.writer_id(), Some(WriterId(id)));
            writer
        })
        .collect();
    let expected: Vec<_> = (1..=4096).map(|id| (WriterId(id), BufferId(id))).collect();
    assert_eq!(service.registered(), expected);
    drop(writers);
    let mut unregistered = service.unregistered();
    unregistered.sort_unstable();
    assert_eq!(unregistered, (1..=4096).map(WriterId).collect::<Vec<_>>());
}

#[test]
fn packets_of_forty_thousand_successive_writers_all_arrive() {
    const WRITERS: u64 = 40_000;
    let (arbiter, service) = Setup::default().build();
    for number in 0..WRITERS {
        let mut writer = TraceWriter::new(&arbiter, BUFFER, BufferExhaustedPolicy::Drop);
        writer.packet(|packet| packet.append_uint64::<1>(number));
    }
    // `whole_packets` asserts that each writer id's chunks are numbered without a gap.
    let ids = 1..=WriterId::MAX.0;
    let packets: Vec<_> = ids
        .map(|id| service.whole_packets(WriterId(id)).len())
        .collect();
    let reused = WRITERS as usize - packets.len();
    assert!(packets[..reused].iter().all(|&packets| packets == 2));
    assert!(packets[reused..].iter().all(|&packets| packets == 1));
}

#[test]
fn shutdown_waits_for_writers_and_later_ones_drop_all() {
    let (arbiter, service) = Setup::default().build();
    let writer = TraceWriter::new(&arbiter, BUFFER, BufferExhaustedPolicy::Drop);
    assert!(!arbiter.try_shutdown());
    let mut late = TraceWriter::new(&arbiter, BUFFER, BufferExhaustedPolicy::Drop);
    assert_eq!(late.writer_id(), None);
    for _ in 0..10_000 {
        late.packet(|packet| packet.append_string::<1>("nobody reads this"));
    }
    late.flush();
    assert_eq!(late.packet_counts().packets_begun, 10_000);
    assert_eq!(late.packet_counts().packets_dropped, 10_000);
    assert!(!arbiter.try_shutdown());
    drop(writer);
    assert!(arbiter.try_shutdown());
    assert!(service.requests().is_empty());
    drop(late);
    assert_eq!(service.registered().len(), 1);
    assert_eq!(service.unregistered().len(), 1);
}

#[test]
fn a_writer_for_no_buffer_drops_everything_without_an_id() {
    let (arbiter, service) = Setup::default().build();
    let mut writer = TraceWriter::new(&arbiter, BufferId(0), BufferExhaustedPolicy::Drop);
    writer.packet(|packet| packet.append_bool::<1>(true));
    assert_eq!(writer.writer_id(), None);
    assert_eq!(writer.packet_counts().packets_dropped, 1);
    assert!(service.registered().is_empty());
}

#[test]
fn totals_keep_the_counts_of_dropped_writers() {
    let (arbiter, _service) = Setup::default().build();
    let mut writer = TraceWriter::new(&arbiter, BUFFER, BufferExhaustedPolicy::Drop);
    let id = writer.writer_id();
    writer.packet(|packet| packet.append_bool::<1>(true));
    writer.packet(|_| ());
    let living = arbiter.writer_totals();
    drop(writer);
    assert_eq!(arbiter.writer_totals(), living);
    assert_eq!((living[0].writer_id, living[0].target_buffer), (id, BUFFER));
    assert_eq!(living[0].counts.packets_begun, 2);
    assert_eq!(living[0].counts.packets_empty, 1);
    arbiter.forget_buffer(BUFFER);
    assert!(arbiter.writer_totals().is_empty());
}
