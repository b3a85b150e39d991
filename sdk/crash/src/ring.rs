//! The slots of a ring.
//!
//! Slots lie back to back, so a walk goes from header to header. A place has no valid header if it
//! was never written, if it is damaged, or if the process was writing it when it was killed. There,
//! the walk continues at the next aligned offset with a valid header.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use tracezero_core::crash_files::format::{
    HEADER_BYTES, Place, RingHeader, SLOT_HEADER_BYTES, SlotHeader, SlotKind, ring_words,
};
use tracezero_core::ids::{BufferId, ChunkId, WriterId};
use tracezero_core::shm::ABANDONED_FRAGMENT_SIZE;
use tracezero_service::trace_buffer::{ClientIdentity, TraceBuffer, UntrustedChunk};

use crate::memory::PRODUCER;
use crate::settled::{SettledRing, is_before, settled_ring, zero_bytes};

/// The maximum number of bytes that are read from the file at once. It is at least the size of a
/// slot.
const WINDOW_BYTES: usize = 1 << 20;

/// The divisors of the ring's size for the attempts to copy a ring while its process changes it.
/// The first attempt copies the whole ring, the second one the newest quarter, and so on.
const RING_PARTS: [u32; 4] = [1, 4, 16, 64];

/// A ring in a file.
#[derive(Debug)]
pub(crate) struct RingFile {
    content: Content,
    pub(crate) header: RingHeader,
    pub(crate) buffer_id: BufferId,
    pub(crate) has_evicted: bool,
    pub(crate) is_sealed: bool,
    place: Place,
    /// The size of all segments.
    size_bytes: u32,
}

/// The bytes of a file.
#[derive(Debug)]
enum Content {
    File(File),
    Copy(Vec<u8>),
}

impl Content {
    fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Copy(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(out, at),
            Self::Copy(bytes) => {
                let from = bytes
                    .get(at as usize..)
                    .and_then(|rest| rest.get(..out.len()));
                out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

impl RingFile {
    /// Reads the header. Returns `None` if it is damaged, or belongs to a folder with another
    /// nonce.
    pub(crate) fn open(file: File, nonce: u64) -> io::Result<Option<Self>> {
        Self::of_content(Content::File(file), nonce)
    }

    /// Copies a file that its process may be changing, and reads the header of the copy like
    /// [`open`](Self::open).
    ///
    /// A process may overwrite its ring faster than the whole ring can be copied. In this case,
    /// this method also copies smaller parts, which end at the place that the process is writing.
    /// Uses the part with the most bytes of chunks that stayed in their places meanwhile.
    pub(crate) fn open_changing(file: File, nonce: u64) -> io::Result<Option<Self>> {
        let mut best: Option<SettledRing> = None;
        for part in RING_PARTS {
            let Some(ring) = Self::open(file.try_clone()?, nonce)? else {
                return Ok(None);
            };
            let ranges = newest_ranges(ring.place, ring.size_bytes, ring.size_bytes / part);
            let copy = || copy(&file, ring.size_bytes, &ranges);
            let settled = settled_ring([copy()?, copy()?, copy()?], nonce);
            let is_enough = settled.chunk_bytes >= (ring.size_bytes / part / 2) as usize;
            let is_better = |best: &SettledRing| settled.chunk_bytes > best.chunk_bytes;
            if best.as_ref().is_none_or(is_better) {
                best = Some(settled);
            }
            if is_enough || !ring.has_evicted {
                break;
            }
        }
        let image = best.map(|it| it.image).unwrap_or_default();
        Self::of_content(Content::Copy(image), nonce)
    }

    fn of_content(content: Content, nonce: u64) -> io::Result<Option<Self>> {
        let file_bytes = content.len()?;
        if file_bytes < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; HEADER_BYTES];
        content.read_exact_at(&mut bytes, 0)?;
        let header = RingHeader::decode(&bytes);
        let Some(header) = header.filter(|header| header.nonce == nonce) else {
            return Ok(None);
        };
        let word = |index: usize| {
            let word = &bytes[8 * index..8 * index + 8];
            u64::from_le_bytes(word.try_into().expect("8 bytes"))
        };
        let size_bytes = file_bytes - HEADER_BYTES as u64;
        Ok(Some(Self {
            header,
            buffer_id: BufferId(word(ring_words::BUFFER_ID) as u16),
            has_evicted: word(ring_words::HAS_EVICTED) != 0,
            is_sealed: word(ring_words::IS_SEALED) != 0,
            place: Place::of_word(word(ring_words::PLACE)),
            size_bytes: u32::try_from(size_bytes).unwrap_or(u32::MAX),
            content,
        }))
    }

    /// Returns the size of the memory for slots.
    pub(crate) fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    /// Commits all chunks of the ring to `buffer`, oldest first. Notes the newest complete chunk of
    /// each writer in `newest`. Returns the number of damaged bytes.
    pub(crate) fn commit_to(
        &self,
        buffer: &mut TraceBuffer,
        client: ClientIdentity,
        newest: &mut HashMap<WriterId, ChunkId>,
    ) -> io::Result<u64> {
        let cursor = self.place.offset_bytes.min(self.size_bytes);
        let cursor = cursor - cursor % SLOT_HEADER_BYTES as u32;
        // Skip the place that was being written: its chunk is still in the shared memory.
        let behind = cursor
            .saturating_add(self.place.size_bytes)
            .min(self.size_bytes);
        let mut walk = Walk {
            ring: self,
            buffer,
            client,
            newest,
            window: Vec::new(),
            window_start: 0,
            damaged_bytes: 0,
        };
        walk.commit(behind, self.size_bytes)?;
        walk.commit(0, cursor)?;
        Ok(walk.damaged_bytes)
    }
}

/// Returns the ranges of the file that hold the newest `part_bytes` of a ring. A range may be
/// empty.
fn newest_ranges(place: Place, size_bytes: u32, part_bytes: u32) -> [Range<u64>; 2] {
    // Include the place that is being written, because it may still hold an old slot.
    let end = place.offset_bytes.saturating_add(place.size_bytes);
    let end = end.min(size_bytes);
    let before = end.min(part_bytes);
    let rest = (part_bytes - before).min(size_bytes - end);
    [end - before..end, size_bytes - rest..size_bytes].map(|range| {
        let in_file = |offset: u32| HEADER_BYTES as u64 + u64::from(offset);
        in_file(range.start)..in_file(range.end)
    })
}

/// Copies the header of a ring and parts of it. The rest of the copy is zero.
fn copy(file: &File, size_bytes: u32, ranges: &[Range<u64>]) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES + size_bytes as usize];
    file.read_exact_at(&mut bytes[..HEADER_BYTES], 0)?;
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            match file.read_at(&mut bytes[at as usize..range.end as usize], at)? {
                // The file has become shorter, because the process has freed a segment.
                0 => {
                    bytes.truncate(at as usize);
                    return Ok(bytes);
                }
                count => at += count as u64,
            }
        }
    }
    Ok(bytes)
}

struct Walk<'a> {
    ring: &'a RingFile,
    buffer: &'a mut TraceBuffer,
    client: ClientIdentity,
    newest: &'a mut HashMap<WriterId, ChunkId>,
    /// A part of the file, from `window_start` on.
    window: Vec<u8>,
    window_start: u32,
    damaged_bytes: u64,
}

impl Walk<'_> {
    /// Commits the chunks from `start` to `end`.
    fn commit(&mut self, start: u32, end: u32) -> io::Result<()> {
        const ALIGNMENT: u32 = SLOT_HEADER_BYTES as u32;
        let mut offset = start.next_multiple_of(ALIGNMENT);
        while offset
            .checked_add(ALIGNMENT)
            .is_some_and(|header_end| header_end <= end)
        {
            let nonce = self.ring.header.nonce;
            let bytes: [u8; SLOT_HEADER_BYTES] = self
                .bytes(offset, SLOT_HEADER_BYTES)?
                .try_into()
                .expect("as many");
            let header = SlotHeader::decode(bytes, offset, nonce);
            let header = header.filter(|it| it.size_bytes() as u64 <= u64::from(end - offset));
            let Some(header) = header else {
                if bytes == [0; SLOT_HEADER_BYTES] {
                    let rest = &self.window[(offset - self.window_start) as usize..];
                    offset += ALIGNMENT.max(zero_bytes(rest) as u32);
                } else {
                    self.damaged_bytes += u64::from(ALIGNMENT);
                    offset += ALIGNMENT;
                }
                continue;
            };
            self.commit_slot(offset, &header)?;
            offset += header.size_bytes() as u32;
        }
        Ok(())
    }

    fn commit_slot(&mut self, offset: u32, header: &SlotHeader) -> io::Result<()> {
        let SlotKind::Chunk {
            is_incomplete,
            is_aborted,
        } = header.state.kind
        else {
            return Ok(());
        };
        let payload_start = offset + SLOT_HEADER_BYTES as u32;
        let payload_bytes = usize::from(header.state.payload_bytes);
        let mut payload = self.bytes(payload_start, payload_bytes)?.to_vec();
        let mut fragments = count_fragments(&payload);
        if is_aborted {
            payload.extend_from_slice(&abandoned_size());
            fragments = fragments.saturating_add(1);
        }
        if is_incomplete {
            // The buffer leaves out the last fragment of an incomplete chunk, because its writer
            // may not have finished it. So add an empty fragment. Extend the payload to the room
            // that the slot has for the chunk, because the buffer reserves the length of the
            // payload.
            let room = usize::from(header.reserved_bytes).max(payload.len());
            payload.resize(room, 0);
            fragments = fragments.saturating_add(1);
        }
        if !is_incomplete {
            let newest = self.newest.entry(header.writer_id);
            let newest = newest.or_insert(header.chunk_id);
            if is_before(*newest, header.chunk_id) {
                *newest = header.chunk_id;
            }
        }
        self.buffer.commit_chunk(&UntrustedChunk {
            producer_id: PRODUCER,
            client: self.client,
            writer_id: header.writer_id,
            chunk_id: header.chunk_id,
            fragment_count: fragments,
            flags: header.state.flags,
            complete: !is_incomplete,
            payload: &payload,
        });
        Ok(())
    }

    /// Returns `len` bytes of the ring from `offset` on. They must be inside the ring. `len` must
    /// be at most `WINDOW_BYTES`.
    fn bytes(&mut self, offset: u32, len: usize) -> io::Result<&[u8]> {
        let window_end = u64::from(self.window_start) + self.window.len() as u64;
        let is_inside = offset >= self.window_start && u64::from(offset) + len as u64 <= window_end;
        if !is_inside {
            let rest = (self.ring.size_bytes - offset) as usize;
            self.window.resize(rest.min(WINDOW_BYTES), 0);
            self.window_start = offset;
            let position = HEADER_BYTES as u64 + u64::from(offset);
            self.ring
                .content
                .read_exact_at(&mut self.window, position)?;
        }
        let start = (offset - self.window_start) as usize;
        Ok(&self.window[start..start + len])
    }
}

/// Returns `ABANDONED_FRAGMENT_SIZE` as a varint of four bytes. A fragment with this size tells
/// that its writer has given up the packet.
fn abandoned_size() -> [u8; 4] {
    let size = ABANDONED_FRAGMENT_SIZE;
    [0, 7, 14, 21].map(|shift| (size >> shift) as u8 & 0x7f | if shift < 21 { 0x80 } else { 0 })
}

/// Counts the fragments of a payload, each of which begins with its size.
fn count_fragments(payload: &[u8]) -> u16 {
    let mut rest = payload;
    let mut fragments: u16 = 0;
    while !rest.is_empty() && fragments < u16::MAX {
        let (mut size, mut len) = (0, 0);
        for (index, byte) in rest.iter().take(4).enumerate() {
            size |= usize::from(byte & 0x7f) << (7 * index);
            len = index + 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let Some(behind) = rest.get(len + size..) else {
            break;
        };
        rest = behind;
        fragments += 1;
    }
    fragments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_counted_up_to_a_damaged_one() {
        assert_eq!(count_fragments(b""), 0);
        assert_eq!(count_fragments(b"\x03abc\x00\x81\x80\x80\x00x"), 3);
        assert_eq!(count_fragments(b"\x03abc\x05ab"), 1);
    }

    #[test]
    fn the_size_of_an_abandoned_packet_takes_four_bytes() {
        let bytes = abandoned_size();
        let size = bytes
            .iter()
            .rev()
            .fold(0, |size, byte| size << 7 | u32::from(byte & 0x7f));
        assert_eq!(size, ABANDONED_FRAGMENT_SIZE);
        assert!(bytes[..3].iter().all(|byte| byte & 0x80 != 0));
    }

    /// Returns the ranges as distances from the first slot, in a ring of 100 bytes.
    fn newest(offset_bytes: u32, size_bytes: u32, part_bytes: u32) -> [Range<u64>; 2] {
        let place = Place {
            offset_bytes,
            size_bytes,
        };
        let header = HEADER_BYTES as u64;
        newest_ranges(place, 100, part_bytes).map(|range| range.start - header..range.end - header)
    }

    #[test]
    fn the_newest_bytes_end_where_the_process_writes() {
        assert_eq!(newest(60, 0, 25), [35..60, 100..100]);
        assert_eq!(newest(60, 8, 25), [43..68, 100..100]);
        assert_eq!(newest(10, 0, 25), [0..10, 85..100]);
    }

    #[test]
    fn a_part_of_the_size_of_the_ring_is_all_of_it() {
        assert_eq!(newest(60, 8, 100), [0..68, 68..100]);
        assert_eq!(newest(0, 0, 100), [0..0, 0..100]);
        assert_eq!(newest(u32::MAX, 8, 100), [0..100, 100..100]);
    }
}
