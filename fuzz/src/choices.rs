use arbitrary::Arbitrary;
use tracezero_core::ids::{ChunkId, ProducerId, WriterId};
use tracezero_service::trace_buffer::FillPolicy;

/// The shape of the buffer of one run. The buffer is small, so that it wraps.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Shape {
    discards: bool,
    pages: u8,
}

impl Shape {
    /// Returns a size of one to eight pages of 4096 bytes.
    pub fn size_bytes(self) -> u64 {
        4096 * (u64::from(self.pages % 8) + 1)
    }

    /// Returns the fill policy.
    pub fn policy(self) -> FillPolicy {
        if self.discards {
            FillPolicy::Discard
        } else {
            FillPolicy::Ring
        }
    }
}

/// One of eight writers, of two producers.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Writer(u8);

impl Writer {
    /// Returns the ids. They include 0, which no real writer has.
    pub fn ids(self) -> (ProducerId, WriterId) {
        (
            ProducerId::new(u32::from(self.0 & 1) << 16),
            WriterId(u16::from(self.0 >> 1 & 3)),
        )
    }
}

/// A chunk id.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Chunk {
    /// One of the first 256 ids.
    Near(u8),
    /// An id shortly before or after the wrap.
    AtTheWrap(i8),
    /// Any id.
    Any(u32),
}

impl Chunk {
    /// Returns the id.
    pub fn id(self) -> ChunkId {
        ChunkId(match self {
            Self::Near(id) => u32::from(id),
            Self::AtTheWrap(distance) => i32::from(distance) as u32,
            Self::Any(id) => id,
        })
    }
}

/// The bytes of a chunk.
#[derive(Arbitrary, Clone, Debug)]
pub enum Payload {
    /// Any bytes, which mostly are no fragments.
    Bytes(Vec<u8>),
    /// Fragments of these sizes, up to 127 bytes each.
    Fragments(Vec<u8>),
    /// Fragments of these sizes, with headers of four bytes, which are used for lengths that are
    /// patched.
    LateFragments(Vec<u16>),
    /// One byte, repeated; possibly more than a chunk may have.
    Repeated {
        /// The byte.
        byte: u8,
        /// The number of repetitions, limited to 70,000.
        len: u32,
    },
}

impl Payload {
    /// Returns the bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Fragments(sizes) => sizes
                .iter()
                .flat_map(|&size| {
                    let size = size & 0x7f;
                    [vec![size], vec![0xab; usize::from(size)]].concat()
                })
                .collect(),
            Self::LateFragments(sizes) => sizes
                .iter()
                .flat_map(|&size| {
                    let size = size % 1024;
                    let header = [size as u8 | 0x80, (size >> 7) as u8 | 0x80, 0x80, 0];
                    [header.to_vec(), vec![0xcd; usize::from(size)]].concat()
                })
                .collect(),
            Self::Repeated { byte, len } => vec![*byte; *len as usize % 70_000],
        }
    }
}
