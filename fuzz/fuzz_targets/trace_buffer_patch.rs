//! Fuzzes the trace buffer with patches of any bytes at any offset of any chunk, between commits
//! and reads. A rejected patch only changes a counter. An accepted patch may destroy its own chunk,
//! whose packets then count as corrupted, but nothing else.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tracezero_core::commit::Patch;
use tracezero_core::shm::layout::ChunkFlags;
use tracezero_fuzz::audited_buffer::AuditedBuffer;
use tracezero_fuzz::choices::{Chunk, Payload, Shape, Writer};
use tracezero_service::trace_buffer::{ClientIdentity, UntrustedChunk};

#[derive(Arbitrary, Debug)]
struct Input {
    shape: Shape,
    actions: Vec<Action>,
}

#[derive(Arbitrary, Debug)]
enum Action {
    Commit {
        writer: Writer,
        chunk: Chunk,
        fragment_count: u8,
        flags: u8,
        is_incomplete: bool,
        payload: Payload,
    },
    Patch {
        writer: Writer,
        chunk: Chunk,
        patches: Vec<(u16, [u8; 4])>,
        has_more: bool,
    },
    /// Patches the size of one of the first fragments.
    PatchSize {
        writer: Writer,
        chunk: Chunk,
        offset_bytes: u8,
        size: u16,
    },
    /// Tells the buffer, without a patch, that no more patches will come.
    PatchesEnd {
        writer: Writer,
        chunk: Chunk,
    },
    Read {
        packets: u8,
    },
    ReadAll,
}

fuzz_target!(|input: Input| {
    let mut audited = AuditedBuffer::new(input.shape);
    for action in &input.actions {
        apply(&mut audited, action);
        audited.audit();
    }
    audited.read_all();
    audited.audit();
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
                fragment_count: u16::from(*fragment_count),
                flags: ChunkFlags::from_bits(*flags),
                complete: !is_incomplete,
                payload: &payload.bytes(),
            });
        }
        Action::Patch {
            writer,
            chunk,
            patches,
            has_more,
        } => {
            let patches: Vec<_> = patches
                .iter()
                .map(|&(offset_bytes, data)| Patch { offset_bytes, data })
                .collect();
            patch(audited, *writer, *chunk, &patches, *has_more);
        }
        Action::PatchSize {
            writer,
            chunk,
            offset_bytes,
            size,
        } => {
            let data = [
                *size as u8 | 0x80,
                (*size >> 7) as u8 | 0x80,
                (*size >> 14) as u8 | 0x80,
                0,
            ];
            let offset_bytes = u16::from(*offset_bytes);
            let patches = [Patch { offset_bytes, data }];
            patch(audited, *writer, *chunk, &patches, false);
        }
        Action::PatchesEnd { writer, chunk } => {
            let (producer_id, writer_id) = writer.ids();
            audited.patch_with_what_is_there(producer_id, writer_id, chunk.id(), &[], false);
        }
        Action::Read { packets } => {
            audited.begin_read();
            for _ in 0..*packets {
                if audited.read().is_none() {
                    break;
                }
            }
        }
        Action::ReadAll => {
            audited.read_all();
        }
    }
}

fn patch(
    audited: &mut AuditedBuffer,
    writer: Writer,
    chunk: Chunk,
    patches: &[Patch],
    has_more: bool,
) {
    let (producer_id, writer_id) = writer.ids();
    let balance = audited.buffer().storage_balance();
    let is_patched = audited.patch(producer_id, writer_id, chunk.id(), patches, has_more);
    // A patch neither allocates nor frees memory.
    assert_eq!(audited.buffer().storage_balance(), balance);
    let counts = audited.buffer().packet_counts(producer_id, writer_id);
    assert!(!is_patched || counts.is_some());
}
