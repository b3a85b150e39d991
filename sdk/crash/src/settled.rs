//! Copies of files that their process changes meanwhile.
//!
//! Each file is copied three times, one copy after the other. The image gets headers from the first
//! copy and payloads from the second. If all three copies have the same chunk at a place, the chunk
//! was there while the second copy was made. The part of the payload that the first header counts
//! was complete before that. The writer and the id identify a chunk. A writer uses an id again only
//! after 2^32 chunks, so a chunk cannot have left its place and come back.
//!
//! The shared memory is copied before the rings. So the service has already moved a chunk that is
//! no longer in the memory to its ring. If the image of a ring has a complete chunk of a writer,
//! the recovery leaves out this chunk and all earlier chunks of the writer in the image of the
//! memory. The ring has received these chunks, and may have overwritten them.
//!
//! A copy takes time, so it may have a writer's newer chunk and lack the chunk before. So two parts
//! of each writer's chunks are left out: the first chunk that the first copy lacks with all later
//! ones, and the last chunk that was overwritten meanwhile with all earlier ones. The remaining
//! chunks of the writer have no gap, as if the process had been killed.

use std::collections::{BTreeMap, HashMap, HashSet};

use tracezero_core::crash_files::format::{
    HEADER_BYTES, Meta, Place, SLOT_HEADER_BYTES, SlotHeader, SlotKind, ring_words,
};
use tracezero_core::ids::{ChunkId, WriterId};
use tracezero_core::shm::layout::CHUNK_HEADER_SIZE_BYTES;
use tracezero_core::shm::{ChunkState, Geometry, PageLayout, PageWord};

/// The first chunk of each writer that must be left out.
#[derive(Debug, Default)]
struct NewChunks(HashMap<WriterId, ChunkId>);

impl NewChunks {
    fn add(&mut self, writer: WriterId, id: ChunkId) {
        let first = self.0.entry(writer).or_insert(id);
        if is_before(id, *first) {
            *first = id;
        }
    }

    fn include(&self, writer: WriterId, id: ChunkId) -> bool {
        let first = self.0.get(&writer);
        first.is_some_and(|first| !is_before(id, *first))
    }
}

/// The last chunk of each writer that was overwritten meanwhile. All earlier chunks of the writer
/// must be left out, too. A copy takes time, so it may have only some of them.
#[derive(Debug, Default)]
struct LeftChunks(HashMap<WriterId, ChunkId>);

impl LeftChunks {
    fn add(&mut self, writer: WriterId, id: ChunkId) {
        let last = self.0.entry(writer).or_insert(id);
        if is_before(*last, id) {
            *last = id;
        }
    }

    fn include(&self, writer: WriterId, id: ChunkId) -> bool {
        let last = self.0.get(&writer);
        last.is_some_and(|last| !is_before(*last, id))
    }
}

/// Returns true if `id` is earlier than `other`. Ids wrap around.
pub(crate) fn is_before(id: ChunkId, other: ChunkId) -> bool {
    (id.0.wrapping_sub(other.0) as i32) < 0
}

/// A chunk in the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    layout: PageLayout,
    writer: WriterId,
    id: ChunkId,
}

/// Creates one image from three copies of the shared memory. In the image, chunks that did not stay
/// in their places all the time are free. Returns `None` if the size of a copy is not the size in
/// `meta`.
pub(crate) fn settled_memory(meta: &Meta, copies: [Vec<u8>; 3]) -> Option<Vec<u8>> {
    let (size_bytes, page_bytes) = (meta.memory_size_bytes, meta.page_size_bytes);
    let geometry = Geometry::new(size_bytes as usize, page_bytes as usize).ok()?;
    if copies
        .iter()
        .any(|copy| copy.len() != geometry.size_bytes())
    {
        return None;
    }
    let [first, mut image, last] = copies;
    let chunks_of = |copy: &[u8]| chunks(geometry, copy);
    let (before, between, after) = (chunks_of(&first), chunks_of(&image), chunks_of(&last));
    let mut new = NewChunks::default();
    for (offset, chunk) in &after {
        if before.get(offset) != Some(chunk) {
            new.add(chunk.writer, chunk.id);
        }
    }
    let page_bytes = geometry.page_size_bytes();
    for (page_index, first) in first.chunks_exact(page_bytes).enumerate() {
        let start = page_index * page_bytes;
        let word = page_word(first);
        let mut settled = word;
        for index in word.used_chunks() {
            let Some(layout) = word.layout() else {
                continue;
            };
            let at = layout.chunk_offset_bytes(page_bytes, index);
            let offset = start + at;
            let chunk = before.get(&offset);
            let is_settled = chunk.is_some_and(|chunk| {
                [&between, &after]
                    .iter()
                    .all(|copy| copy.get(&offset) == Some(chunk))
                    && !new.include(chunk.writer, chunk.id)
            });
            if is_settled {
                let header = &first[at..at + CHUNK_HEADER_SIZE_BYTES];
                image[offset..offset + CHUNK_HEADER_SIZE_BYTES].copy_from_slice(header);
            } else {
                settled = settled.with_state(index, ChunkState::Free);
            }
        }
        image[start..start + 4].copy_from_slice(&settled.bits().to_le_bytes());
    }
    Some(image)
}

fn page_word(page: &[u8]) -> PageWord {
    let word = page.first_chunk().expect("a page is not empty");
    PageWord::from_bits(u32::from_le_bytes(*word))
}

/// Returns the chunks in use, by their offset.
fn chunks(geometry: Geometry, memory: &[u8]) -> HashMap<usize, Chunk> {
    let page_bytes = geometry.page_size_bytes();
    let mut chunks = HashMap::new();
    for (page_index, page) in memory.chunks_exact(page_bytes).enumerate() {
        let word = page_word(page);
        let Some(layout) = word.layout() else {
            continue;
        };
        for index in (0..layout.chunk_count()).filter(|index| word.used_mask() & 1 << index != 0) {
            let at = layout.chunk_offset_bytes(page_bytes, index);
            let (id, rest) = page[at..].split_first_chunk().expect("8 bytes of header");
            let writer = rest.first_chunk().expect("8 bytes of header");
            let chunk = Chunk {
                layout,
                writer: WriterId(u16::from_le_bytes(*writer)),
                id: ChunkId(u32::from_le_bytes(*id)),
            };
            chunks.insert(page_index * page_bytes + at, chunk);
        }
    }
    chunks
}

/// An image of a ring's file.
#[derive(Debug)]
pub(crate) struct SettledRing {
    /// The bytes of the file. They are zero where no slot stayed in its place all the time.
    pub(crate) image: Vec<u8>,
    /// The total size of the slots with chunks.
    pub(crate) chunk_bytes: usize,
}

/// Creates one image from three copies of a ring's file.
pub(crate) fn settled_ring(copies: [Vec<u8>; 3], nonce: u64) -> SettledRing {
    let [first, mut image, last] = copies;
    // The copies may differ in length, because the process may have added or freed a segment.
    let len = first.len().min(image.len()).min(last.len());
    image.truncate(len);
    let header = len.min(HEADER_BYTES);
    image[..header].copy_from_slice(&first[..header]);
    settle_place(&mut image);
    let copies = [&first[..len], &image, &last[..len]];
    let [before, between, after] = [0, 1, 2].map(|own| slots(copies, own, nonce));
    let is_in = |copy: &BTreeMap<usize, SlotHeader>, at: usize, slot: &SlotHeader| {
        copy.get(&at).is_some_and(|other| is_same(slot, other))
    };
    let mut new = NewChunks::default();
    for (&at, slot) in &after {
        if !is_in(&before, at, slot) {
            new.add(slot.writer_id, slot.chunk_id);
        }
    }
    let is_in_place =
        |at: usize, slot: &SlotHeader| is_in(&between, at, slot) && is_in(&after, at, slot);
    // A chunk that grew may have moved to another slot. It counts as new, and not as overwritten.
    let present: HashSet<_> = after.values().map(key).collect();
    let mut left = LeftChunks::default();
    for (&at, slot) in &before {
        if !is_in_place(at, slot) && !present.contains(&key(slot)) {
            left.add(slot.writer_id, slot.chunk_id);
        }
    }
    let settled = before.iter().filter(|&(&at, slot)| {
        let (writer, id) = key(slot);
        is_in_place(at, slot) && !new.include(writer, id) && !left.include(writer, id)
    });
    let (mut end, mut chunk_bytes) = (header, 0);
    for (&at, slot) in settled {
        image[end..at].fill(0);
        // Use the header of the first copy: at that time, less of the chunk may have been valid.
        let bytes = slot.encode((at - HEADER_BYTES) as u32, nonce);
        image[at..at + SLOT_HEADER_BYTES].copy_from_slice(&bytes);
        end = at + slot.size_bytes();
        chunk_bytes += slot.size_bytes();
    }
    image[end..].fill(0);
    SettledRing { image, chunk_bytes }
}

/// Returns the chunks in the ring of which `copies[own]` is a copy, by their offset in the file.
fn slots(copies: [&[u8]; 3], own: usize, nonce: u64) -> BTreeMap<usize, SlotHeader> {
    let len = copies[own].len();
    let slot = |copy: &[u8], at: usize| {
        let bytes = *copy[at..].first_chunk()?;
        SlotHeader::decode(bytes, (at - HEADER_BYTES) as u32, nonce)
            .filter(|slot| at + slot.size_bytes() <= len)
    };
    let mut slots = BTreeMap::new();
    let mut at = HEADER_BYTES;
    while at + SLOT_HEADER_BYTES <= len {
        if let Some(found) = slot(copies[own], at) {
            if is_chunk(&found) {
                slots.insert(at, found);
            }
            at += found.size_bytes();
            continue;
        }
        // The process was writing a slot here. Some of the bytes may look like an old header, so
        // continue behind the slot that another copy has at this offset.
        let others = copies.iter().filter_map(|copy| slot(copy, at));
        let step = others.map(|slot| slot.size_bytes()).next();
        at += step.unwrap_or_else(|| zero_bytes(&copies[own][at..]).max(SLOT_HEADER_BYTES));
    }
    slots
}

/// Changes the header of the image so that no place counts as being written. Each slot of the image
/// is complete, even at the place that was being written when the header was copied: the slot may
/// have been finished since then, with newer slots behind it.
fn settle_place(image: &mut [u8]) {
    let at = 8 * ring_words::PLACE;
    if let Some(word) = image.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        let place = Place {
            size_bytes: 0,
            ..Place::of_word(u64::from_le_bytes(*word))
        };
        *word = place.to_word().to_le_bytes();
    }
}

/// Returns the number of zero bytes at the start of `bytes`, rounded down to a multiple of 4096.
/// The caller uses it to skip unused memory quickly.
pub(crate) fn zero_bytes(bytes: &[u8]) -> usize {
    const BLOCK: usize = 4096;
    let blocks = bytes.chunks_exact(BLOCK);
    let zeros = blocks.take_while(|block| *block == [0; BLOCK]);
    zeros.count() * BLOCK
}

fn is_chunk(slot: &SlotHeader) -> bool {
    matches!(slot.state.kind, SlotKind::Chunk { .. })
}

/// Returns the writer and the id of a chunk, which identify it.
fn key(slot: &SlotHeader) -> (WriterId, ChunkId) {
    (slot.writer_id, slot.chunk_id)
}

/// Returns true if two headers are of the same chunk in the same slot. The chunk may have grown.
fn is_same(one: &SlotHeader, other: &SlotHeader) -> bool {
    key(one) == key(other) && one.reserved_bytes == other.reserved_bytes
}

#[cfg(test)]
mod tests {
    use tracezero_core::crash_files::format::SlotState;
    use tracezero_core::shm::ChunkFlags;

    use super::*;

    const NONCE: u64 = 7;

    /// Creates a ring. Each item of `slots` is the writer and the id of a chunk with 16 bytes of
    /// payload, or `None` for padding.
    fn ring(slots: &[Option<(u16, u32)>]) -> Vec<u8> {
        let mut ring = vec![0; HEADER_BYTES];
        for slot in slots {
            let offset = ring.len() - HEADER_BYTES;
            let kind = match slot {
                Some(_) => SlotKind::Chunk {
                    is_incomplete: false,
                    is_aborted: false,
                },
                None => SlotKind::Padding,
            };
            let (writer, id) = slot.unwrap_or_default();
            let header = SlotHeader {
                chunk_id: ChunkId(id),
                writer_id: WriterId(writer),
                reserved_bytes: 16,
                state: SlotState {
                    payload_bytes: 16,
                    flags: ChunkFlags::NONE,
                    kind,
                },
            };
            ring.extend(header.encode(offset as u32, NONCE));
            ring.extend([id as u8; 16]);
        }
        ring
    }

    /// Returns the chunks in the image of three copies: writer, id and first byte.
    fn settled(copies: [&[Option<(u16, u32)>]; 3]) -> Vec<(u16, u32, u8)> {
        let SettledRing { image, .. } = settled_ring(copies.map(ring), NONCE);
        let slots = (HEADER_BYTES..image.len()).step_by(32).filter_map(|at| {
            let header = *image[at..].first_chunk()?;
            let header = SlotHeader::decode(header, (at - HEADER_BYTES) as u32, NONCE)?;
            Some((header.writer_id.0, header.chunk_id.0, image[at + 16]))
        });
        slots.collect()
    }

    #[test]
    fn a_ring_at_rest_stays_as_it_is() {
        let slots = [Some((1, 5)), None, Some((2, 9))];
        assert_eq!(settled([&slots; 3]), [(1, 5, 5), (2, 9, 9)]);
    }

    #[test]
    fn a_slot_that_was_replaced_is_left_out() {
        let before = [Some((1, 5)), Some((1, 6))];
        let after = [Some((1, 7)), Some((1, 6))];
        for copies in [[&before, &before, &after], [&before, &after, &after]] {
            assert_eq!(settled([copies[0], copies[1], copies[2]]), [(1, 6, 6)]);
        }
    }

    #[test]
    fn chunks_behind_a_gap_are_left_out() {
        // While the first copy was made, the service wrote chunk 6 to a place that was already
        // copied. Then it wrote chunk 7 to a place that was not yet copied.
        let first = [None, Some((1, 5)), Some((1, 7)), Some((2, 3))];
        let last = [Some((1, 6)), Some((1, 5)), Some((1, 7)), Some((2, 3))];
        assert_eq!(settled([&first, &last, &last]), [(1, 5, 5), (2, 3, 3)]);
    }

    #[test]
    fn chunks_before_one_that_was_overwritten_are_left_out() {
        // Chunks 5 and 6 were overwritten after chunk 5, and before chunk 6, was copied for the
        // last time.
        let first = [Some((1, 5)), Some((1, 6)), Some((1, 7))];
        let last = [Some((1, 5)), Some((2, 1)), Some((1, 7))];
        assert_eq!(settled([&first, &first, &last]), [(1, 7, 7)]);
    }

    #[test]
    fn a_chunk_that_has_moved_hides_no_older_one() {
        let first = [Some((1, 5)), Some((1, 6)), None];
        let last = [Some((1, 5)), None, Some((1, 6))];
        assert_eq!(settled([&first, &last, &last]), [(1, 5, 5)]);
    }

    const PAGE_BYTES: usize = 4096;

    fn meta() -> Meta {
        Meta {
            nonce: NONCE,
            boot_id: [0; 16],
            pid_namespace: 0,
            start_time_ticks: 0,
            pid: 1,
            uid: 0,
            created_unix_ns: 0,
            memory_size_bytes: PAGE_BYTES as u32,
            page_size_bytes: PAGE_BYTES as u32,
            process_name: String::new(),
        }
    }

    /// Creates a page with two chunks. Each item is the writer, the id and the number of packets of
    /// a chunk, or `None` for a free chunk.
    fn memory(chunks: [Option<(u16, u32, u8)>; 2]) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        let mut word = PageWord::partitioned(PageLayout::Two);
        for (index, chunk) in (0..).zip(chunks) {
            let Some((writer, id, packets)) = chunk else {
                continue;
            };
            word = word.with_state(index, ChunkState::BeingWritten);
            let at = PageLayout::Two.chunk_offset_bytes(PAGE_BYTES, index);
            page[at..at + 4].copy_from_slice(&id.to_le_bytes());
            page[at + 4..at + 6].copy_from_slice(&writer.to_le_bytes());
            page[at + 6] = packets;
            page[at + CHUNK_HEADER_SIZE_BYTES] = packets;
        }
        page[..4].copy_from_slice(&word.bits().to_le_bytes());
        page
    }

    /// Returns the chunks in the image of three copies: writer, id, number of packets, first byte.
    fn settled_chunks(copies: [[Option<(u16, u32, u8)>; 2]; 3]) -> Vec<(u16, u32, u8, u8)> {
        let image = settled_memory(&meta(), copies.map(memory)).unwrap();
        let geometry = Geometry::new(PAGE_BYTES, PAGE_BYTES).unwrap();
        let mut found: Vec<_> = chunks(geometry, &image).into_iter().collect();
        found.sort_by_key(|(offset, _)| *offset);
        let found = found.into_iter().map(|(at, chunk)| {
            let first = image[at + CHUNK_HEADER_SIZE_BYTES];
            (chunk.writer.0, chunk.id.0, image[at + 6], first)
        });
        found.collect()
    }

    #[test]
    fn a_chunk_that_grows_has_the_count_of_the_first_copy() {
        let copies = [1, 2, 3].map(|packets| [Some((1, 5, packets)), None]);
        assert_eq!(settled_chunks(copies), [(1, 5, 1, 2)]);
    }

    #[test]
    fn chunks_that_leave_or_come_meanwhile_are_free() {
        let left = [[Some((1, 5, 1)), Some((2, 3, 1))], [Some((1, 5, 1)), None]];
        assert_eq!(settled_chunks([left[0], left[0], left[1]]), [(1, 5, 1, 1)]);
        assert_eq!(settled_chunks([left[1], left[0], left[0]]), [(1, 5, 1, 1)]);
        let replaced = [[Some((1, 5, 1)), None], [Some((1, 6, 1)), None]];
        assert_eq!(settled_chunks([replaced[0], replaced[1], replaced[0]]), []);
    }

    #[test]
    fn chunks_after_one_that_came_meanwhile_are_free() {
        let first = [None, Some((1, 7, 1))];
        let last = [Some((1, 6, 1)), Some((1, 7, 1))];
        assert_eq!(settled_chunks([first, last, last]), []);
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        let whole = memory([None, None]);
        let copies = [whole.clone(), whole[1..].to_vec(), whole];
        assert_eq!(settled_memory(&meta(), copies), None);
    }

    #[test]
    fn ids_wrap_around() {
        assert!(is_before(ChunkId(u32::MAX), ChunkId(0)));
        assert!(!is_before(ChunkId(1), ChunkId(1)));
    }
}
