//! Encodes and decodes commits, by which a producer sends chunks and patches to a daemon.

use protozero::DecodeError;
use tracezero_core::commit::{ChunkToMove, ChunkToPatch, CommitRequest, Patch};
use tracezero_core::ids::{BufferId, ChunkId, FlushId, WriterId};
use tracezero_core::shm::{ChunkPlace, PacketsWord};

use super::{buffer_id, writer_id};
use crate::protos::commit_data_request::{ChunkToPatchDecoder, ChunksToMoveDecoder};
use crate::protos::{CommitDataRequest, CommitDataRequestDecoder};
use crate::wire::encoded;

/// The size of a chunk's header, in bytes.
const CHUNK_HEADER_BYTES: usize = 8;

/// The maximum number of patches in one entry of a commit. A daemon ignores an entry with
/// more patches.
const PATCHES_MAX: usize = 1024;

/// Encodes [`Method::CommitData`](super::Method::CommitData) that finishes a flush.
#[must_use]
pub fn flush_done(flush: FlushId) -> Vec<u8> {
    encoded::<CommitDataRequest<'_>>(|out| {
        out.set_flush_request_id(flush.0);
    })
}

/// The maximum total size of the chunks that one frame commits, in bytes. A daemon handles some
/// frames of each producer in turn. If frames brought megabytes, other producers could overwrite a
/// ring before the next turn of this producer. A packet that continues in the next frame would then
/// be lost.
const MOVED_MAX_BYTES: u32 = 128 * 1024;

/// The minimum size that is counted for a chunk, even if its payload is smaller. An encoded entry
/// of a chunk has at most 20 bytes, so the entries of many empty chunks fit into a frame.
const MOVE_BYTES: u32 = 32;

/// Encodes [`Method::CommitData`](super::Method::CommitData) for chunks. Calls `each` with the requests,
/// in order: one, or several if the chunks have more than 128 KiB.
pub fn commit_moves(chunks_to_move: &[ChunkToMove], mut each: impl FnMut(&[u8])) {
    let mut rest = chunks_to_move;
    while !rest.is_empty() {
        let mut bytes = 0;
        let mut fits = |chunk: &ChunkToMove| {
            bytes += chunk.payload_bytes.max(MOVE_BYTES);
            bytes <= MOVED_MAX_BYTES
        };
        // A chunk that is larger than the maximum gets a frame of its own.
        let count = rest.iter().take_while(|chunk| fits(chunk)).count().max(1);
        let (moves, behind) = rest.split_at(count);
        each(&encoded::<CommitDataRequest<'_>>(|out| {
            for chunk in moves {
                write_move(chunk, out);
            }
        }));
        rest = behind;
    }
}

/// Patches for one chunk, which the daemon applies to its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchedChunk<'a> {
    /// The writer of the chunk.
    pub writer_id: WriterId,
    /// The position of the chunk in the writer's sequence.
    pub chunk_id: ChunkId,
    /// The trace buffer that the chunk went to.
    pub target_buffer: BufferId,
    /// The patches, in the order of their offsets in the chunk.
    pub patches: &'a [Patch],
    /// True if more patches for this chunk follow in a later commit.
    pub has_more_patches: bool,
}

/// Encodes [`Method::CommitData`](super::Method::CommitData) for patches. Calls `each` with the requests,
/// in order: one, or several if there are more patches than a daemon applies at once.
pub fn commit_patches(patched: &PatchedChunk<'_>, mut each: impl FnMut(&[u8])) {
    let mut parts = patched.patches.chunks(PATCHES_MAX).peekable();
    while let Some(patches) = parts.next() {
        let has_more_patches = patched.has_more_patches || parts.peek().is_some();
        each(&encoded::<CommitDataRequest<'_>>(|out| {
            let part = PatchedChunk {
                patches,
                has_more_patches,
                ..*patched
            };
            write_patches(&part, out);
        }));
    }
}

/// A chunk of memory that the daemon cannot map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkData<'a> {
    /// Where the chunk is in the producer's memory.
    pub place: ChunkPlace,
    /// The trace buffer for its packets.
    pub target_buffer: BufferId,
    /// The writer of the chunk.
    pub writer_id: WriterId,
    /// The position of the chunk in the writer's sequence.
    pub chunk_id: ChunkId,
    /// The fragment count and flags.
    pub packets: PacketsWord,
    /// The bytes behind the header.
    pub payload: &'a [u8],
    /// False if the writer goes on writing to the chunk, so that its last fragment is not finished.
    pub is_complete: bool,
}

/// Encodes [`Method::CommitData`](super::Method::CommitData) with the bytes of a chunk.
#[must_use]
pub fn commit_chunk_data(chunk: &ChunkData<'_>) -> Vec<u8> {
    // The header is encoded as it is in shared memory: chunk id, writer id, packets word.
    let mut data = Vec::with_capacity(CHUNK_HEADER_BYTES + chunk.payload.len());
    data.extend_from_slice(&chunk.chunk_id.0.to_le_bytes());
    data.extend_from_slice(&chunk.writer_id.0.to_le_bytes());
    data.extend_from_slice(&chunk.packets.bits().to_le_bytes());
    data.extend_from_slice(chunk.payload);
    encoded::<CommitDataRequest<'_>>(|out| {
        out.add_chunks_to_move(|out| {
            out.set_page(chunk.place.page_index);
            out.set_chunk(chunk.place.chunk_index.into());
            out.set_target_buffer(chunk.target_buffer.0.into());
            out.set_data(&data);
            out.set_chunk_incomplete(!chunk.is_complete);
        });
    })
}

fn write_move(chunk: &ChunkToMove, out: &mut CommitDataRequest<'_>) {
    out.add_chunks_to_move(|out| {
        out.set_page(chunk.page_index);
        out.set_chunk(chunk.chunk_index.into());
        out.set_target_buffer(chunk.target_buffer.0.into());
    });
}

fn write_patches(patched: &PatchedChunk<'_>, out: &mut CommitDataRequest<'_>) {
    out.add_chunks_to_patch(|out| {
        out.set_target_buffer(patched.target_buffer.0.into());
        out.set_writer_id(patched.writer_id.0.into());
        out.set_chunk_id(patched.chunk_id.0);
        for patch in patched.patches {
            out.add_patches(|out| {
                out.set_offset(patch.offset_bytes.into());
                out.set_data(&patch.data);
            });
        }
        out.set_has_more_patches(patched.has_more_patches);
    });
}

/// An encoded commit.
#[derive(Clone, Debug)]
pub struct Commit<'a>(CommitDataRequestDecoder<'a>);

impl<'a> Commit<'a> {
    pub(super) fn new(args: &'a [u8]) -> Self {
        Self(CommitDataRequestDecoder::new(args))
    }

    /// Decodes the commit into `request`, whose previous content is discarded. If the producer's
    /// memory is on another machine, the commit contains the bytes of the chunks. Such chunks are
    /// passed to `with_data` instead, before the patches are decoded.
    ///
    /// Leaves out entries without a possible chunk, writer or buffer. Returns the number of entries
    /// that are left out.
    ///
    /// # Errors
    ///
    /// If the commit is malformed.
    pub fn decode(
        &self,
        request: &mut CommitRequest,
        mut with_data: impl FnMut(&ChunkData<'_>),
    ) -> Result<usize, DecodeError> {
        request.chunks_to_move.clear();
        request.chunks_to_patch.clear();
        let mut left_out = 0;
        for chunk in self.0.chunks_to_move() {
            let chunk = chunk?;
            let place = moved(&chunk)?;
            match (place, chunk.data()?) {
                (Some(place), None) => request.chunks_to_move.push(place),
                (Some(place), Some(data)) => match chunk_data(&place, &chunk, data)? {
                    Some(chunk) => with_data(&chunk),
                    None => left_out += 1,
                },
                (None, _) => left_out += 1,
            }
        }
        for chunk in self.0.chunks_to_patch() {
            match patched(&chunk?)? {
                Some(chunk) => request.chunks_to_patch.push(chunk),
                None => left_out += 1,
            }
        }
        Ok(left_out)
    }

    /// Returns the flush that the commit finishes, if it finishes one.
    ///
    /// # Errors
    ///
    /// If the commit is malformed.
    pub fn flush(&self) -> Result<Option<FlushId>, DecodeError> {
        let flush = self.0.flush_request_id()?;
        Ok(flush.filter(|flush| *flush > 0).map(FlushId))
    }
}

fn moved(chunk: &ChunksToMoveDecoder<'_>) -> Result<Option<ChunkToMove>, DecodeError> {
    let chunk_index = u8::try_from(chunk.chunk()?.unwrap_or_default());
    let target_buffer = buffer_id(chunk.target_buffer()?);
    let page_index = chunk.page()?.unwrap_or_default();
    Ok(chunk_index
        .ok()
        .zip(target_buffer)
        .map(|(chunk_index, target_buffer)| ChunkToMove {
            page_index,
            chunk_index,
            target_buffer,
            payload_bytes: 0,
        }))
}

/// Decodes a chunk whose bytes are in the commit. Returns `None` if the bytes are shorter than a
/// header, or longer than 64 KiB - 1.
fn chunk_data<'a>(
    place: &ChunkToMove,
    chunk: &ChunksToMoveDecoder<'_>,
    data: &'a [u8],
) -> Result<Option<ChunkData<'a>>, DecodeError> {
    let Some((&[i0, i1, i2, i3, w0, w1, p0, p1], payload)) = data.split_first_chunk() else {
        return Ok(None);
    };
    if data.len() > usize::from(u16::MAX) {
        return Ok(None);
    }
    Ok(Some(ChunkData {
        place: ChunkPlace {
            page_index: place.page_index,
            chunk_index: place.chunk_index,
        },
        target_buffer: place.target_buffer,
        writer_id: WriterId(u16::from_le_bytes([w0, w1])),
        chunk_id: ChunkId(u32::from_le_bytes([i0, i1, i2, i3])),
        packets: PacketsWord::from_bits(u16::from_le_bytes([p0, p1])),
        payload,
        is_complete: !chunk.chunk_incomplete()?.unwrap_or_default(),
    }))
}

fn patched(chunk: &ChunkToPatchDecoder<'_>) -> Result<Option<ChunkToPatch>, DecodeError> {
    let writer_id = writer_id(chunk.writer_id()?);
    let target_buffer = buffer_id(chunk.target_buffer()?);
    let Some((writer_id, target_buffer)) = writer_id.zip(target_buffer) else {
        return Ok(None);
    };
    let mut patches = Vec::new();
    for patch in chunk.patches() {
        let patch = patch?;
        let offset_bytes = u16::try_from(patch.offset()?.unwrap_or_default());
        let data = patch.data()?.unwrap_or_default().try_into();
        let (Ok(offset_bytes), Ok(data)) = (offset_bytes, data) else {
            return Ok(None);
        };
        patches.push(Patch { offset_bytes, data });
    }
    Ok(Some(ChunkToPatch {
        writer_id,
        chunk_id: ChunkId(chunk.chunk_id()?.unwrap_or_default()),
        target_buffer,
        patches,
        has_more_patches: chunk.has_more_patches()?.unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FRAME_MAX_BYTES;

    #[test]
    fn a_commit_is_split_into_frames() {
        let chunk = ChunkToMove {
            page_index: u32::MAX,
            chunk_index: 13,
            target_buffer: BufferId(u16::MAX),
            payload_bytes: 0,
        };
        let patch = Patch {
            offset_bytes: u16::MAX,
            data: [0x80; 4],
        };
        let patched = PatchedChunk {
            writer_id: WriterId::MAX,
            chunk_id: ChunkId(u32::MAX),
            target_buffer: BufferId(u16::MAX),
            patches: &vec![patch; 2 * PATCHES_MAX + 1],
            has_more_patches: false,
        };
        let mut moves = 0;
        commit_moves(&vec![chunk; 20_000], |bytes| {
            assert!(bytes.len() + 64 < FRAME_MAX_BYTES);
            moves += CommitDataRequestDecoder::new(bytes)
                .chunks_to_move()
                .count();
        });
        let (mut patches, mut finished) = (0, 0);
        commit_patches(&patched, |bytes| {
            assert!(bytes.len() + 64 < FRAME_MAX_BYTES);
            let decoded = CommitDataRequestDecoder::new(bytes);
            for patched in decoded.chunks_to_patch().map(Result::unwrap) {
                patches += patched.patches().count();
                finished += usize::from(patched.has_more_patches() == Ok(Some(false)));
            }
        });
        assert_eq!((moves, patches, finished), (20_000, 2049, 1));
    }

    #[test]
    fn the_bytes_of_a_chunk_begin_with_its_header() {
        let chunk = ChunkData {
            place: ChunkPlace {
                page_index: 3,
                chunk_index: 2,
            },
            target_buffer: BufferId(7),
            writer_id: WriterId(0x0506),
            chunk_id: ChunkId(0x0102_0304),
            packets: PacketsWord::from_bits(0x0809),
            payload: b"payload",
            is_complete: false,
        };
        let bytes = commit_chunk_data(&chunk);
        let decoded = CommitDataRequestDecoder::new(&bytes);
        let moved = decoded.chunks_to_move().next().unwrap().unwrap();
        let numbers = (moved.page(), moved.chunk(), moved.target_buffer());
        assert_eq!(numbers, (Ok(Some(3)), Ok(Some(2)), Ok(Some(7))));
        let data: &[u8] = b"\x04\x03\x02\x01\x06\x05\x09\x08payload";
        assert_eq!(moved.data(), Ok(Some(data)));
        assert_eq!(moved.chunk_incomplete(), Ok(Some(true)));
    }

    #[test]
    fn commits_are_decoded_as_producers_encode_them() {
        let moved = ChunkToMove {
            page_index: u32::MAX,
            chunk_index: 13,
            target_buffer: BufferId(u16::MAX),
            payload_bytes: 0,
        };
        let patches = vec![Patch {
            offset_bytes: 7,
            data: [0x80; 4],
        }];
        let patched = PatchedChunk {
            writer_id: WriterId::MAX,
            chunk_id: ChunkId(9),
            target_buffer: BufferId(1),
            patches: &patches,
            has_more_patches: true,
        };
        let mut args = Vec::new();
        commit_moves(&[moved; 2], |bytes| args.extend_from_slice(bytes));
        commit_patches(&patched, |bytes| args.extend_from_slice(bytes));
        args.extend(flush_done(FlushId(5)));
        let commit = Commit::new(&args);
        let mut request = CommitRequest::default();
        let with_data = |chunk: &ChunkData<'_>| panic!("{chunk:?}");
        assert_eq!(commit.decode(&mut request, with_data), Ok(0));
        assert_eq!(request.chunks_to_move, [moved; 2]);
        let expected = ChunkToPatch {
            writer_id: WriterId::MAX,
            chunk_id: ChunkId(9),
            target_buffer: BufferId(1),
            patches,
            has_more_patches: true,
        };
        assert_eq!(request.chunks_to_patch, [expected]);
        assert_eq!(commit.flush(), Ok(Some(FlushId(5))));
    }

    #[test]
    fn numbers_that_nothing_has_are_left_out() {
        // The entries have, in order: chunk 256, buffer 65,536, no buffer, writer 0, and a patch of
        // three bytes.
        let args = b"\x0a\x07\x08\x00\x10\x80\x02\x18\x01\
            \x0a\x08\x08\x00\x10\x00\x18\x80\x80\x04\
            \x0a\x04\x08\x00\x10\x00\
            \x12\x06\x08\x01\x10\x00\x18\x00\
            \x12\x0d\x08\x01\x10\x01\x18\x00\x22\x05\x12\x03abc";
        let mut request = CommitRequest::default();
        let commit = Commit::new(args);
        let with_data = |chunk: &ChunkData<'_>| panic!("{chunk:?}");
        assert_eq!(commit.decode(&mut request, with_data), Ok(5));
        assert!(request.is_empty());
    }

    #[test]
    fn bytes_of_chunks_are_decoded_as_producers_encode_them() {
        let chunk = ChunkData {
            place: ChunkPlace {
                page_index: 3,
                chunk_index: 2,
            },
            target_buffer: BufferId(7),
            writer_id: WriterId(5),
            chunk_id: ChunkId(0x0102_0304),
            packets: PacketsWord::from_bits(0x0809),
            payload: b"payload",
            is_complete: false,
        };
        let largest = vec![0; usize::from(u16::MAX) - 8];
        let too_large = vec![0; usize::from(u16::MAX) - 7];
        for (payload, left_out) in [
            (&b"payload"[..], 0),
            (&[], 0),
            (&largest, 0),
            (&too_large, 1),
        ] {
            let chunk = ChunkData { payload, ..chunk };
            let args = commit_chunk_data(&chunk);
            let commit = Commit::new(&args);
            let mut request = CommitRequest::default();
            let mut received = 0;
            let decoded = commit.decode(&mut request, |decoded| {
                assert_eq!(*decoded, chunk);
                received += 1;
            });
            assert_eq!((decoded, received), (Ok(left_out), 1 - left_out));
            assert!(request.is_empty());
        }
    }
}
