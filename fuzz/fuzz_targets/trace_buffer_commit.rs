//! Fuzzes the trace buffer with chunks of any content, header and order. Every chunk, byte and
//! packet is accounted for. An observer of overwritten packets is shown no more packets than the
//! buffer counts as overwritten.
#![no_main]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_fuzz::audited_buffer::AuditedBuffer;
use tracezero_fuzz::choices::{Chunk, Payload, Shape, Writer};
use tracezero_service::trace_buffer::{ClientIdentity, Overwritten, Packet, UntrustedChunk};

#[derive(Arbitrary, Debug)]
struct Input {
    shape: Shape,
    observes: bool,
    actions: Vec<Action>,
}

#[derive(Arbitrary, Debug)]
enum Action {
    Commit {
        writer: Writer,
        chunk: Chunk,
        fragment_count: u16,
        flags: u8,
        is_incomplete: bool,
        payload: Payload,
    },
    /// Commits consecutive chunks of one writer, whose headers match their content.
    CommitRow {
        writer: Writer,
        first: Chunk,
        count: u8,
        flags: u8,
        sizes: Vec<u8>,
    },
    Read {
        packets: u8,
    },
}

fuzz_target!(|input: Input| {
    let mut audited = AuditedBuffer::new(input.shape);
    // Relaxed: there is only one thread, so there is no other memory to order.
    let [shown, kept] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    if input.observes {
        let (shown, kept) = (Arc::clone(&shown), Arc::clone(&kept));
        audited
            .buffer()
            .observe_overwrites(move |packet: &Packet<'_>| {
                let len_bytes = packet.slices().map(<[u8]>::len).sum::<usize>();
                assert_eq!(len_bytes, packet.len_bytes());
                shown.fetch_add(1, Ordering::Relaxed);
                if len_bytes % 2 == 0 {
                    return Overwritten::Lost;
                }
                kept.fetch_add(1, Ordering::Relaxed);
                Overwritten::Folded
            });
    }
    for action in &input.actions {
        apply(&mut audited, action);
        audited.audit();
    }
    audited.read_all();
    audited.audit();
    let counts = audited.buffer().all_packet_counts();
    let (overwritten, folded) = counts.fold((0, 0), |sum, (_, _, counts)| {
        (sum.0 + counts.overwritten, sum.1 + counts.folded)
    });
    assert_eq!(kept.load(Ordering::Relaxed), folded);
    assert!(shown.load(Ordering::Relaxed) <= overwritten + folded);
});

fn apply(audited: &mut AuditedBuffer, action: &Action) {
    match action {
        Action::Commit {
            writer,
            chunk,
            fragment_count,
            flags,
            is_incomplete,
            payload,
        } => {
            let (producer_id, writer_id) = writer.ids();
            audited.commit(&UntrustedChunk {
                producer_id,
                client: ClientIdentity::default(),
                writer_id,
                chunk_id: chunk.id(),
                fragment_count: *fragment_count,
                flags: ChunkFlags::from_bits(*flags),
                complete: !is_incomplete,
                payload: &payload.bytes(),
            });
        }
        Action::CommitRow {
            writer,
            first,
            count,
            flags,
            sizes,
        } => {
            let (producer_id, writer_id) = writer.ids();
            let payload = Payload::Fragments(sizes.clone()).bytes();
            let mut chunk_id = first.id();
            for _ in 0..*count % 64 {
                audited.commit(&UntrustedChunk {
                    producer_id,
                    client: ClientIdentity::default(),
                    writer_id,
                    chunk_id,
                    fragment_count: sizes.len() as u16,
                    flags: ChunkFlags::from_bits(*flags),
                    complete: true,
                    payload: &payload,
                });
                chunk_id = chunk_id.next();
            }
        }
        Action::Read { packets } => {
            audited.begin_read();
            for _ in 0..*packets {
                if audited.read().is_none() {
                    break;
                }
            }
        }
    }
}
