//! The trace buffer under hostile producers: any commits and patches, with reading in between. It
//! never panics, and the accounts of packets close.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tracezero::commit::Patch;
use tracezero::ids::{ChunkId, ProducerId, WriterId};
use tracezero::service::trace_buffer::{ClientIdentity, FillPolicy, TraceBuffer, UntrustedChunk};
use tracezero::shm::layout::ChunkFlags;

#[derive(Arbitrary, Debug)]
struct Input {
    discards: bool,
    /// Size of the buffer in pages of 4096 bytes, less one.
    pages: u8,
    actions: Vec<Action>,
}

#[derive(Arbitrary, Debug)]
enum Action {
    Commit {
        writer: Writer,
        chunk: Chunk,
        fragment_count: u16,
        flags: u8,
        complete: bool,
        payload: Payload,
    },
    Patch {
        writer: Writer,
        chunk: Chunk,
        patches: Vec<(u16, [u8; 4])>,
        has_more: bool,
    },
    BeginRead,
    Read {
        packets: u8,
    },
    Clone,
}

/// One of few, so that chunks meet.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Writer(u8);

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Chunk {
    /// One of few.
    Near(u8),
    /// Around the wrap.
    AtTheWrap(i8),
    Any(u32),
}

#[derive(Arbitrary, Debug)]
enum Payload {
    Bytes(Vec<u8>),
    /// Well-formed fragments of these sizes.
    Fragments(Vec<u8>),
    /// More than fits in tiny inputs: `byte`, `len` times.
    Repeated {
        byte: u8,
        len: u16,
    },
}

impl Writer {
    fn ids(self) -> (ProducerId, WriterId) {
        (
            ProducerId(u16::from(self.0 & 1)),
            WriterId(u16::from(self.0 >> 1 & 3)),
        )
    }
}

impl Chunk {
    fn id(self) -> ChunkId {
        ChunkId(match self {
            Self::Near(id) => u32::from(id),
            Self::AtTheWrap(distance) => i32::from(distance) as u32,
            Self::Any(id) => id,
        })
    }
}

impl Payload {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Fragments(sizes) => sizes
                .iter()
                .flat_map(|&size| {
                    [vec![size & 0x7f], vec![0xab; usize::from(size & 0x7f)]].concat()
                })
                .collect(),
            Self::Repeated { byte, len } => vec![*byte; usize::from(*len)],
        }
    }
}

fuzz_target!(|input: Input| {
    let policy = if input.discards {
        FillPolicy::Discard
    } else {
        FillPolicy::Ring
    };
    let size_bytes = 4096 * (u64::from(input.pages % 8) + 1);
    let mut buffer = TraceBuffer::new(size_bytes, policy).expect("a small buffer");
    for action in &input.actions {
        apply(&mut buffer, action);
        assert!(buffer.used_bytes() <= buffer.size_bytes());
    }
    read_all(&mut buffer);
});

fn apply(buffer: &mut TraceBuffer, action: &Action) {
    match action {
        Action::Commit {
            writer,
            chunk,
            fragment_count,
            flags,
            complete,
            payload,
        } => {
            let (producer_id, writer_id) = writer.ids();
            buffer.commit_chunk(&UntrustedChunk {
                producer_id,
                client: ClientIdentity::default(),
                writer_id,
                chunk_id: chunk.id(),
                fragment_count: *fragment_count,
                flags: ChunkFlags::from_bits(*flags),
                complete: *complete,
                payload: &payload.bytes(),
            });
        }
        Action::Patch {
            writer,
            chunk,
            patches,
            has_more,
        } => {
            let (producer_id, writer_id) = writer.ids();
            let patches: Vec<Patch> = patches
                .iter()
                .map(|&(offset_bytes, data)| Patch { offset_bytes, data })
                .collect();
            let _ = buffer.patch_chunk(producer_id, writer_id, chunk.id(), &patches, *has_more);
        }
        Action::BeginRead => buffer.begin_read(),
        Action::Read { packets } => {
            for _ in 0..*packets {
                if !read_one(buffer) {
                    break;
                }
            }
        }
        Action::Clone => {
            let mut copy = buffer.clone_read_only().expect("a small buffer");
            read_all(&mut copy);
        }
    }
}

fn read_all(buffer: &mut TraceBuffer) {
    buffer.begin_read();
    while read_one(buffer) {}
}

fn read_one(buffer: &mut TraceBuffer) -> bool {
    let Some(packet) = buffer.read_packet() else {
        return false;
    };
    let len_bytes: usize = packet.slices().map(<[u8]>::len).sum();
    assert_eq!(len_bytes, packet.len_bytes());
    true
}
